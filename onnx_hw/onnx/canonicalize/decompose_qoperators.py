"""Decomposition of QLinearConv, QLinearMatMul, QLinearAdd ... into DequantizeLinear, the operator, and QuantizeLinear.

Quantized models have two forms: operators between DequantizeLinear and QuantizeLinear (QDQ), and operators that take
the integers with their scales and zero points (QOperator). Behind this pass there is only QDQ. A Clip between
QuantizeLinear and DequantizeLinear, which narrows the integers to fewer bits than the type has, is moved before both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect, Means, Weights

QDQ_VERSION = 21
"""First opset whose QuantizeLinear has 16 bits."""

SOFTMAX_VERSION = 13
"""First opset whose Softmax has one axis."""

FLOAT = 1
"""Code of float32 in TensorProto.DataType."""

MICROSOFT = "com.microsoft"


def decompose_qoperators(model: Model) -> Model:
    """Return the same model in QDQ form; operators in a form without a counterpart stay."""
    return replace(model, graph=_QOperatorRewriter(model.graph).graph)


class _QOperatorRewriter:
    """Rewriter that visits node after node."""

    def __init__(self, graph: Graph) -> None:
        self.added = Additions(graph)
        self.nodes: list[Node] = []
        self.makers = {name: node for node in graph.nodes for name in node.outputs}
        for node in graph.nodes:
            self._visit(node)
        self.graph = self.added.graph(self.nodes)

    def _visit(self, node: Node) -> None:
        facts = facts_of(node)
        if node.domain == MICROSOFT and facts.effect in SCALE_EFFECTS:
            self.nodes.append(replace(node, domain="", version=QDQ_VERSION))
        elif node.domain == MICROSOFT and node.op_type == "QLinearConcat":
            parts = [self._dequantized(node, k, 0) for k in range(2, len(node.inputs), 3)]
            self._operator(node, ("Concat", 13), parts, 0)
        elif node.domain == MICROSOFT and node.op_type == "QLinearSoftmax":
            version = SOFTMAX_VERSION if node.attributes["opset"] >= SOFTMAX_VERSION else 1
            with_axis = replace(node, attributes={"axis": node.attributes.get("axis", -1)})
            self._operator(with_axis, ("Softmax", version), [self._dequantized(node, 0, 0)], 3)
        elif node.domain == MICROSOFT and node.op_type == "QLinearWhere":
            parts = [node.inputs[0], *(self._dequantized(node, k, 0) for k in (1, 4))]
            self._operator(node, ("Where", 16), parts, 7)
        elif facts.means is not None and facts.rounded is not None:
            self._between_integers(node, facts.means, facts.rounded)
        elif facts.effect is Effect.BOUNDS and (maker := self._quantizer_before(node)) is not None:
            self._bound_before(node, maker)
        else:
            self.nodes.append(node)

    def _quantizer_before(self, node: Node) -> Node | None:
        """Return the QuantizeLinear whose integers a node bounds, if scale and bounds are constants; else None."""
        maker = self.makers.get(node.inputs[0])
        if maker is None or facts_of(maker).effect is not Effect.QUANTIZES or len(node.inputs) < 2:
            return None
        wanted = [name for name in (*maker.inputs[1:3], *node.inputs[1:3]) if name]
        known = [self.added.constants.get(name) for name in wanted]
        real = self.added.values.get(maker.inputs[0])
        plain = real is not None and real.element_type == "float"
        return maker if plain and all(array is not None and array.size == 1 for array in known) else None

    def _bound_before(self, node: Node, maker: Node) -> None:
        """Move a bound before the QuantizeLinear: its real numbers, as floats, round to the same integers again."""
        scale, *zero = (self.added.constants[name] for name in maker.inputs[1:3] if name)
        least = int(zero[0].item()) if zero else 0
        real = self.added.value(f"{node.outputs[0]}/real", self.added.values[maker.inputs[0]])
        bounds = [name and self._real_bound(node, name, least, scale.item()) for name in node.inputs[1:3]]
        clip = replace(node, op_type="Clip", version=QDQ_VERSION, inputs=(maker.inputs[0], *bounds), outputs=(real,))
        self.nodes += [clip, replace(maker, inputs=(real, *maker.inputs[1:]), outputs=node.outputs)]

    def _real_bound(self, node: Node, name: str, zero: int, scale: float) -> str:
        bound = np.array((self.added.constants[name].item() - zero) * scale, dtype=np.float32)
        return self.added.constant(f"{node.outputs[0]}/real_bound", bound, "float")

    def _between_integers(self, node: Node, means: Means, result: int) -> None:
        turned = node.attributes.get("channels_last", 0)
        if len(node.inputs) <= result or (turned and not self._rank(node.inputs[0])):
            self.nodes.append(node)
        elif means.bias is None or len(node.inputs) <= means.bias or not node.inputs[means.bias]:
            self._operator(node, means.operator, self._operands(node, means), result)
        elif (scale := self._scale_of_products(node, means)) is not None:
            bias = self._dequantized_bias(node, means.bias, scale)
            if "alpha" in node.attributes:  # the bias has this factor, too
                node = replace(node, attributes={**node.attributes, "beta": node.attributes["alpha"]})
            self._operator(node, means.operator, [*self._operands(node, means), bias], result)
        else:
            self.nodes.append(node)

    def _operands(self, node: Node, means: Means) -> list[str]:
        weights = facts_of(node).weights
        return [
            self._dequantized(node, at, self._axis_of_outputs(node, weights) if weights and at == weights.at else 0)
            for at in means.data
        ]

    def _rank(self, name: str) -> int:
        """Return the number of axes of a value; 0 where it is not known."""
        return len(self.added.values[name].shape or ()) if name in self.added.values else 0

    def _transposed(self, name: str, result: str, order: tuple[int, ...]) -> str:
        self.nodes.append(Node("", "Transpose", "", QDQ_VERSION, (name,), (result,), {"perm": order}))
        return result

    def _axis_of_outputs(self, node: Node, weights: Weights) -> int:
        return weights.axis_of_outputs(node, self._rank(node.inputs[weights.at]) or 2)

    def _dequantized(self, node: Node, at: int, axis: int) -> str:
        result = self.added.name(f"{node.outputs[0]}/operand{at}")
        inputs = tuple(node.inputs[at : at + 3])
        self.nodes.append(Node("", "DequantizeLinear", "", QDQ_VERSION, inputs, (result,), {"axis": axis}))
        return result

    def _dequantized_bias(self, node: Node, at: int, scale: np.ndarray) -> str:
        name = self.added.constant(f"{node.outputs[0]}/bias_scale", scale, "double")
        wide, result = (self.added.name(f"{node.outputs[0]}/{what}") for what in ("wide_bias", "bias"))
        inputs = (node.inputs[at], name)
        self.nodes.append(Node("", "DequantizeLinear", "", QDQ_VERSION, inputs, (wide,), {"axis": 0}))
        self.nodes.append(Node("", "Cast", "", QDQ_VERSION, (wide,), (result,), {"to": FLOAT}))
        return result

    def _scale_of_products(self, node: Node, means: Means) -> np.ndarray | None:
        """Return the exact product of two float32 scales, float64, one number or one per output; None if it varies."""
        scales = [self.added.constants.get(node.inputs[at + 1]) for at in means.data]
        if any(scale is None for scale in scales):
            return None
        product = np.array(1.0)
        for scale in scales:
            product = np.asarray(product * np.asarray(scale, dtype=np.float64))
        return product.reshape(-1 if product.size > 1 else ())

    def _operator(self, node: Node, operator: tuple[str, int], operands: list[str], result: int) -> None:
        op_type, version = operator
        real = self.added.name(f"{node.outputs[0]}/real")
        attributes = {name: value for name, value in node.attributes.items() if name != "channels_last"}
        rank = self._rank(node.inputs[0]) if node.attributes.get("channels_last", 0) else 0
        if rank:
            first = self.added.name(f"{node.outputs[0]}/channels_first")
            operands = [self._transposed(operands[0], first, (0, rank - 1, *range(1, rank - 1))), *operands[1:]]
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
        if rank:
            real = self._transposed(real, self.added.name(f"{node.outputs[0]}/channels_last"), (0, *range(2, rank), 1))
        inputs = (real, *node.inputs[result : result + 2])
        self.nodes.append(Node("", "QuantizeLinear", "", QDQ_VERSION, inputs, node.outputs))
