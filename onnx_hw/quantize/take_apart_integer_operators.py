"""QLinearConv, QLinearMatMul, QLinearAdd ... as what they mean: DequantizeLinear, the operator, QuantizeLinear.

Two forms of quantized models are about: operators between QuantizeLinear and DequantizeLinear, and operators that take
the integers with their scales and zero points. Behind this pass there is only the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.onnx.model import Graph, Model, Node, Value
from onnx_hw.onnx.unused_name import unused_name

QDQ_VERSION = 21
"""Opset since which QuantizeLinear knows 16 bits."""


@dataclass(frozen=True)
class Form:
    """How an operator takes its inputs.

    Attributes:
        operator: of real numbers, and the opset whose meaning it has.
        data: index of (integers, scale, zero point) of each operand.
        result: index of (scale, zero point) of the result.
        axis: of the scales of the second operand, where there is one per channel.
        bias: index of int32 integers whose scale is the product of the operands'.
    """

    operator: tuple[str, int]
    data: tuple[int, ...]
    result: int
    axis: int = 0
    bias: int | None = None


MICROSOFT = "com.microsoft"
FORMS = {
    ("", "QLinearConv"): Form(("Conv", 11), (0, 3), 6, 0, 8),
    (MICROSOFT, "QLinearConv"): Form(("Conv", 11), (0, 3), 6, 0, 8),
    ("", "QLinearMatMul"): Form(("MatMul", 13), (0, 3), 6, 1),
    (MICROSOFT, "QLinearAdd"): Form(("Add", 13), (0, 3), 6),
    (MICROSOFT, "QLinearMul"): Form(("Mul", 13), (0, 3), 6),
    (MICROSOFT, "QLinearSigmoid"): Form(("Sigmoid", 13), (0,), 3),
    (MICROSOFT, "QLinearLeakyRelu"): Form(("LeakyRelu", 6), (0,), 3),
    (MICROSOFT, "QLinearAveragePool"): Form(("AveragePool", 11), (0,), 3),
    (MICROSOFT, "QLinearGlobalAveragePool"): Form(("GlobalAveragePool", 1), (0,), 3),
    (MICROSOFT, "QLinearReduceMean"): Form(("ReduceMean", 13), (0,), 3),
    (MICROSOFT, "QGemm"): Form(("Gemm", 13), (0, 3), 7, 1, 6),
}
INTEGER_OPERATORS = frozenset((*FORMS, (MICROSOFT, "QLinearConcat")))
"""(domain, operator)."""


def take_apart_integer_operators(model: Model) -> Model:
    """The same model with real numbers between its integers; operators in a form that has no counterpart stay."""
    return replace(model, graph=_Apart(model.graph).graph)


class _Apart:
    """Rewrites node after node."""

    def __init__(self, graph: Graph) -> None:
        self.constants, self.values = dict(graph.constants), dict(graph.values)
        self.nodes: list[Node] = []
        self.taken = {*graph.values, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}
        for node in graph.nodes:
            self._visit(node)
        self.graph = replace(graph, nodes=tuple(self.nodes), constants=self.constants, values=self.values)

    def _visit(self, node: Node) -> None:
        form = FORMS.get((node.domain, node.op_type))
        if node.domain == MICROSOFT and node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            self.nodes.append(replace(node, domain="", version=QDQ_VERSION))
        elif node.domain == MICROSOFT and node.op_type == "QLinearConcat":
            parts = [self._dequantized(node, k, 0) for k in range(2, len(node.inputs), 3)]
            self._operator(node, ("Concat", 13), parts, 0)
        elif form is None or node.attributes.get("channels_last", 0) or len(node.inputs) <= form.result:
            self.nodes.append(node)
        elif form.bias is None or len(node.inputs) <= form.bias or not node.inputs[form.bias]:
            self._operator(node, form.operator, self._operands(node, form), form.result)
        elif (scale := self._scale_of_products(node, form)) is not None:
            bias = self._dequantized_bias(node, form.bias, scale)
            self._operator(node, form.operator, [*self._operands(node, form), bias], form.result)
        else:
            self.nodes.append(node)

    def _unused(self, name: str) -> str:
        name = unused_name(name, self.taken)
        self.taken.add(name)
        return name

    def _operands(self, node: Node, form: Form) -> list[str]:
        axis = 0 if form.axis and node.attributes.get("transB", 0) else form.axis
        return [self._dequantized(node, at, axis if k else 0) for k, at in enumerate(form.data)]

    def _dequantized(self, node: Node, at: int, axis: int) -> str:
        result = self._unused(f"{node.outputs[0]}/operand{at}")
        inputs = tuple(node.inputs[at : at + 3])
        self.nodes.append(Node("", "DequantizeLinear", "", QDQ_VERSION, inputs, (result,), {"axis": axis}))
        return result

    def _dequantized_bias(self, node: Node, at: int, scale: np.ndarray) -> str:
        name, result = (self._unused(f"{node.outputs[0]}/{what}") for what in ("bias_scale", "bias"))
        self.constants[name] = scale
        self.values[name] = Value(name, "float", scale.shape)
        inputs = (node.inputs[at], name)
        self.nodes.append(Node("", "DequantizeLinear", "", QDQ_VERSION, inputs, (result,), {"axis": 0}))
        return result

    def _scale_of_products(self, node: Node, form: Form) -> np.ndarray | None:
        """float32, one number or one per output; None where the scales are not constant."""
        scales = [self.constants.get(node.inputs[at + 1]) for at in form.data]
        if any(scale is None for scale in scales):
            return None
        product = np.array(node.attributes.get("alpha", 1.0), dtype=np.float32)
        for scale in scales:
            product = np.asarray(product * np.asarray(scale, dtype=np.float32))
        return product.reshape(-1 if product.size > 1 else ())

    def _operator(self, node: Node, operator: tuple[str, int], operands: list[str], result: int) -> None:
        op_type, version = operator
        real = self._unused(f"{node.outputs[0]}/real")
        attributes = {name: value for name, value in node.attributes.items() if name != "channels_last"}
        self.nodes.append(
            replace(
                node,
                op_type=op_type,
                domain="",
                version=version,
                inputs=tuple(operands),
                outputs=(real,),
                attributes=attributes,
            )
        )
        inputs = (real, *node.inputs[result : result + 2])
        self.nodes.append(Node("", "QuantizeLinear", "", QDQ_VERSION, inputs, node.outputs))
