"""Small quantized models, drawn or by hand, written with the onnx package and read back by the product."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import onnx
from onnx import TensorProto, helper, numpy_helper


class Sketch:
    """An ONNX graph under construction."""

    def __init__(self, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.opset = opset

    def constant(self, array: npt.ArrayLike) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: object) -> str:
        output = f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=f"the_{output}", **attributes))
        return output

    def dequantized(
        self, array: npt.ArrayLike, scale: npt.ArrayLike, zero: npt.ArrayLike | None = None, axis: int = 0
    ) -> str:
        inputs = [self.constant(array), self.constant(np.asarray(scale, dtype=np.float32))]
        if zero is not None:
            inputs.append(self.constant(zero))
        return self.node("DequantizeLinear", *inputs, axis=axis)

    def through_integers(self, value: str, scale: npt.ArrayLike, zero: npt.ArrayLike, dtype: type = np.int8) -> str:
        scale_name, zero_name = self.constant(np.float32(scale)), self.constant(np.array(zero, dtype=dtype))
        stored = self.node("QuantizeLinear", value, scale_name, zero_name)
        return self.node("DequantizeLinear", stored, scale_name, zero_name)

    def model(
        self, shape: Sequence[int], element: int, output: str, rank: int, result: int | None = None
    ) -> onnx.ModelProto:
        """From ``x`` to one output; element types as numbers, the output's being inferred unless it is given."""
        graph = helper.make_graph(
            self.nodes,
            "sketch",
            [helper.make_tensor_value_info("x", element, shape)],
            [helper.make_tensor_value_info(output, result or self._element(output), [None] * rank)],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def _element(self, output: str) -> int:
        """Of a QuantizeLinear's result: that of its zero point."""
        (node,) = (node for node in self.nodes if output in node.output)
        return next(constant.data_type for constant in self.constants if constant.name == node.input[2])

    def write(self, path: Path, shape: Sequence[int], output: str, rank: int = 4) -> Path:
        onnx.save(self.model(shape, TensorProto.FLOAT, output, rank, TensorProto.FLOAT), path)
        return path
