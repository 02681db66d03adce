"""Decomposition of DynamicQuantizeLinear, MatMulInteger, ConvInteger and their fusions into products of real numbers.

    x ≈ s·(q − z)       Σ (q − z)·(w − v) · (s·t)  ≈  Σ x·(t·(w − v))

Hardware has no scale that is chosen anew for each sample: behind this pass such data is in floats, and gets one scale
from samples like all data without integers. Weights keep their integers. Data with a constant scale loses nothing.
Operators in a form without a counterpart stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.messages.errors import user_error
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded, fold
from onnx_hw.onnx.graph.element_types import BY_CODE, BY_NAME
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect

VERSION = 21
"""Opset of the quantizers and casts."""

MATMUL = "MatMul", 13
CONV = "Conv", 11
"""Products of real numbers, and the opset whose definition they have."""

LSTM_VERSION = 14
"""Opset of an LSTM."""

MICROSOFT = "com.microsoft"


def count_dynamic_scales(model: Model) -> int:
    """Count the nodes that quantize data with a scale that each sample chooses anew."""
    return sum(facts_of(node).chooses_scale for node in model.graph.nodes)


def require_samples(model: Model, *, given: bool) -> None:
    """Raise UserError if there are no samples and the model chooses its scales for each sample."""
    count = count_dynamic_scales(model)
    if count and not given:
        raise user_error(
            "scales-of-samples",
            f"`{model.name}` must come with samples: {count} of its scales are chosen for each sample anew, and"
            " hardware needs fixed ones",
            hint="give samples like the data with --calibration: the scales are frozen to what they need",
            stage="quantize",
        )


def decompose_dynamic_quantization(model: Model) -> Model:
    """Return the same model with products of real numbers, without the rounding of such data."""
    nodes = model.graph.nodes
    if not any((node.domain, node.op_type) in MEANINGS for node in nodes):
        return model
    model = fold(model, keep=lambda node: facts_of(node).effect in (Effect.DEQUANTIZES, Effect.SNAPS))
    return drop_unneeded(replace(model, graph=_DynamicRewriter(model.graph).graph))


@dataclass(frozen=True)
class _Unfinished:
    """Product whose weights have no scale yet.

    Attributes:
        node: product of integers.
        operator: operator of real numbers, and the opset whose definition it has.
        data: name of the real numbers.
        weights, zero: names of the weights' integers, and of their zero point; empty without one.
    """

    node: Node
    operator: tuple[str, int]
    data: str
    weights: str
    zero: str


@dataclass(frozen=True)
class _Counted:
    """Integers that stand for real numbers: integer − zero = real / (product of scales).

    Attributes:
        real: name of the numbers, or the product that makes them.
        scales: names of the scales that samples choose, sorted.
        zero: name of the zero point; empty without one.
    """

    real: str | _Unfinished
    scales: tuple[str, ...] = ()
    zero: str = ""


class _DynamicRewriter:
    """Rewriter that visits node after node; each node also stays, for readers that use it in another way."""

    def __init__(self, graph: Graph) -> None:
        self.added = Additions(graph)
        self.constants = self.added.constants
        self.nodes: list[Node] = []
        self.counted: dict[str, _Counted] = {}
        self.scales: dict[str, tuple[tuple[str, ...], np.ndarray | None]] = {}  # values: scales of data, and a factor
        for node in graph.nodes:
            if not FORMS.get((node.domain, node.op_type), _DynamicRewriter.moved)(self, node):
                self.nodes.append(node)
        self.graph = self.added.graph(self.nodes)

    def _add(self, op_type: str, inputs: tuple[str, ...], result: str, **attributes: int) -> str:
        self.nodes.append(Node("", op_type, "", VERSION, inputs, (result,), attributes))
        return result

    # ---- integers that stand for real numbers: a form returns whether the node is replaced --------------------

    def quantizer(self, node: Node) -> bool:
        integers, scale, zero = node.outputs
        self.counted[integers] = _Counted(node.inputs[0], (scale,), zero)
        self.scales[scale] = (scale,), None
        return False

    def dequantizer(self, node: Node) -> bool:
        value, zero = self.counted.get(node.inputs[0]), (*node.inputs, "")[2]
        none = zero in self.constants and not self.constants[zero].any()
        if value is None or not (value.zero == zero or (none and not value.zero)):
            return False
        return self._times(value, node.inputs[1], node)

    def mul(self, node: Node) -> bool:
        for data, factor in (node.inputs, node.inputs[::-1]):
            value = self.counted.get(data)
            if value is not None and not value.zero and self._times(value, factor, node):
                return True
        known = [self.scales.get(name, ((), self.constants.get(name))) for name in node.inputs]
        if all(scales or factor is not None for scales, factor in known) and any(scales for scales, _ in known):
            factors = [factor for _, factor in known if factor is not None]
            product = None if not factors else factors[0] if len(factors) == 1 else factors[0] * factors[1]
            self.scales[node.outputs[0]] = tuple(sorted((*known[0][0], *known[1][0]))), product
        return False

    def cast(self, node: Node) -> bool:
        value = self.counted.get(node.inputs[0])
        to = BY_CODE.get(node.attributes.get("to", 0))
        if value is None or value.zero or to is None or not np.issubdtype(to.dtype, np.floating):
            return False
        if value.scales:
            self.counted[node.outputs[0]] = value
            return False
        self._add("Cast", (self._real(value),), node.outputs[0], to=to.code)
        return True

    def moved(self, node: Node) -> bool:
        """Move the real numbers of integers that are only moved."""
        value = self.counted.get(node.inputs[0]) if node.inputs else None
        if value is None or facts_of(node).effect is not Effect.KEEPS or len(node.outputs) > 1 or node.op_type == "Pad":
            return False
        real = self.added.name(f"{node.outputs[0]}/real")
        self.nodes.append(replace(node, inputs=(self._real(value), *node.inputs[1:]), outputs=(real,)))
        self.counted[node.outputs[0]] = replace(value, real=real)
        return False

    # ---- products ------------------------------------------------------------------------------------------------

    def _operand(self, node: Node, at: int, zero: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the real numbers of data that a product of integers centres, and their scales; None for other data."""
        name = node.inputs[at]
        value = self.counted.get(name)
        if value is not None:
            return (self._real(value), value.scales) if value.zero == zero else None
        if zero and (zero not in self.constants or self.constants[zero].size > 1):
            return None
        one = self.added.constant(f"{name}/one", np.array(1, dtype=np.float32), "float")
        return self._dequantized(name, one, zero, 0), ()

    def _dequantized(self, name: str, scale: str, zero: str, axis: int) -> str:
        inputs = (name, scale, zero) if zero else (name, scale)
        return self._add("DequantizeLinear", inputs, self.added.name(f"{name}/dequantized"), axis=axis)

    def product(self, node: Node, operator: tuple[str, int]) -> bool:
        zeros = [(*node.inputs, "", "")[at] for at in (2, 3)]
        data = self._operand(node, 0, zeros[0])
        if data is None:
            return False
        real, scales = data
        weights, zero = node.inputs[1], zeros[1]
        if weights in self.constants and (not zero or zero in self.constants):
            self.counted[node.outputs[0]] = _Counted(_Unfinished(node, operator, real, weights, zero), scales)
        else:
            other = self._operand(node, 1, zero)
            if other is None:
                return False
            product = self._finished(node, operator, (real, other[0]))
            self.counted[node.outputs[0]] = _Counted(product, tuple(sorted((*scales, *other[1]))))
        value = self.counted[node.outputs[0]]
        if value.scales:
            return False
        self._add("Cast", (self._real(value),), node.outputs[0], to=BY_NAME["int32"].code)
        return True

    def _finished(self, node: Node, operator: tuple[str, int], operands: tuple[str, ...], result: str = "") -> str:
        op_type, version = operator
        result = result or self.added.name(f"{node.outputs[0]}/real")
        value = replace(node, op_type=op_type, domain="", version=version, inputs=operands, outputs=(result,))
        self.nodes.append(value)
        return result

    def _weighted(self, pending: _Unfinished, factor: np.ndarray | None, result: str = "") -> str | None:
        """Add the product with a factor; the weights take the part of it that is one number per output."""
        at = facts_of(pending.node).weights
        assert at is not None  # of every product of integers
        rank = self.constants[pending.weights].ndim
        axis = at.axis_of_outputs(pending.node, rank)
        outputs = self.constants[pending.weights].shape[axis]
        factor = np.array(1, dtype=np.float32) if factor is None else factor
        if factor.size > 1:
            shape = (1,) * (rank - factor.ndim) + factor.shape
            if shape[at.channel] != factor.size or factor.size != outputs:
                return None
        column = factor.reshape(() if factor.size == 1 else -1)
        zero = pending.zero
        counts = {column.size, self.constants[zero].size if zero else 1}
        if counts != {column.size}:
            if self.constants[zero].size == 1:
                element_type = self.added.values[zero].element_type
                many = np.broadcast_to(self.constants[zero].reshape(()), column.shape)
                zero = self.added.constant(f"{zero}/each", many, element_type)
            elif self.constants[zero].ndim == 1:
                column = np.broadcast_to(column.reshape(()), self.constants[zero].shape)
            else:
                return None
        elif zero and self.constants[zero].ndim != column.ndim:
            element_type = self.added.values[zero].element_type
            zero = self.added.constant(f"{zero}/shaped", self.constants[zero].reshape(column.shape), element_type)
        kind = "float16" if column.dtype == np.float16 else "float"
        scale = self.added.constant(f"{pending.weights}/scale", column, kind)
        return self._finished(
            pending.node,
            pending.operator,
            (pending.data, self._dequantized(pending.weights, scale, zero, axis)),
            result,
        )

    def _real(self, value: _Counted) -> str:
        if isinstance(value.real, str):
            return value.real
        found = self._weighted(value.real, None)
        assert found is not None  # without a factor there is nothing that would not fit
        return found

    def _times(self, value: _Counted, factor: str, node: Node) -> bool:
        """Make a node's result: the numbers, times what should be their scale, and a constant."""
        scales, constant = self.scales.get(factor, ((), self.constants.get(factor)))
        if scales != value.scales or (not scales and constant is None):
            return False
        if isinstance(value.real, _Unfinished) and self._weighted(value.real, constant, node.outputs[0]):
            return True
        if constant is None:
            self._add("Identity", (self._real(value),), node.outputs[0])
            return True
        if constant.ndim == 1 and constant.size > 1 and node.op_type == "DequantizeLinear":
            return False
        name = factor if factor in self.constants else self.added.constant(f"{factor}/factor", constant, "float")
        self._add("Mul", (self._real(value), name), node.outputs[0])
        return True

    def product_to_floats(self, node: Node) -> bool:
        _, weights, scale, weight_scale, zero, weight_zero, bias = (*node.inputs, "", "", "")[:7]
        value = self.counted.get(node.inputs[0])
        if value is not None and value.scales == (scale,) and value.zero == zero:
            data = self._real(value)
        elif scale in self.constants and (not zero or zero in self.constants):
            data = self._dequantized(node.inputs[0], scale, zero, 0)
        else:
            return False
        return self._with_bias(node, data, weights, weight_scale, weight_zero, bias)

    def product_of_floats(self, node: Node) -> bool:
        data, weights, scale, zero, bias = (*node.inputs, "", "")[:5]
        return self._with_bias(node, data, weights, scale, zero, bias)

    def lstm_of_floats(self, node: Node) -> bool:
        names = (*node.inputs[3:8], *[""] * 5)[:5]
        weights = node.inputs[1:3], node.inputs[8::2], node.inputs[9::2]
        if not all(name in self.constants for of in weights for name in of):
            return False
        real = [self._lstm_weights(*of) for of in zip(*weights, strict=True)]
        inputs = (node.inputs[0], *real, *names)
        self.nodes.append(replace(node, op_type="LSTM", domain="", version=LSTM_VERSION, inputs=inputs))
        return True

    def _lstm_weights(self, name: str, scale: str, zero: str) -> str:
        """Add weights of real numbers (directions, gates, columns) of integers (directions, columns, gates)."""
        stored = self.constants[name]
        directions, columns, gates = stored.shape
        rows = self.added.constant(
            f"{name}/rows",
            np.ascontiguousarray(stored.swapaxes(1, 2)).reshape(-1, columns),
            self.added.values[name].element_type,
        )
        each = [
            self.added.constant(
                f"{of}/rows",
                np.broadcast_to(self.constants[of].reshape(directions, -1), (directions, gates)).reshape(-1),
                self.added.values[of].element_type,
            )
            for of in (scale, zero)
        ]
        shape = self.added.constant(f"{name}/shape", np.array((directions, gates, columns), dtype=np.int64), "int64")
        return self._add(
            "Reshape", (self._dequantized(rows, each[0], each[1], 0), shape), self.added.name(f"{name}/real")
        )

    def _with_bias(self, node: Node, data: str, weights: str, scale: str, zero: str, bias: str) -> bool:
        if not all(name in self.constants for name in (weights, scale, *((zero,) if zero else ()))):
            return False
        pending = _Unfinished(node, MATMUL, data, weights, zero)
        product = self.added.name(f"{node.outputs[0]}/product") if bias else node.outputs[0]
        if self._weighted(pending, self.constants[scale], product) is None:
            return False
        if bias:
            self._add("Add", (product, bias), node.outputs[0])
        return True


# ---- by operator ------------------------------------------------------------------------------------------------

Form = Callable[[_DynamicRewriter, Node], bool]
"""Function that records what a node's results stand for, or makes them; returns whether it is replaced."""

FORMS: dict[tuple[str, str], Form] = {}

MEANINGS: dict[tuple[str, str], str] = {}
"""Decomposed operators, and a description of their decomposition."""


def form(domain: str, op_type: str, meaning: str = "") -> Callable[[Form], Form]:
    """Register the decomposition of an operator; ``meaning`` describes its result for the table of operators."""

    def register(function: Form) -> Form:
        FORMS[domain, op_type] = function
        if meaning:
            MEANINGS[domain, op_type] = meaning
        return function

    return register


@form("", "DynamicQuantizeLinear", "before a product; its scale is frozen by samples")
def _quantizer(rewriter: _DynamicRewriter, node: Node) -> bool:
    """Record what a DynamicQuantizeLinear computes."""
    return rewriter.quantizer(node)


@form("", "MatMulInteger", "as MatMul, with the scales around it")
def _matmul(rewriter: _DynamicRewriter, node: Node) -> bool:
    """Decompose a MatMulInteger."""
    return rewriter.product(node, MATMUL)


@form("", "ConvInteger", "as Conv, with the scales around it")
def _conv(rewriter: _DynamicRewriter, node: Node) -> bool:
    """Decompose a ConvInteger."""
    return rewriter.product(node, CONV)


@form(MICROSOFT, "MatMulIntegerToFloat", "as MatMul and Add")
def _matmul_to_floats(rewriter: _DynamicRewriter, node: Node) -> bool:
    """Decompose a MatMulIntegerToFloat."""
    return rewriter.product_to_floats(node)


@form(MICROSOFT, "DynamicQuantizeMatMul", "as MatMul and Add; the scale of its data is frozen by samples")
def _matmul_of_floats(rewriter: _DynamicRewriter, node: Node) -> bool:
    """Decompose a DynamicQuantizeMatMul."""
    return rewriter.product_of_floats(node)


@form(MICROSOFT, "DynamicQuantizeLSTM", "as LSTM; the scales of its data and states are frozen by samples")
def _lstm_of_floats(rewriter: _DynamicRewriter, node: Node) -> bool:
    """Decompose a DynamicQuantizeLSTM."""
    return rewriter.lstm_of_floats(node)


form("", "DequantizeLinear")(_DynamicRewriter.dequantizer)
form("", "Mul")(_DynamicRewriter.mul)
form("", "Cast")(_DynamicRewriter.cast)
