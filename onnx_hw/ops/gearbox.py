"""Gearbox: the same tensor in beats of another width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, lcm

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
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction, Multiplexer, Register


@dataclass(frozen=True, repr=False)
class GearboxFolding(Folding):
    """Folding of a gearbox: channels per beat of the input, of the output; pixels per beat of both."""

    in_lanes: int
    out_lanes: int
    pixels: int = 1


@dataclass(frozen=True, repr=False)
class Gearbox(Ring[GearboxFolding]):
    """Changes nothing but the number of lanes; attributes are those of ``Ring``."""

    operand: Tensor
    capacity: int | None = None

    folding_type = GearboxFolding
    row_by_row = True

    def turns(self, folding: GearboxFolding) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the turns of the ring: one for each pixel group."""
        channels, (in_lanes, out_lanes) = self.operand.channels, (folding.in_lanes, folding.out_lanes)
        last = np.minimum(np.arange(out_lanes, channels + out_lanes, out_lanes), channels) - 1
        needs = last // in_lanes
        whole = last + 1 == np.minimum((needs + 1) * in_lanes, channels)  # nothing is left in what it needs
        return self.input_orders(folding)[0].pixel_groups, needs, needs + whole

    def full_rate_capacity(self, folding: GearboxFolding) -> int:
        """Return twice what one output beat spans, and one: the writer never waits for the reader's last beat."""
        return 2 * self.live_capacity(folding) + 1

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[GearboxFolding]:
        if given is None or wanted is None or given.pixels != wanted.pixels:
            return
        folding = GearboxFolding(given.lanes, wanted.lanes, given.pixels)
        if self.cycles(folding) <= interval:
            yield folding

    def demand(self, folding: GearboxFolding) -> Demand:
        (entering,), (leaving,) = self.input_orders(folding), self.output_orders(folding)
        block = lcm(folding.in_lanes, folding.out_lanes)
        stores, reads = (min(order.groups, block // order.lanes) for order in (entering, leaving))
        capacity = self.stored_beats(folding)
        blocks = _blocks(entering.groups, stores, capacity)
        group = gcd(folding.in_lanes, folding.out_lanes)
        size = group * folding.pixels * self.operand.dtype.bits
        _, needs, freed = self.turns(folding)
        grows = np.diff(needs, append=needs[0] + entering.groups)
        gives = np.diff(freed, prepend=0)
        demand = engine((entering.groups,), conditions=1) + engine((leaving.groups,), inputs=0, conditions=1)
        demand += shared_buffer(2 * entering.groups + capacity, grows.tolist(), gives.tolist())
        index = counted(leaving.groups)
        demand += decoded(grows.tolist(), index) + decoded(gives.tolist(), index)
        for order, places in ((entering, stores), (leaving, reads)):
            demand += position(blocks) + position(places)
            demand += decoded((0, 1) if order.groups > 1 else (0,), counted(order.groups))
        stored, chosen = (lanes // group * size for lanes in (folding.in_lanes, folding.out_lanes))
        demand += delayed(stored, 1) + delayed(1, self.LATENCY) + delayed(counted(reads), 1)
        rings = self._read(folding, stores, reads).items()
        for read, count in rings:
            demand += count * (stored_words(read, max(2, blocks)) + copied(1, read))
        parts = sum(count * -(-read // BITS_PER_COPY) for read, count in rings)
        demand += delayed(2 * counted(blocks), 1).copied(parts)
        demand += Demand.of(LogicFunction(1 + counted(stores), stores if stores > 1 else 0))
        return demand + Demand.of(Multiplexer(reads, chosen), Register(chosen)) + copied(counted(reads), chosen)

    def demand_at_least(self, folding: GearboxFolding) -> Demand:
        """Return the demand of the ring, and of what chooses from it."""
        (entering,), (leaving,) = self.input_orders(folding), self.output_orders(folding)
        block = lcm(folding.in_lanes, folding.out_lanes)
        stores, reads = (min(order.groups, block // order.lanes) for order in (entering, leaving))
        blocks = max(2, _blocks(entering.groups, stores, self.stored_beats(folding)))
        read = self._read(folding, stores, reads).items()
        ring = sum((count * stored_words(bits, blocks) for bits, count in read), Demand()).parts
        chosen = folding.out_lanes * folding.pixels * self.operand.dtype.bits
        return Demand((*ring, (Multiplexer(reads, chosen), 1)))

    def _read(self, folding: GearboxFolding, stores: int, reads: int) -> dict[int, int]:
        """Return the number of stores by their bits that are ever read; lanes behind the last channel are not."""
        bits, most = folding.pixels * self.operand.dtype.bits, reads * folding.out_lanes
        whole = min(stores, most // folding.in_lanes)
        part = (most - whole * folding.in_lanes) * bits if whole < stores else 0
        stores_by_bits = {folding.in_lanes * bits: whole, part: whole < stores, 0: stores - whole - (part > 0)}
        return {read: count for read, count in stores_by_bits.items() if count}

    def core(self, folding: GearboxFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.gearbox import Gearbox as Circuit

        return Circuit(
            channels=self.operand.channels,
            **self.stream_shapes(folding),
            capacity=self.stored_beats(folding),
            depth=depths["o"],
        )


def _blocks(beats: int, places: int, span: int) -> int:
    """Return the most blocks of the ring that ``span`` beats can touch; those of a pixel fill blocks of ``places``."""
    first = np.arange(beats)
    turns, last = np.divmod(first + span - 1, beats)
    return int((turns * -(-beats // places) + last // places - first // places).max()) + 1
