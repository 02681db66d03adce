"""Regroup: the same tensor with more pixels in a beat, or with fewer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.ops.demand.blocks import (
    BITS_PER_COPY,
    copied,
    counted,
    decoded,
    delayed,
    engine,
    position,
    shared_buffer,
    stored_words,
)
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Component
from onnx_hw.ops.ring_buffer import Ring
from onnx_hw.ops.stream_order import UNUSED, Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction, Multiplexer, Register


@dataclass(frozen=True, repr=False)
class RegroupFolding(Folding):
    """Folding of a core that changes the number of pixels per beat.

    Attributes:
        lanes: channels per beat of both streams.
        in_pixels, out_pixels: pixels per beat of the input, of the output; one of them divides the other.
    """

    lanes: int
    in_pixels: int = 1
    out_pixels: int = 1


@dataclass(frozen=True, repr=False)
class Regroup(Ring[RegroupFolding]):
    """Changes nothing but the number of pixels in a beat, one of the two numbers being a multiple of the other.

    A beat leaves when all its elements are there; those of a pixel group are given back together, after its last beat.
    Attributes are those of ``Ring``.
    """

    operand: Tensor
    capacity: int | None = None

    folding_type = RegroupFolding

    def illegal(self, folding: RegroupFolding) -> str:
        reason = super().illegal(folding)
        fewer, more = sorted((folding.in_pixels, folding.out_pixels))
        return reason or ("in_pixels must divide out_pixels, or the other way round" if more % fewer else "")

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[RegroupFolding]:
        if given is None:
            return
        folding = RegroupFolding(given.lanes, given.pixels, given.pixels if wanted is None else wanted.pixels)
        if not self.illegal(folding) and self.cycles(folding) <= interval:
            yield folding

    def turns(self, folding: RegroupFolding) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the turns of the ring: one for each row."""
        row_of_pixels = replace(self.operand, shape=(1, *self.operand.shape[1:]))
        entering, leaving = folding.input_order(row_of_pixels), folding.output_order(row_of_pixels)
        places = entering.places.reshape(-1) // entering.width
        beats = np.where(leaving.elements == UNUSED, -1, places[leaving.elements]).max(axis=1)
        needs = np.maximum.accumulate(beats)
        column = leaving.elements[:, 0] // self.operand.channels
        group = column // max(folding.in_pixels, folding.out_pixels)
        ends = np.append(group[1:] != group[:-1], True)
        return self.operand.shape[0], needs, np.maximum.accumulate(np.where(ends, needs + 1, 0))

    def full_rate_capacity(self, folding: RegroupFolding) -> int:
        """Return the capacity for full rate, two pixel groups: one is read while the next one is written."""
        return 2 * self.input_orders(folding)[0].groups * max(1, folding.out_pixels // folding.in_pixels)

    def demand(self, folding: RegroupFolding) -> Demand:
        (entering,), (leaving,) = self.input_orders(folding), self.output_orders(folding)
        gathers = folding.in_pixels <= folding.out_pixels
        fewer, more = sorted((folding.in_pixels, folding.out_pixels))
        pixels, size = more // fewer, fewer * folding.lanes * self.operand.dtype.bits
        beats, capacity = entering.groups, self.stored_beats(folding)
        _, needs, freed = self.turns(folding)
        period = (
            beats * (entering if gathers else leaving).row_groups if self.operand.shape[1] % more else beats * pixels
        )
        loops = [
            -(-self.operand.shape[1] // order.pixels) if self.operand.shape[1] % more else 1
            for order in (entering, leaving)
        ]
        if not self.operand.shape[1] % more:
            loops = [pixels, 1] if gathers else [1, pixels]
        grows = np.diff(needs, append=needs[0] + max(1, period))[: len(needs)].tolist()
        gives = np.diff(freed, prepend=0).tolist()
        demand = engine((loops[0], beats), conditions=1) + engine((loops[1], beats), inputs=0, conditions=1)
        index = counted(loops[1]) + counted(beats)
        span = 2 * beats * (pixels if gathers else 1) + capacity + 1
        demand += shared_buffer(span, grows, gives) + decoded([int(g > 1) for g in grows], index)
        demand += decoded([int(g > 0) for g in gives], index)
        groups = max(2, -(-capacity // (beats * (pixels if gathers else 1))))
        for slots in (pixels if gathers else 1, 1 if gathers else pixels):
            demand += (
                position(groups) + delayed(counted(beats), 1) + decoded((0, 1) if beats > 1 else (0,), counted(beats))
            )
            demand += delayed(counted(slots), 1)
        words = 1 << counted(groups) + counted(beats)
        data = size if gathers else pixels * size
        demand += delayed(data, 1) + delayed(1, self.LATENCY)
        parts = -(-size // BITS_PER_COPY)
        demand += delayed(2 * counted(words), 1).copied(pixels * parts)
        demand += pixels * copied(1, size) if gathers else delayed(1, 1).copied(pixels * parts)
        demand += pixels * (
            stored_words(size, words)
            + Demand.of(LogicFunction(counted(pixels) + 1) if gathers and pixels > 1 else Register(0))
        )
        if gathers:
            return demand + delayed(pixels * size, 1)
        return demand + Demand.of(Register(size), Multiplexer(pixels, size)) + copied(counted(pixels), size)

    def core(self, folding: RegroupFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.regroup import Regroup as Circuit
        from onnx_hw_rtl.streams.stream import StreamShape

        side_by_side = min(folding.in_pixels, folding.out_pixels)  # they stay together, as if they were one pixel
        narrow, dtype = Order(self.operand, folding.lanes, side_by_side), self.operand.dtype
        return Circuit(
            columns=narrow.row_groups,
            channels=narrow.groups * narrow.width,
            i=StreamShape(narrow.width, dtype.bits, dtype.signed, folding.in_pixels // side_by_side),
            o=StreamShape(narrow.width, dtype.bits, dtype.signed, folding.out_pixels // side_by_side),
            capacity=self.stored_beats(folding),
            depth=depths["o"],
        )
