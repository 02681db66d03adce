"""Insertion of quantizers: a float model becomes a QDQ model, with integers of any width.

The model, the names of the values to quantize, and their ranges or integers go in; the QDQ model comes out. Data has
one scale, weights have one or one per output channel. ``post_training`` calls it for float models, ``complete`` for
values that a quantized model lacks.

Integers of a width that ONNX does not have are stored in its next wider type. Numbers are then clipped before they are
quantized, and the bounds of the Clip say how many integers are used.

QuantizeLinear and DequantizeLinear go behind chosen values, for all readers except nodes that quantize them already.
Biases and other constants stay float: the requantization takes their exact value. Weights that are quantized already
keep their integers.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import replace
from fractions import Fraction
from math import lcm

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.lower.builder import INTEGER_TYPES
from onnx_hw.messages.errors import user_error
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.loops import delayed_value, is_delay
from onnx_hw.onnx.graph.model import Model, Node, Value
from onnx_hw.onnx.operators.facts import Effect, Weights
from onnx_hw.onnx.operators.registry import facts_of, node_location
from onnx_hw.quantization.decisions import IntegerDecisions, StoredTerm
from onnx_hw.quantization.ranges.calibrate import Range
from onnx_hw.quantization.scheme import DEFAULT, Scheme

VERSION = 13
"""Opset of the inserted nodes: the first with scales along an axis."""

TIMES, CLIPPED = "/times", "/clipped"
"""Parts of the names of inserted values: multiples of the numbers for which integers stand, numbers within bounds."""

FIRST_OPSET = {2: 25, 4: 21, 8: VERSION, 16: 21, 32: VERSION}
"""First opset whose QuantizeLinear has integers of a width, by bits."""


def float_weights(node: Node, constants: Container[str]) -> Weights | None:
    """Return where a node has constant float weights to be quantized; None if it has none."""
    facts = facts_of(node)
    at = facts.weights if facts.effect is Effect.SUMS else None
    return at if at is not None and node.inputs[at.at] in constants else None


def divides_multiples(node: Node) -> bool:
    """Return whether a node is the division behind an inserted DequantizeLinear: no float32 is the exact scale."""
    return node.op_type == "Div" and TIMES in node.inputs[0]


def clips_to_integers(node: Node) -> bool:
    """Return whether a node is the Clip before an inserted QuantizeLinear of integers that fill no ONNX type."""
    return node.op_type == "Clip" and CLIPPED in node.outputs[0]


def insert_quantization(
    model: Model,
    points: Collection[str],
    ranges: Mapping[str, Range],
    head: Collection[str] = (),
    scheme: Scheme = DEFAULT,
    integers: IntegerDecisions | None = None,
) -> Model:
    """Return the QDQ model of a folded model of float values; ``ranges`` are those of ``calibrate``.

    Args:
        points: names of the values to quantize.
        head: names of values that the host computes from floats.
        scheme: scheme of the integers.
        integers: integers that are chosen already; their values need no range.

    Raises:
        UserError: weights are not finite; the scheme names what is not quantized.
    """
    graph = model.graph
    scheme.check_names(points, [node.label for node in graph.nodes if float_weights(node, graph.constants)])
    outputs = {value.name for value in graph.outputs}
    added = Additions(graph)
    rewriter = _Rewriter(added, scheme, integers or IntegerDecisions())
    nodes: list[Node] = []
    renamed: dict[str, str] = {}
    for value in graph.inputs:
        if value.name in points:
            renamed[value.name] = rewriter.data(nodes, value.name, value.name, ranges.get(value.name))
    for node in graph.nodes:
        plain = facts_of(node).effect in (Effect.QUANTIZES, Effect.SNAPS) or any(name in head for name in node.outputs)
        inputs = [name if plain else renamed.get(name, name) for name in node.inputs]
        if at := float_weights(node, graph.constants):
            inputs[at.at] = rewriter.weights(nodes, node, inputs[at.at], at)
        inputs = [rewriter.term(nodes, name) if name in rewriter.known.terms else name for name in inputs]
        results = list(node.outputs)
        for k, name in enumerate(results):
            if name in points and name in outputs:  # the graph's output keeps its name: it is the dequantized value
                results[k] = added.value(f"{name}/float", graph.values[name])
                after: list[Node] = []
                rewriter.data(after, results[k], name, ranges.get(name), result=name)
                renamed[name] = name
                nodes.append(replace(node, inputs=tuple(inputs), outputs=tuple(results)))
                nodes += after
                break
        else:
            nodes.append(replace(node, inputs=tuple(inputs), outputs=tuple(results)))
            for name in results:
                if name in points:
                    renamed[name] = rewriter.data(nodes, name, name, ranges.get(name))
    nodes = rewriter.with_states(nodes)
    newest = max((node.version for node in nodes if not node.domain), default=VERSION)
    opsets = {**model.opsets, "": max(newest, model.opsets.get("", VERSION))}
    return drop_unneeded(replace(model, graph=added.graph(nodes), opsets=opsets))


class _Rewriter:
    """Editor that adds constants and pairs of QuantizeLinear and DequantizeLinear."""

    def __init__(self, added: Additions, scheme: Scheme, known: IntegerDecisions) -> None:
        self.added, self.scheme, self.known = added, scheme, known
        self.stored: dict[str, tuple[str, Grid]] = {}  # integers of each value, and their grid

    def data(self, nodes: list[Node], source: str, name: str, span: Range | None, result: str = "") -> str:
        """Quantize and dequantize a value, and return the name of the dequantized one.

        0 is exact, and so is a step that is not a float32: it is divided once more.
        """
        grid = self.known.data.get(name)
        if grid is None:
            assert span is not None  # of a value whose integers are not known
            grid = self.scheme.data_precision(name).data_grid(span)
        element_type, version = _storage_type(grid)
        scale_name, zero_name = self._scales(name, grid, element_type)
        if grid.dtype != INTEGER_TYPES[element_type]:
            source = self._clipped(nodes, source, name, grid)
        stored = self.added.value(
            f"{name}/{element_type}", replace(self.added.values[source], element_type=element_type)
        )
        result = result or self.added.value(f"{name}/dequantized", self.added.values[source])
        nodes.append(Node(stored, "QuantizeLinear", "", version, (source, scale_name, zero_name), (stored,)))
        self.stored[name] = stored, grid
        self._dequantize(nodes, name, stored, (scale_name, zero_name), grid, result)
        return result

    def _dequantize(
        self, nodes: list[Node], name: str, stored: str, scales: tuple[str, str], grid: Grid, result: str
    ) -> None:
        """Dequantize integers of a value's grid."""
        (step,) = grid.step
        scale_name, zero_name = scales
        version = _storage_type(grid)[1]
        if Fraction(float(np.float32(float(step)))) == step:
            nodes.append(Node("", "DequantizeLinear", "", version, (stored, scale_name, zero_name), (result,)))
            return
        over, under = (
            self.added.constant(f"{name}/{what}", np.array(number, dtype=np.float32), "float")
            for what, number in (("numerator", step.numerator), ("denominator", step.denominator))
        )
        times = self.added.value(f"{name}{TIMES}", self.added.values[result])
        nodes.append(Node("", "DequantizeLinear", "", version, (stored, over, zero_name), (times,)))
        nodes.append(Node("", "Div", "", VERSION, (times, under), (result,)))

    def with_states(self, nodes: list[Node]) -> list[Node]:
        """Return the nodes with delays of integers, dequantized, in place of those of values that have integers."""
        changed: list[Node] = []
        for node in nodes:
            known = self.stored.get(delayed_value(node)) if is_delay(node) else None
            if known is None:
                changed.append(node)
                continue
            (initial,), (result,), (of, grid) = node.inputs, node.outputs, known
            element_type, _ = _storage_type(grid)
            integers = grid.integers(self.added.constants[initial]).astype(BY_NAME[element_type].dtype)
            first = self.added.constant(f"{result}/initial", integers, element_type)
            stored = self.added.value(
                f"{result}/{element_type}", replace(self.added.values[result], element_type=element_type)
            )
            attributes = {**node.attributes, "of": of}
            changed.append(replace(node, inputs=(first,), outputs=(stored,), attributes=attributes))
            self._dequantize(changed, result, stored, self._scales(result, grid, element_type), grid, result)
        return changed

    def _clipped(self, nodes: list[Node], source: str, name: str, grid: Grid) -> str:
        """Clip a value to the least and the greatest number of a grid; return the name of the result."""
        ends = [float(grid.real(end)) for end in (grid.low, grid.high)]
        bounds = [
            self.added.constant(f"{name}/{what}", np.array(end, dtype=np.float32), "float")
            for what, end in zip(("least", "greatest"), ends, strict=True)
        ]
        result = self.added.value(f"{name}{CLIPPED}", self.added.values[source])
        nodes.append(Node("", "Clip", "", VERSION, (source, *bounds), (result,)))
        return result

    def _scales(self, name: str, grid: Grid, element_type: str, *, axis: bool = False) -> tuple[str, str]:
        """Add scale and zero point as constants, scalars unless ``axis`` says that there is one; return their names."""
        scale, zero = (np.array([float(v) for v in numbers]) for numbers in (grid.step, grid.zero_point))
        if axis:
            zero = np.broadcast_to(zero, scale.shape)
        else:
            scale, zero = scale.reshape(()), zero.reshape(())
        dtype = BY_NAME[element_type].dtype
        return (
            self.added.constant(f"{name}/scale", scale.astype(np.float32), "float"),
            self.added.constant(f"{name}/zero_point", zero.astype(dtype), element_type),
        )

    def weights(self, nodes: list[Node], node: Node, name: str, at: Weights) -> str:
        """Add weights as integers, dequantized; return the name of the dequantized weights."""
        weights = self.added.constants[name]
        if not np.isfinite(weights).all():
            raise user_error(
                "weights-not-finite",
                f"weights must be finite numbers; those of this {node.op_type} contain NaN or infinity",
                where=node_location(node),
                hint="look at the weights, and at the constants and attributes of the nodes around it",
                stage="quantize",
            )
        axis = at.axis_of_outputs(node, weights.ndim)
        known = self.known.weights.get(node.outputs[0])
        grid = self.scheme.weight_precision(node.label).weight_grid(weights, axis) if known is None else known.grid
        dtype = BY_NAME[_storage_type(grid)[0]].dtype
        integers = grid.integers(weights, axis, dtype) if known is None else known.integers
        return self._constant(nodes, f"{name}/{node.label}", integers, grid, axis)

    def term(self, nodes: list[Node], name: str) -> str:
        """Add a bias term with its new numbers; return its name."""
        known = self.known.terms[name]
        if isinstance(known, StoredTerm):
            return self._constant(nodes, name, known.integers, Grid.over(Int(32), known.step), 0)
        return self.added.constant(f"{name}/floats", known, "float")

    def _constant(self, nodes: list[Node], prefix: str, integers: np.ndarray, grid: Grid, axis: int) -> str:
        """Add integers of a grid, dequantized, with a division where the steps are not float32; return the name."""
        element_type, version = _storage_type(grid)
        common = lcm(*(_odd(step.denominator) for step in grid.step))
        integers = integers.astype(BY_NAME[element_type].dtype, copy=False)
        stored = self.added.constant(f"{prefix}/{element_type}", integers, element_type)
        counted = Grid.over(grid.dtype, [step * common for step in grid.step], grid.zero_point)
        along = len(grid.step) > 1
        scales = self._scales(prefix, counted, element_type, axis=along)
        value = Value(prefix, "float", tuple(integers.shape))
        result = self.added.value(f"{prefix}/dequantized", value)
        attributes = {"axis": axis} if along else {}
        nodes.append(Node("", "DequantizeLinear", "", version, (stored, *scales), (result,), attributes))
        if common == 1:
            return result
        divided = self.added.value(f"{prefix}/divided", value)
        under = self.added.constant(f"{prefix}/denominator", np.array(common, dtype=np.float32), "float")
        nodes.append(Node("", "Div", "", VERSION, (result, under), (divided,)))
        return divided


def _odd(number: int) -> int:
    """Divide a positive number by its factors 2."""
    return number // (number & -number)


def _storage_type(grid: Grid) -> tuple[str, int]:
    """Return the narrowest ONNX type for the integers of a grid, and the first opset that has it."""
    bits = min(bits for bits in FIRST_OPSET if bits >= grid.bits)
    return f"{'' if grid.dtype.signed else 'u'}int{bits}", FIRST_OPSET[bits]
