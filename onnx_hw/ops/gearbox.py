"""Gearbox: the same tensor in beats of another width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence, LoopTurns
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
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction, Multiplexer, Register

PARTS_PER_COPY = 3
"""Pieces of a wide beat that follow the same copy of a part's number."""


@dataclass(frozen=True, repr=False)
class GearboxFolding(Folding):
    """Folding of a gearbox: channels per beat of the input, of the output; pixels per beat of both."""

    in_lanes: int
    out_lanes: int
    pixels: int = 1


@dataclass(frozen=True, repr=False)
class Gearbox(Ring[GearboxFolding]):
    """Changes nothing but the number of lanes; attributes are those of ``Ring``.

    Between beats of which one is a whole number of times as wide as the other there is no ring, unless a capacity is
    given: one engine gathers wide beats, or takes them apart.
    """

    operand: Tensor
    capacity: int | None = None

    folding_type = GearboxFolding
    row_by_row = True

    def parts(self, folding: GearboxFolding) -> int:
        """Return the narrow beats of a wide one where there is no ring; 0 where there is one."""
        narrow, wide = sorted((folding.in_lanes, folding.out_lanes))
        return 0 if wide % narrow or wide == narrow or self.capacity is not None else wide // narrow

    def schedule(self, folding: GearboxFolding) -> Schedule:
        parts = self.parts(folding)
        if not parts:
            return super().schedule(folding)
        widens = folding.out_lanes > folding.in_lanes
        (beats, _), turns = self._narrow_beats(folding), self._turns(folding)
        ends = np.minimum(np.arange(parts, beats + parts, parts), beats) - 1
        some = ends if widens else np.arange(0, beats, parts)
        whole = AffineSequence.every(turns * beats)
        if beats % parts:
            part = AffineSequence((LoopTurns(0, turns, beats, some.astype(np.int64)),))
        else:
            part = AffineSequence.every(turns * beats // parts, parts, int(some[0]))
        pops, pushes = (whole, part) if widens else (part, whole)
        return Schedule((Engine("gearbox", turns * beats, 1 if widens else 2, {"i": pops}, {"o": pushes}),))

    def _narrow_beats(self, folding: GearboxFolding) -> tuple[int, int]:
        """Return (narrow beats, wide beats) of a pixel group."""
        narrow, wide = sorted((folding.in_lanes, folding.out_lanes))
        return -(-self.operand.channels // narrow), -(-self.operand.channels // wide)

    def _turns(self, folding: GearboxFolding) -> int:
        """Return the pixel groups of a frame."""
        return self.input_orders(folding)[0].pixel_groups

    def turns(self, folding: GearboxFolding) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the turns of the ring: one for each pixel group."""
        channels, (in_lanes, out_lanes) = self.operand.channels, (folding.in_lanes, folding.out_lanes)
        last = np.minimum(np.arange(out_lanes, channels + out_lanes, out_lanes), channels) - 1
        needs = last // in_lanes
        whole = last + 1 == np.minimum((needs + 1) * in_lanes, channels)  # nothing is left in what it needs
        return self._turns(folding), needs, needs + whole

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
        return self._whole_demand(folding) if self.parts(folding) else self._ring_demand(folding)

    def _whole_demand(self, folding: GearboxFolding) -> Demand:
        """Return the demand of the circuit without a ring."""
        parts, (beats, groups) = self.parts(folding), self._narrow_beats(folding)
        narrow = min(folding.in_lanes, folding.out_lanes) * folding.pixels * self.operand.dtype.bits
        width, index = parts * narrow, counted(parts)
        widens = folding.out_lanes > folding.in_lanes
        demand = engine((groups, min(beats, parts)), some_pop=not widens, some_push=widens)
        if beats > parts and beats % parts:
            demand += Demand.of(LogicFunction(counted(groups) + index, 1), LogicFunction(index, 1))
        if widens:
            pieces = parts * -(-narrow // BITS_PER_COPY)
            copies = -(-pieces // PARTS_PER_COPY)
            return (
                demand + delayed(index, 1).copied(1 + copies) + Demand.of(LogicFunction(index, pieces), Register(width))
            )
        demand += delayed(1, 1) + copied(1, width) + Demand.of(LogicFunction(index, 1))
        demand += delayed(index, 1) + copied(index, narrow)
        return demand + Demand.of(Register(width), Multiplexer(parts, narrow, tree=True), Register(narrow))

    def _ring_demand(self, folding: GearboxFolding) -> Demand:
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
        if self.parts(folding):
            return Demand()
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
        from onnx_hw_rtl.cores.whole_gearbox import WholeGearbox

        streams: dict[str, Any] = {
            "channels": self.operand.channels,
            **self.stream_shapes(folding),
            "depth": depths["o"],
        }
        return (
            WholeGearbox(**streams) if self.parts(folding) else Circuit(**streams, capacity=self.stored_beats(folding))
        )


def _blocks(beats: int, places: int, span: int) -> int:
    """Return the most blocks of the ring that ``span`` beats can touch; those of a pixel fill blocks of ``places``."""
    first = np.arange(beats)
    turns, last = np.divmod(first + span - 1, beats)
    return int((turns * -(-beats // places) + last // places - first // places).max()) + 1
