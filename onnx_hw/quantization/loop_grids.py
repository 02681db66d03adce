"""Grids of the values in a loop over time: steps that are powers of two, by what a value is in its cell.

A loop rounds its state in every step, so that its grids must not depend on chance, and a sum must not round twice. With
b bits (8 by default; ``Scheme.data_precision`` of each value):

* the result of a function within 0 .. 1, such as Sigmoid: steps of 1 / 2^b, both ends included;
* the result of a function within −1 .. 1, such as Tanh, and a state of such numbers: steps of 1 / 2^(b−1);
* a state that no product reads, such as c of an LSTM: 2·b bits, at most 16, by its range on samples, with a margin;
* the argument of such a function: its numbers are clipped where the function has no more than one result (−8 .. 8 in
  steps of 1 / 2^(b−1); of one within −1 .. 1 it is −4 .. 4 in steps of 1 / 2^b);
* the operands of a sum: the step of the sum, so that the sum is exact; those of a state 1/16 of its step.

All other values keep the range that samples give them. ``sequential_ptq`` and ``post_training`` call it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from math import ceil, log2

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.loops import TimeLoop, delayed_values, loops_of
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.quantization.ranges.calibrate import Range
from onnx_hw.quantization.scheme import MAX_BITS, Scheme

POSITIVE = (0, 1)
"""Bounds of a gate."""

FINER = 16
"""Factor by which the operands of a state have a finer step than the state."""

MARGIN = 1.5
"""Factor by which a range is wider than on samples."""


def loop_grids(graph: Graph, points: Collection[str], spans: Mapping[str, Range], scheme: Scheme) -> dict[str, Grid]:
    """Return the grids of the points in loops over time, and of the operands that their sums read from outside.

    Args:
        graph: folded float32 graph.
        points: names of the values that get integers.
        spans: range of each of them.
        scheme: scheme of the integers.
    """
    grids: dict[str, Grid] = {}
    for loop in {id(loop): loop for loop in loops_of(graph.nodes).values()}.values():
        grids |= _LoopGrids(graph, loop, points, spans, scheme).grids
    return grids


class _LoopGrids:
    """Walk over the nodes of one loop, the last one first: operands follow their sum.

    Attributes:
        grids: grid by name.
    """

    def __init__(
        self, graph: Graph, loop: TimeLoop, points: Collection[str], spans: Mapping[str, Range], scheme: Scheme
    ) -> None:
        self.graph, self.spans, self.scheme = graph, spans, scheme
        self.readers, self.grids = readers_of(graph.nodes), dict[str, Grid]()
        self.states = delayed_values(loop.delays)
        self.makers = {name: node for node in loop.nodes for name in node.outputs}
        for node in reversed(loop.nodes):
            for name in (*node.outputs, *node.inputs):
                if name in points and name not in self.grids:
                    grid = self._grid(name)
                    if grid is not None:
                        self.grids[name] = grid
        self._moved(graph.nodes, loop, points)

    def _moved(self, nodes: Sequence[Node], loop: TimeLoop, points: Collection[str]) -> None:
        """Set the grids of points of which a loop reads parts, such as the gates of a normalized sum: the finest one
        that a part would have.
        """
        point_of = {name: name for name in points}
        for node in nodes:
            if facts_of(node).effect is Effect.KEEPS and node.inputs[0] in point_of:
                for name in node.outputs:
                    point_of.setdefault(name, point_of[node.inputs[0]])
        parts: dict[str, list[str]] = {}
        for name in dict.fromkeys(name for node in loop.nodes for name in node.inputs):
            if point_of.get(name, name) != name and point_of[name] not in self.grids:
                parts.setdefault(point_of[name], []).append(name)
        for point, names in parts.items():
            self.spans = {**self.spans, **dict.fromkeys(names, self.spans[point])}
            grids = [grid for name in names if (grid := self._grid(name)) is not None]
            if grids:
                step = min(grid.step[0] for grid in grids)
                self.grids[point] = self._around(point, step)

    def _grid(self, name: str) -> Grid | None:
        bits, maker = self.scheme.data_precision(name).bits, self._maker(name)
        within = None if maker is None else facts_of(maker).within
        if within == POSITIVE:
            return Grid.over(Int(bits + 1, signed=False), Fraction(1, 1 << bits)).within(0, 1 << bits)
        if within is not None:
            return Grid.over(Int(bits), Fraction(2, 1 << bits))
        if name in self.states:
            return self._of_state(name, bits)
        functions = self._functions(name)
        if functions:
            step = Fraction(2 if POSITIVE in functions else 1, 1 << bits)
            return Grid.over(Int(min(bits + 3, MAX_BITS)), step)
        total = self._sum_of(name)
        if total is not None:
            (step,) = self.grids[total].step
            return self._around(name, step / FINER if total in self.states else step)
        if maker is not None and facts_of(maker).effect is Effect.ADDS:
            return self._around(name, Fraction(2, 1 << bits))
        return None

    def _of_state(self, name: str, bits: int) -> Grid | None:
        """Return the grid of a state; None for one whose numbers have other bounds and that a product reads."""
        size = max(-self.spans[name].low, self.spans[name].high)
        multiplied = any(
            is_product(reader)
            for delay in self.readers[name]
            for delayed in delay.outputs
            for reader in self.readers.get(delayed, ())
        )
        if multiplied:
            return Grid.over(Int(bits), Fraction(2, 1 << bits)) if size <= 1 else None
        wide = min(2 * bits, MAX_BITS)
        return Grid.over(Int(wide), _power_of_two(size * MARGIN) / (1 << (wide - 1)))

    def _around(self, name: str, step: Fraction) -> Grid:
        """Return the grid of a step for the numbers of a value; of 16 bits, and coarser, where they are many."""
        size = _power_of_two(max(-self.spans[name].low, self.spans[name].high) * MARGIN)
        bits = max(2, round(log2(max(size / step, Fraction(1)))) + 1)
        return Grid.over(Int(min(bits, MAX_BITS)), step * (1 << max(0, bits - MAX_BITS)))

    def _maker(self, name: str) -> Node | None:
        """Return the node that makes a value, before bounds."""
        node = self.makers.get(name)
        while node is not None and facts_of(node).effect is Effect.BOUNDS:
            node = self.makers.get(node.inputs[0])
        return node

    def _functions(self, name: str) -> set[tuple[int, int]]:
        """Return the bounds of the functions that read a value and have some."""
        bounds = (facts_of(node).within for node in self.readers.get(name, ()))
        return {within for within in bounds if within is not None}

    def _sum_of(self, name: str) -> str | None:
        """Return the point that is the sum of a value and another one, with a grid; None without one."""
        for node in self.readers.get(name, ()):
            if facts_of(node).effect is not Effect.ADDS or any(other in self.graph.constants for other in node.inputs):
                continue
            (total,) = node.outputs
            while total not in self.grids and len(following := self.readers.get(total, ())) == 1:
                if facts_of(following[0]).effect is not Effect.BOUNDS:
                    break
                (total,) = following[0].outputs
            if total in self.grids:
                return total
        return None


def _power_of_two(size: float) -> Fraction:
    """Return the least power of two that is not less than a size."""
    return Fraction(2) ** ceil(log2(max(size, 2.0**-20)))
