"""Ranges that follow from the integers of a model, without samples: bounds by interval arithmetic.

A DequantizeLinear gives the numbers of its integers, a function its values for the arguments within their bounds, a
product the sum of all its terms, a loop over time what its steps can reach. The number n + z·(h − n), z in 0..1, lies
between n and h, so that the state of a GRU stays in −1..1. Values that depend on an input in floats have no bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf, prod, sqrt

import numpy as np

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.onnx.evaluate.macs import is_product, macs_of
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.loops import TimeLoop, delayed_value, is_delay, loops_of
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.dtypes import dtype_of_name, integer_range, is_integer
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.quantization.ranges.assume import ELEMENTWISE, range_of_function
from onnx_hw.quantization.ranges.calibrate import Range

POINTS_PER_AXIS = (4097, 65, 17)
"""Points per axis at which a function of one, two or three tensors is evaluated, both ends included."""

MAX_STEPS = 1024
"""Steps of time after which a state that still grows counts as unbounded."""

MAX_ELEMENTS = 1 << 22
"""Greatest tensor that an average or a sum is computed of."""

MAX_NORMALIZED = 1024
"""Greatest tensor of normalized numbers whose bound, the root of its size, is near to data."""

MAX_STATE = 128
"""Greatest bound of a state that grows from step to step: 16 bits for it have steps of 1/128 or less."""

MAX_MAGNITUDE = 1e6
"""Greatest bound."""


@dataclass(frozen=True)
class DerivedRange(Range):
    """Bounds of a value.

    Attributes:
        loose: whether real data hardly comes near to them, as those of a sum of many products.
    """

    loose: bool = field(default=False, kw_only=True)


def derive_ranges(model: Model, names: Collection[str]) -> Mapping[str, DerivedRange]:
    """Return bounds of values of a folded float32 model.

    Raises:
        UserError: a value has none.
    """
    bounds = _Bounds(model.graph)
    for name in names:
        if name not in bounds.ranges:
            raise _samples_missing(name, "no integers of the model bound it")
    return {name: bounds.ranges[name] for name in names}


def refuse_loose(spans: Mapping[str, Range], chosen: Collection[str]) -> None:
    """Raise UserError where the scale of a value would follow from a loose bound; ``chosen`` have other scales."""
    for name, span in spans.items():
        if isinstance(span, DerivedRange) and span.loose and name not in chosen:
            raise _samples_missing(name, "its bounds are far from its data")


def _samples_missing(name: str, why: str) -> UserError:
    return user_error(
        "calibration-missing",
        f"`{name}` must have a scale, and {why}",
        hint="give samples with --calibration",
        stage="quantize",
    )


class _Bounds:
    """Walk over the nodes of a graph.

    Attributes:
        ranges: bounds of the values that have some.
        numbers: constants, and the numbers that constant integers stand for.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.numbers = graph, dict(graph.constants)
        self.known = replace(graph, constants=self.numbers)
        self.ranges: dict[str, DerivedRange] = {}
        self.makers = {name: node for node in graph.nodes for name in node.outputs if name}
        loops = loops_of(graph.nodes)
        inside = {id(node) for loop in loops.values() for node in loop.nodes}
        run: set[int] = set()
        for node in graph.nodes:
            if is_delay(node):
                loop = loops[node.outputs[0]]
                if id(loop) not in run:
                    run.add(id(loop))
                    self._run(loop)
            elif id(node) not in inside:
                self._visit(node)

    def _visit(self, node: Node) -> None:
        if all(name in self.numbers for name in names_read(node)) and names_read(node):
            try:
                arrays = compute(node, [self.numbers.get(name) for name in node.inputs])
            except UserError:
                return
            self.numbers |= {name: np.asarray(a) for name, a in zip(node.outputs, arrays, strict=False) if name}
            return
        found = self._of_node(node)
        for name in node.outputs:
            self.ranges.pop(name, None)
            if found is not None and name and max(-found.low, found.high) <= MAX_MAGNITUDE:
                self.ranges[name] = found

    def _run(self, loop: TimeLoop) -> None:
        """Set the bounds of the values in a loop, or none where a state grows without end.

        A state that weights multiply may grow up to 1.
        """
        for delay in loop.delays:
            first = self._operand(delay.inputs[0])
            if first is None:
                return
            self.ranges[delay.outputs[0]] = first
        states = [delay.outputs[0] for delay in loop.delays]
        grown: set[str] = set()
        for _ in range(min(loop.steps, MAX_STEPS)):
            for node in loop.nodes:
                self._visit(node)
            grown = set()
            for delay, name in zip(loop.delays, states, strict=True):
                of = self.ranges.get(delayed_value(delay))
                hull = None if of is None else _hull(self.ranges[name], of)
                if hull != self.ranges[name]:
                    grown.add(name)
                    self.ranges[name] = hull or DerivedRange(-inf, inf)
            if not grown:
                return
        multiplied = {name for node in loop.nodes if is_product(node) for name in node.inputs}
        sizes = {name: max(-self.ranges[name].low, self.ranges[name].high) for name in grown}
        if loop.steps > MAX_STEPS or any(
            size > (1 if name in multiplied else MAX_STATE) for name, size in sizes.items()
        ):
            for name in (*loop.results, *states):
                self.ranges.pop(name, None)

    def _of_node(self, node: Node) -> DerivedRange | None:
        facts = facts_of(node)
        if facts.effect is Effect.DEQUANTIZES:
            return self._of_integers(node)
        operands = [self._operand(name) for name in node.inputs if name and self._is_real(name)]
        if not operands or any(operand is None for operand in operands):
            return None if facts.within is None else DerivedRange(float(facts.within[0]), float(facts.within[1]))
        known = [operand for operand in operands if operand is not None]
        if facts.effect in ELEMENTWISE:
            return self._between(node) or self._of_function(node, loose=any(operand.loose for operand in known))
        if facts.effect is Effect.SUMS or is_product(node):
            return self._of_sums(node, known)
        if facts.effect is Effect.JOINS:
            return _hull(*known)
        if facts.effect is Effect.NORMALIZES:
            return self._of_normalized(node, known)
        if facts.effect is Effect.KEEPS and not is_delay(node):
            zero = DerivedRange(0.0, 0.0, loose=known[0].loose)
            return known[0] if facts.moves else _hull(*known, zero)
        return None

    def _is_real(self, name: str) -> bool:
        if name in self.numbers:
            return self.numbers[name].dtype.kind == "f"
        value = self.graph.values.get(name)
        return value is None or value.element_type == "float"

    def _operand(self, name: str) -> DerivedRange | None:
        if name in self.ranges:
            return self.ranges[name]
        array = self.numbers.get(name)
        if array is None or array.dtype.kind != "f" or not array.size or not np.isfinite(array).all():
            return None
        return DerivedRange(float(array.min()), float(array.max()))

    def _of_integers(self, node: Node) -> DerivedRange | None:
        """Return the numbers that all integers of a type stand for."""
        value = self.graph.values.get(node.inputs[0])
        if value is None or not is_integer(dtype_of_name(value.element_type)):
            return None
        others = [self.numbers.get(name) for name in node.inputs[1:] if name]
        if any(array is None for array in others):
            return None
        scale, zero = np.asarray(others[0], dtype=np.float64), others[1] if len(others) > 1 else None
        lowest, highest = integer_range(dtype_of_name(value.element_type))
        offset = np.zeros(1) if zero is None else np.asarray(zero, dtype=np.float64)
        low, high = ((lowest - offset) * scale).min(), ((highest - offset) * scale).max()
        return DerivedRange(float(low), float(high))

    def _of_function(self, node: Node, *, loose: bool) -> DerivedRange | None:
        with np.errstate(all="ignore"):
            found = range_of_function(node, self.known, self.ranges, POINTS_PER_AXIS)
        if found is None:
            return None
        within = facts_of(node).within
        return DerivedRange(found.low, found.high, loose=loose and within is None)

    def _between(self, node: Node) -> DerivedRange | None:
        """Return the bounds of a + z·(b − a), with z in 0..1; None for other nodes."""
        if facts_of(node).effect is not Effect.ADDS or len(node.inputs) != 2:
            return None
        for a, product in (node.inputs, node.inputs[::-1]):
            scaled = self.makers.get(product)
            if scaled is None or scaled.op_type != "Mul":
                continue
            for share, difference in (scaled.inputs, scaled.inputs[::-1]):
                taken = self.makers.get(difference)
                of_share = self._operand(share)
                if taken is None or taken.op_type != "Sub" or taken.inputs[1] != a or of_share is None:
                    continue
                ends = self._operand(a), self._operand(taken.inputs[0])
                if ends[0] is not None and ends[1] is not None and of_share.low >= 0 and of_share.high <= 1:
                    return _hull(ends[0], ends[1])
        return None

    def _of_sums(self, node: Node, operands: list[DerivedRange]) -> DerivedRange | None:
        """Return the bounds of a product with constants, of two tensors, or of a sum or an average of elements."""
        place, data = facts_of(node).weights, operands[0]
        weights = None if place is None or place.at >= len(node.inputs) else self.numbers.get(node.inputs[place.at])
        if place is not None and weights is not None and node.inputs[0] in self.ranges:
            low, high = min(data.low, 0.0), max(data.high, 0.0)
            rows = np.moveaxis(weights.astype(np.float64), place.axis_of_outputs(node, weights.ndim), 0)
            rows = rows.reshape(len(rows), -1)
            up, down = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
            below, above = (operands[2].low, operands[2].high) if len(operands) > 2 else (0.0, 0.0)
            return DerivedRange(
                float((up * low + down * high).min()) + min(below, 0.0),
                float((up * high + down * low).max()) + max(above, 0.0),
                loose=True,
            )
        shape = self._shape(node.inputs[0])
        if shape is None:
            return None
        if place is None and not is_product(node) and prod(shape) <= MAX_ELEMENTS:
            ends = []
            for end in (data.low, data.high):
                given = [np.full(shape, end, dtype=np.float32), *(self.numbers.get(name) for name in node.inputs[1:])]
                try:
                    (result,) = compute(node, given)
                except UserError:
                    return None
                ends += [float(np.min(result)), float(np.max(result))]
            return DerivedRange(min(ends), max(ends), loose=data.loose)
        results, macs = self._shape(node.outputs[0]), macs_of(node, self.graph)
        if results is not None and macs and len(operands) == 2:
            terms = macs / prod(results)
            size = terms * max(-data.low, data.high) * max(-operands[1].low, operands[1].high)
            return DerivedRange(-size, size, loose=True)
        return None

    def _of_normalized(self, node: Node, operands: list[DerivedRange]) -> DerivedRange | None:
        """Return the bounds of numbers whose squares have a mean of 1 at most, times a scale, plus a bias."""
        shape = self._shape(node.inputs[0])
        if shape is None:
            return None
        sizes = [max(-operand.low, operand.high) for operand in operands[1:]]
        end = sqrt(prod(shape)) * (sizes[0] if sizes else 1.0) + (sizes[1] if len(sizes) > 1 else 0.0)
        return DerivedRange(-end, end, loose=prod(shape) > MAX_NORMALIZED)

    def _shape(self, name: str) -> tuple[int, ...] | None:
        value = self.graph.values.get(name)
        sizes = () if value is None or value.shape is None else value.shape
        known = tuple(size for size in sizes if isinstance(size, int))
        return known if known and len(known) == len(sizes) else None


def _hull(*ranges: DerivedRange) -> DerivedRange:
    low, high = min((r.low for r in ranges), default=inf), max((r.high for r in ranges), default=-inf)
    return DerivedRange(low, high, loose=any(r.loose for r in ranges))
