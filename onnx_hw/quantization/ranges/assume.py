"""Assumed ranges for a float model without data: what every value might be, by rules, without running the model.

They serve for a verdict: whether a model can become hardware depends on shapes and on which values are negative, not on
exact scales. A function's range is that of its values between those of its arguments, an average's that of its data, a
product's as large as independent terms make it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import LINEAR_EFFECTS, Effect
from onnx_hw.quantization.ranges.calibrate import Range
from onnx_hw.quantization.ranges.synthetic import range_of_input

POINTS_PER_AXIS = (33, 9, 5)
"""Points per axis at which a function of one, two or three tensors is evaluated."""

MAX_MAGNITUDE = 1e6
"""Greatest assumed magnitude; the least one of a value that is not 0 is its inverse."""

UNKNOWN = Range(-1.0, 1.0)
"""Range of a value that the host computes."""

ELEMENTWISE = LINEAR_EFFECTS | {Effect.BOUNDS, Effect.BENDS}


def assume_ranges(model: Model, names: Collection[str] | None = None) -> dict[str, Range]:
    """Return a range for each float and integer value of a folded model; it holds 0 or not, as a real one might.

    Args:
        names: names of the wanted values; None for all.
    """
    graph = model.graph
    ranges = {value.name: range_of_input(value.element_type) for value in graph.inputs}
    for node in graph.nodes:
        result = _bounded(_of_node(node, graph, ranges))
        ranges |= {name: result for name in node.outputs if name}
    return ranges if names is None else {name: ranges[name] for name in names}


def _of_node(node: Node, graph: Graph, ranges: Mapping[str, Range]) -> Range:
    data = [ranges[name] for name in node.inputs if name in ranges]
    effect = facts_of(node).effect
    if data and effect in ELEMENTWISE:
        return range_of_function(node, graph, ranges) or _hull(data)
    if data and effect is Effect.SUMS:
        return _of_sums(node, graph, ranges)
    if data and effect is Effect.KEEPS:
        return data[0]
    return _hull(data) if data and effect is Effect.JOINS else UNKNOWN


def _hull(ranges: Sequence[Range]) -> Range:
    return Range(min(r.low for r in ranges), max(r.high for r in ranges))


def _bounded(of: Range) -> Range:
    low, high = (float(np.clip(end, -MAX_MAGNITUDE, MAX_MAGNITUDE)) for end in (of.low, of.high))
    return Range(low, high) if max(-low, high) >= 1 / MAX_MAGNITUDE else Range(min(low, 0.0), 1 / MAX_MAGNITUDE)


def range_of_function(
    node: Node, graph: Graph, ranges: Mapping[str, Range], points_per_axis: Sequence[int] = POINTS_PER_AXIS
) -> Range | None:
    """Return the range of a function on a grid of its arguments, without what is not finite; None where it cannot be
    computed.
    """
    names = [name for name in dict.fromkeys(node.inputs) if name in ranges]
    if len(names) > len(points_per_axis):
        return None
    axes = [np.linspace(ranges[name].low, ranges[name].high, points_per_axis[len(names) - 1]) for name in names]
    points = dict(zip(names, (grid.reshape(-1) for grid in np.meshgrid(*axes)), strict=True))
    constants = [name for name in dict.fromkeys(node.inputs) if name in graph.constants]
    plain = Node(node.name, node.op_type, node.domain, node.version, node.inputs, node.outputs, {
        key: value for key, value in node.attributes.items() if key not in ("axis", "broadcast")
    })  # fmt: skip
    result: list[float] = []
    for ends in product(*(_ends(graph.constants[name]) for name in constants)):
        given = {**points, **dict(zip(constants, ends, strict=True))}
        try:
            (values, *_) = compute(plain, [given.get(name) for name in node.inputs])
        except UserError:
            return None
        finite = np.asarray(values, dtype=np.float64)
        finite = finite[np.isfinite(finite)]
        result += [float(finite.min()), float(finite.max())] if finite.size else []
    return Range(min(result), max(result)) if result else None


def _ends(constant: np.ndarray) -> Sequence[np.ndarray]:
    """Return the least and the greatest number of a constant, each as a tensor without axes."""
    if not constant.size or constant.dtype.kind not in "fiu":
        return (constant,)
    kind = np.float64 if constant.dtype.kind == "f" else constant.dtype
    low, high = (np.asarray(end, dtype=kind) for end in (constant.min(), constant.max()))
    return (low,) if low == high else (low, high)


def _of_sums(node: Node, graph: Graph, ranges: Mapping[str, Range]) -> Range:
    """Return the range of an average, which is that of its data, or of a sum of products of independent terms."""
    data = ranges.get(node.inputs[0], UNKNOWN)
    second = node.inputs[1] if len(node.inputs) > 1 else ""
    place = facts_of(node).weights
    weights = graph.constants.get(node.inputs[place.at]) if place is not None else None
    if place is None or weights is None or weights.dtype.kind != "f" or not weights.size:
        return data if second not in ranges else UNKNOWN
    low, high = float(weights.min()), float(weights.max())
    axis = place.axis_of_outputs(node, weights.ndim)
    axes = list(range(weights.ndim))
    squares = np.einsum(weights, axes, weights, axes, [axis], dtype=np.float64)
    size = max(-data.low, data.high) * float(np.sqrt(squares.max()))
    corners = [a * b for a, b in product((data.low, data.high), (low, high))]
    bias = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    below, above = (0.0, 0.0) if bias is None or not bias.size else (float(bias.min()), float(bias.max()))
    return Range(below - size * (min(corners) < 0), above + size * (max(corners) > 0))
