"""Grids of the data: the first pass of sequential post-training quantization, in floats.

A float model, the values to quantize, their ranges and samples go in; a grid for each value comes out. Each range
weighs rounding against expected saturation (``mse.py``). ``sequential_ptq`` calls it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from onnx_hw.exact.grid import Grid
from onnx_hw.onnx.graph.model import Graph
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.quantization.dequantize import representable_range
from onnx_hw.quantization.loop_grids import loop_grids
from onnx_hw.quantization.mixed_precision.sensitivity import weighted_products
from onnx_hw.quantization.ranges.batched_run import BatchedRun, Frame
from onnx_hw.quantization.ranges.calibrate import Range
from onnx_hw.quantization.ranges.mse import MseRange, mse_range
from onnx_hw.quantization.requantizer_friendly_scales import shorten_step
from onnx_hw.quantization.scaled_features import scaled_feature_grids
from onnx_hw.quantization.scheme import Precision, Scheme

MAX_APART_BITS = 13
"""Greatest width of the operands of a sum that have steps of their own, in bits: there is always an exact sum."""


def choose_grids(
    graph: Graph,
    points: Collection[str],
    frames: Sequence[Frame],
    spans: Mapping[str, Range],
    scheme: Scheme,
    shared: Collection[Collection[str]],
) -> tuple[dict[str, Grid], dict[str, MseRange]]:
    """Choose the grid of each value that is quantized.

    Args:
        graph: graph of a float32 model.
        points: names of the values that get integers.
        frames: samples, by graph input.
        spans: finite range of each point on samples.
        scheme: bits of each tensor.
        shared: groups of values that get one grid.

    Returns:
        the grid of each value, and the range that was searched for, by name; values whose grid is known have none.
    """
    choice = _GridChoice(graph, points, spans, scheme, shared)
    choice.run(frames)
    return choice.grids, choice.chosen


class _GridChoice:
    """One pass over the nodes, in floats, that chooses a grid for each point."""

    def __init__(
        self,
        graph: Graph,
        points: Collection[str],
        spans: Mapping[str, Range],
        scheme: Scheme,
        shared: Collection[Collection[str]],
    ) -> None:
        self.graph, self.points, self.spans, self.scheme, self.shared = graph, points, spans, scheme, shared
        self.tensors = len(points) + len(weighted_products(graph))
        self.grids: dict[str, Grid] = {}
        self.known = scaled_feature_grids(graph, points, scheme)
        self.chosen: dict[str, MseRange] = {}

    def run(self, frames: Sequence[Frame]) -> None:
        samples = BatchedRun(self.graph, frames)
        for value in self.graph.inputs:
            self._choose_range(value.name, samples)
        for node in self.graph.nodes:
            samples.step(node)
            for name in node.outputs:
                self._choose_range(name, samples)
            samples.release(node)
        self._share_steps()
        in_loops = loop_grids(self.graph, self.points, self.spans, self.scheme)
        self.grids |= in_loops
        self.chosen = {name: chosen for name, chosen in self.chosen.items() if name not in in_loops}

    def _share_steps(self) -> None:
        """Give the operands of sums one grid where they are so wide that a sum of two steps may not be exact, and so
        values whose squares are summed exactly.
        """
        for names in self.shared:
            if names:
                self.grids |= dict.fromkeys(names, max(self._telling(names), key=_span))
        point_of, together = {name: name for name in self.grids}, list[set[str]]()
        for node in self.graph.nodes:
            effect, names = facts_of(node).effect, {point_of[name] for name in node.inputs if name in point_of}
            if effect is Effect.KEEPS and node.inputs[0] in point_of:
                point_of |= dict.fromkeys(node.outputs, point_of[node.inputs[0]])
            elif effect is Effect.ADDS and len(names) == 2 and max(self.grids[n].bits for n in names) > MAX_APART_BITS:
                apart = [group for group in together if group.isdisjoint(names)]
                together = [*apart, names.union(*(group for group in together if group not in apart))]
        for group in together:
            self.grids |= dict.fromkeys(group, _shared_grid(self._telling(group)))

    def _telling(self, names: Collection[str]) -> list[Grid]:
        """Return the grids of values; where others have numbers, those that are 0 in all samples do not count."""
        numbers = [name for name in sorted(names) if self.spans[name].low or self.spans[name].high]
        return [self.grids[name] for name in numbers or sorted(names)]

    def _choose_range(self, name: str, samples: BatchedRun) -> None:
        if name not in self.points:
            return
        if name in self.known:
            self.grids[name] = self.known[name]
            return
        precision, span = self.scheme.data_precision(name), self.spans[name]
        if span.step is not None and not precision.symmetric:
            low, high = (round(end / float(span.step)) for end in (min(span.low, 0.0), max(span.high, 0.0)))
            for dtype in (min(self.scheme.data.dtype, precision.dtype, key=lambda kind: kind.bits), precision.dtype):
                if high - low <= dtype.max - dtype.min:  # nothing is lost
                    parts = _parts_of_step(high - low, dtype.max - dtype.min)
                    self.grids[name] = shorten_step(Grid.over(dtype, span.step / parts, dtype.min - parts * low))
                    return
        chosen = mse_range(samples.of(name), precision.bits, tensors=self.tensors, symmetric=precision.symmetric)
        self.chosen[name] = chosen
        self.grids[name] = shorten_step(precision.data_grid(Range(chosen.low, chosen.high)))


def _parts_of_step(used: int, steps: int) -> int:
    """Return the greatest power of two into which each of the ``used`` steps can be divided, of a grid of ``steps``.

    Other frames may have numbers between those of the samples, as grey pixels between black and white ones. Powers of
    two keep every number that the samples have.
    """
    return 1 << (steps // max(used, 1)).bit_length() - 1


def _shared_grid(grids: Sequence[Grid]) -> Grid:
    """Return the widest of several grids, or a grid of as many bits that holds the numbers of all of them."""
    widest = max(grids, key=lambda grid: (grid.bits, grid.step))
    low, high = representable_range(widest)
    least, most = (
        ends(float(grid.real(end)) for grid in grids for end in (grid.low, grid.high)) for ends in (min, max)
    )
    if low <= least and most <= high:
        return widest
    return shorten_step(Precision(widest.bits).data_grid(Range(least, most)))


def _span(grid: Grid) -> Fraction:
    """Return the distance between the greatest and the least number of a grid."""
    return (grid.high - grid.low) * grid.step[0]
