"""Reduce: ``result[c] = max``, ``min`` or ``sum`` over all pixels of a frame (global pooling)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import added, counted, decoded, delayed, engine, maximum
from onnx_hw.ops.driven_images import vectors_of_images
from onnx_hw.ops.folding import EvenFolding
from onnx_hw.ops.operator import Component, Operator, even_lanes
from onnx_hw.ops.permutation import Permutation, of_channels
from onnx_hw.ops.pool import FOLDS
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors
from onnx_hw_boards.demand import Demand, LogicFunction, Memory

CHUNKS_IN_FLIGHT = 3
"""So many totals leave time for registers on either side of their memory."""


@dataclass(frozen=True, repr=False)
class ReduceFolding(EvenFolding):
    """Folding of a reduction.

    Attributes:
        in_tile: pixels of a tile of the image: all of them, where each group of channels comes for the whole image
            before the next one; 0 for those of a beat.
    """

    in_tile: int = 0


@dataclass(frozen=True, repr=False)
class Reduce(Operator[ReduceFolding]):
    """Maximum, minimum or sum over the pixels of an image; ``kind`` is ``max``, ``min`` or ``sum``."""

    operand: Tensor
    kind: str

    folding_type = ReduceFolding
    LATENCY = 2

    def __post_init__(self) -> None:
        if self.kind not in FOLDS:
            raise ValueError(f"a reduction must be a max, a min or a sum, not {self.kind!r}")

    def results(self) -> tuple[Tensor, ...]:
        shape = (1, 1, self.operand.channels)
        low, high = self.operand.range
        if self.kind != "sum":
            return (Tensor(shape, self.operand.dtype, low, high),)
        pixels = self.operand.pixels
        return (Tensor(shape, Int.holding(pixels * low, pixels * high), pixels * low, pixels * high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        (image,) = arrays
        return (FOLDS[self.kind](image, axis=(1, 2), keepdims=True),)

    def reordered(self, port: str, order: Permutation) -> tuple[Reduce, dict[str, Permutation]] | None:
        """Return the reordered operator: pixels in any order give the same result."""
        count = self.operand.channels
        channels = order.channels(np.arange(count))
        if channels is None or order.shape[2] != count:
            return None
        if port == "o":
            inside = of_channels(self.operand.shape, channels)
            return self, {"i": inside, "o": of_channels((1, 1, count), channels)}
        reduced = replace(self, operand=replace(self.operand, shape=order.shape))
        return reduced, {"i": order, "o": of_channels((1, 1, count), channels)}

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[ReduceFolding]:
        """Yield foldings of one pixel a beat, and those that take whole channels where these come."""
        for lanes in even_lanes(self.operand, interval, given, wanted):
            if given is not None and given.tile == self.operand.pixels > given.pixels == 1:
                yield ReduceFolding(lanes, given.tile)
            yield ReduceFolding(lanes)

    def illegal(self, folding: ReduceFolding) -> str:
        if folding.in_tile not in (0, 1, self.operand.pixels):
            return f"in_tile must be 0, or {self.operand.pixels} here, all pixels"
        return super().illegal(folding)

    def _by_channels(self, folding: ReduceFolding) -> bool:
        """Return whether each group of channels comes for all pixels before the next one."""
        return folding.in_tile > 1

    def schedule(self, folding: ReduceFolding) -> Schedule:
        chunks, pixels = self.input_orders(folding)[0].groups, self.operand.pixels
        operations = pixels * chunks
        last_pixels = (pixels, pixels - 1) if self._by_channels(folding) else (1, operations - chunks)
        pushes = {"o": AffineSequence.every(chunks, *last_pixels)}
        return Schedule((Engine("reduce", operations, self.LATENCY, {"i": AffineSequence.every(operations)}, pushes),))

    def cycles(self, folding: ReduceFolding) -> int:
        return self.input_orders(folding)[0].beats

    def demand(self, folding: ReduceFolding) -> Demand:
        lanes, chunks, pixels = folding.lanes, self.input_orders(folding)[0].groups, self.operand.pixels
        bits, result_bits = self.operand.dtype.bits, self.results()[0].dtype.bits
        totals = 1 if self._by_channels(folding) else chunks
        loops = (chunks, pixels) if self._by_channels(folding) else (pixels, chunks)
        index = counted(pixels) + counted(chunks)
        demand = engine(loops, some_push=pixels > 1)
        early = totals >= CHUNKS_IN_FLIGHT
        controls = delayed(2 + 2 * counted(totals) + early * (1 + counted(totals)), 1).copied(lanes)
        demand += decoded((0, 1), index) + controls + delayed(counted(totals) + 2, 1)
        demand += delayed(lanes * bits, 1)
        if self._by_channels(folding):
            demand += delayed(lanes * result_bits, 1)
        else:
            demand += lanes * Demand.of(Memory(result_bits, chunks, at_once=not early, in_logic=True))
        if self.kind != "sum":
            return demand + lanes * maximum(bits, chosen=1 < totals < CHUNKS_IN_FLIGHT)
        return demand + lanes * (added(result_bits) + Demand.of(LogicFunction(2, result_bits)))

    def core(self, folding: ReduceFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.reduce import Reduce as Circuit

        return Circuit(
            self.kind,
            pixels=self.operand.pixels,
            channels=self.operand.channels,
            by_channels=self._by_channels(folding),
            **self.stream_shapes(folding),
            depth=depths["o"],
        )

    def test_vectors(self, folding: ReduceFolding) -> TestVectors:
        return vectors_of_images(self)

    def __repr__(self) -> str:
        return f"Reduce {self.kind}"
