"""Small networks for audio, drawn by seed: 1-D convolutions with a residual addition, as float models."""

from __future__ import annotations

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

MIN_WEIGHTS, MAX_WEIGHTS = 720, 830


class AudioNetwork:
    """A drawn network of some 772 weights.

    Attributes:
        model: the float model, one frame a run.
        samples: (32, channels, length) float32, to calibrate with.
        weights: number of weights.
    """

    def __init__(self, seed: int) -> None:
        for attempt in range(10_000):
            self._random = np.random.default_rng([seed, attempt])
            self._nodes: list[onnx.NodeProto] = []
            self._constants: list[onnx.TensorProto] = []
            self.weights = 0
            self._draw(f"audio{seed}")
            if MIN_WEIGHTS <= self.weights <= MAX_WEIGHTS:
                return
        raise AssertionError("no such network was drawn")

    def _draw(self, name: str) -> None:
        one_of = lambda *values: int(self._random.choice(values))  # noqa: E731
        length, channels, classes = one_of(64, 96, 128), one_of(1, 2, 3, 4), one_of(*range(4, 11))
        inner, stride, pool = one_of(8, 10, 12, 16), one_of(1, 2, 4), one_of(0, 0, 2, 4)
        x = self._convolution("stem", "audio", channels, inner, one_of(3, 5, 7, 9), stride)
        left = -(-length // stride)
        if pool:
            x, left = self._add("MaxPool", [x], "pool", kernel_shape=[pool], strides=[pool]), left // pool
        two = bool(one_of(0, 1))
        y = self._convolution("first", x, inner, inner, one_of(1, 3), bends=two)
        if two:
            y = self._convolution("second", y, inner, inner, one_of(1, 3), bends=False)
        shortcut = x if one_of(0, 0, 0, 1) == 0 else self._convolution("shortcut", x, inner, inner, 1, bends=False)
        x, last = self._add("Relu", [self._add("Add", [y, shortcut], "sum")], "sum_relu"), inner
        further = one_of(0, 8, 10, 12, 16)
        if further:
            stride = one_of(1, 2)
            x, last, left = (
                self._convolution("last", x, inner, further, one_of(1, 3), stride),
                further,
                -(-left // stride),
            )
        features = last * left
        if features > 64 or one_of(0, 1):
            x, features = self._add("GlobalAveragePool", [x], "mean"), last
        flat = self._add("Flatten", [x], "flat")
        self._add(
            "Gemm",
            [flat, self._constant("fc.weight", classes, features), self._bias("fc.bias", classes)],
            "y",
            transB=1,
        )
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, channels, length])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, classes])],
            self._constants,
        )
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        self.samples = self._random.standard_normal((32, channels, length)).astype(np.float32)

    def _convolution(
        self, name: str, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, *, bends: bool = True
    ) -> str:
        pads = [(kernel - 1) // 2] * 2
        constants = [self._constant(f"{name}.weight", outputs, inputs, kernel), self._bias(f"{name}.bias", outputs)]
        y = self._add("Conv", [x, *constants], name, kernel_shape=[kernel], strides=[stride], pads=pads)
        return self._add("Relu", [y], f"{name}_relu") if bends else y

    def _add(self, operator: str, inputs: list[str], name: str, **attributes: object) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def _constant(self, name: str, *shape: int) -> str:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        self._constants.append(
            numpy_helper.from_array((self._random.standard_normal(shape) * scale).astype(np.float32), name)
        )
        self.weights += int(np.prod(shape))
        return name

    def _bias(self, name: str, size: int) -> str:
        self._constants.append(
            numpy_helper.from_array((self._random.standard_normal(size) / 10).astype(np.float32), name)
        )
        return name
