"""Rearrange: ``result.flat[k] = operand.flat[source[k]]``: all that moves data and computes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import loaded_number
from onnx_hw.ops.demand.rearrange import rearrange_demand
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Component, Operator, pixels_beside
from onnx_hw.ops.rearrange_plan import RearrangePlan, RearrangeTrace, places, plan, plan_of_loops
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.ops.stream_order import UNUSED, Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand


@dataclass(frozen=True, repr=False)
class RearrangeFolding(Folding):
    """Folding of a core that changes the order of a tensor.

    Attributes:
        in_lanes, out_lanes: channels per beat of the operand, of the result.
        in_pixels, out_pixels: pixels per beat.
        in_tile, out_tile: pixels of a tile; 0 for those of a beat.
    """

    in_lanes: int
    out_lanes: int
    in_pixels: int = 1
    out_pixels: int = 1
    in_tile: int = 0
    out_tile: int = 0


@dataclass(frozen=True, repr=False, eq=False)
class Rearrange(Operator[RearrangeFolding]):
    """Elements of a frame in another order: each may be used many times or never, or be a constant.

    It stands for Transpose, Reshape, Pad, Slice, Split, nearest Resize, DepthToSpace, SpaceToDepth, Expand, Gather with
    constant indices, and for any chain of them; and for a change of the order in which a tensor travels.

    The reader's operations are cut into *turns* (rows of the result, where that is a good cut). All operations of a
    turn wait for the last beat that it or an earlier turn reads; beats are given back, in order, at the end of a turn.

    Attributes:
        operand: what is rearranged.
        shape: (height, width, channels) of the result.
        source: (size of the result,) int64: per element, in stream order, its flat index in the operand, or -1.
        fill: the value where ``source`` is -1.
        capacity: beats of the buffer; None for those that full rate needs.
        turns_are_rows: whether a turn is a row of the result, which then reads no later row of the operand.
        loads_fill: whether another fill may be loaded into the circuit at run time.
    """

    operand: Tensor
    shape: tuple[int, int, int]
    source: np.ndarray = field(repr=False)
    fill: int = 0
    capacity: int | None = None
    turns_are_rows: bool = False
    loads_fill: bool = False

    folding_type = RearrangeFolding
    declared = frozenset({"loads_fill"})
    LATENCY = 7

    def __post_init__(self) -> None:
        size = int(np.prod(self.shape, dtype=np.int64))
        if min(self.shape) < 1 or self.source.shape != (size,):
            raise ValueError(f"a source of shape {self.source.shape} does not make a result of shape {self.shape}")
        if self.source.min() < -1 or self.source.max() >= self.operand.size:
            raise ValueError(f"every source must be -1 or in 0..{self.operand.size - 1}")
        if self.source.max() < 0:
            raise ValueError("a result that reads no element of its operand would never wait for a frame")
        dtype = self.operand.dtype
        if self._fills and not dtype.min <= self.fill <= dtype.max:
            raise ValueError(f"the fill {self.fill} does not fit {dtype}")
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"the buffer must hold at least one beat, not {self.capacity}")
        if self.turns_are_rows and not self._stays_in_rows:
            raise ValueError("a row of the result that is a turn must read its own row of the operand alone")

    @cached_property
    def _stays_in_rows(self) -> bool:
        """Whether each row of the result is made of its own row of the operand, in the same way."""
        rows = self.shape[0]
        if rows != self.operand.shape[0] or self.operand.shape[1] != 1 or self.shape[1] != 1:
            return False
        own = self.source.reshape(rows, -1) - np.arange(rows)[:, None] * self.operand.channels
        return bool((own == own[0]).all() and own.min() >= 0 and own.max() < self.operand.channels)

    @property
    def row_by_row(self) -> bool:  # type: ignore[override]
        return self.turns_are_rows

    def on_loop(self) -> Rearrange:
        return replace(self, turns_are_rows=True) if self._stays_in_rows else self

    @cached_property
    def _fills(self) -> bool:
        return bool(self.source.min() < 0)

    def loadable(self) -> Rearrange:
        return self._with_fill(loads=True)

    def loadable_like(self, built: Rearrange) -> Rearrange:
        return self._with_fill(loads=built.loads_fill)

    def _with_fill(self, *, loads: bool) -> Rearrange:
        """Return the operator with a fill that is loaded, or not; without one its circuit depends on none."""
        return replace(self, loads_fill=loads and self._fills, fill=self.fill if self._fills else 0)

    @property
    def loaded_numbers(self) -> Mapping[str, tuple[int, Int]]:
        return {"fill": (self.fill, self.operand.dtype)} if self.loads_fill else {}

    @property
    def loaded_fields(self) -> frozenset[str]:
        return frozenset({"fill"} if self.loads_fill or not self._fills else ())

    @cached_property
    def moves_nothing(self) -> bool:
        """Whether the result is the operand."""
        return self.shape == self.operand.shape and np.array_equal(self.source, np.arange(self.source.size))

    @cached_property
    def held(self) -> int:
        """The most elements between the first one that will still be read and the last one read so far."""
        read = self.source[self.source >= 0]
        return int((np.maximum.accumulate(read) - np.minimum.accumulate(read[::-1])[::-1]).max()) + 1

    def results(self) -> tuple[Tensor, ...]:
        low, high = self.operand.range
        if self.loads_fill:
            low, high = self.operand.dtype.min, self.operand.dtype.max
        elif self._fills:
            low, high = min(low, self.fill), max(high, self.fill)
        return (Tensor(self.shape, self.operand.dtype, low, high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        (operand,) = arrays
        if self.turns_are_rows:
            return (operand[..., self.source[: self.shape[2]]],)  # of as many rows as there are
        frames = len(operand)
        with_fill = np.column_stack([operand.reshape(frames, -1), np.full(frames, self.fill)])  # index -1 is the fill
        return (with_fill[:, self.source].reshape(frames, *self.shape),)

    def _by_beats(self, folding: RearrangeFolding) -> Rearrange:
        """Return the operator for streams in the usual order: a pixel is a beat, an unused place a channel."""
        (entering,), (leaving,) = self.input_orders(folding), self.output_orders(folding)
        if _is_usual(entering) and _is_usual(leaving):
            return self
        source = np.where(leaving.elements == UNUSED, -1, self.source[leaving.elements])
        places = np.where(source < 0, -1, entering.places.reshape(-1)[np.maximum(source, 0)])
        operand = replace(self.operand, shape=(1, entering.beats, entering.width))
        return Rearrange(operand, (1, leaving.beats, leaving.width), places.reshape(-1), self.fill, self.capacity)

    @cached_property
    def _plans(self) -> dict[RearrangeFolding, RearrangePlan]:
        return {}

    def plan(self, folding: RearrangeFolding) -> RearrangePlan:
        """Return the loops of the reader; they do not depend on the capacity."""
        if folding not in self._plans:
            usual = self._by_beats(folding)
            (entering,), (leaving,) = usual.input_orders(whole := self._widths(folding)), usual.output_orders(whole)
            walk = RearrangeTrace(*places(usual.source, entering, leaving), entering.beats, self.operand.dtype.bits)
            natural = usual.shape[0], leaving.row_groups, leaving.groups
            self._plans[folding] = plan_of_loops(walk, natural) if self.turns_are_rows else plan(walk, natural)
        return self._plans[folding]

    def _widths(self, folding: RearrangeFolding) -> RearrangeFolding:
        """Return the folding of ``_by_beats``."""
        return RearrangeFolding(self.input_orders(folding)[0].width, self.output_orders(folding)[0].width)

    def live_capacity(self, folding: RearrangeFolding) -> int:
        """Return the least number of beats with which the reader never waits for one that has no room."""
        return self.plan(folding).turns.live_capacity

    def stored_beats(self, folding: RearrangeFolding) -> int:
        """Return the capacity of the buffer."""
        return self.plan(folding).turns.rate_capacity if self.capacity is None else self.capacity

    def cycles(self, folding: RearrangeFolding) -> int:
        return max(self.input_orders(folding)[0].beats, self.output_orders(folding)[0].beats)

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[RearrangeFolding]:
        """Yield the neighbours' lanes where they keep up, and narrower ones where these need copies of the ring."""
        (result,) = self.results()
        in_lanes, out_lanes = (None if order is None else order.lanes for order in (given, wanted))
        image, result_pixels = pixels_beside(self.operand, interval, given), pixels_beside(result, interval, wanted)
        for beside in product(image, result_pixels):
            least_in, least_out = map(fewest_lanes, (self.operand, result), (interval, interval), beside)
            if least_in is None or least_out is None:
                continue
            entries = _widths(self.operand.channels, least_in, in_lanes, out_lanes or least_out)
            exits = _widths(result.channels, least_out, out_lanes, in_lanes or least_in)
            first = RearrangeFolding(entries[0], exits[0], *beside)
            yield first
            if (entries[0], exits[0]) == (in_lanes, out_lanes) and len(self.plan(first).walk.ports) == 1:
                continue
            pairs = (RearrangeFolding(*pair, *beside) for pair in product(entries, exits))
            yield from (folding for folding in pairs if folding != first)

    def schedule(self, folding: RearrangeFolding) -> Schedule:
        one = self.plan(folding)
        beats, operations = self.input_orders(folding)[0].beats, one.loops[0] * one.turns.operations
        return Schedule(
            (
                Engine("writer", beats, 0, pops={"i": AffineSequence.every(beats)}),
                Engine("reader", operations, self.LATENCY, pushes={"o": AffineSequence.every(operations)}),
            ),
            (SharedBuffer("writer", "reader", self.stored_beats(folding), *one.turns.numbers()),),
        )

    def demand(self, folding: RearrangeFolding) -> Demand:
        numbers = loaded_number(self.operand.dtype.bits) if self.loads_fill else Demand()
        return numbers + rearrange_demand(
            self.plan(folding), self.stored_beats(folding), self.input_orders(folding)[0].width, self.LATENCY
        )

    def core(self, folding: RearrangeFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.rearrange import Rearrange as Circuit
        from onnx_hw_rtl.streams.stream import StreamShape

        usual, whole, dtype = self._by_beats(folding), self._widths(folding), self.operand.dtype
        return Circuit(
            usual.source,
            in_shape=usual.operand.shape,
            out_shape=usual.shape,
            loops=self.plan(folding).loops,
            i=StreamShape(whole.in_lanes, dtype.bits, dtype.signed),
            o=StreamShape(whole.out_lanes, dtype.bits, dtype.signed),
            capacity=self.stored_beats(folding),
            fill=self.fill,
            depth=depths["o"],
        )


def _is_usual(order: Order) -> bool:
    """Return whether a side has one pixel a beat, all its channels before the next one."""
    return order.tile == 1


def _widths(channels: int, least: int, wanted: int | None, beside: int) -> list[int]:
    """Return the lanes of one side worth trying, best first: the wanted, the least, a divisor, the number of the other
    side.
    """
    divisor = next(lanes for lanes in range(least, channels + 1) if channels % lanes == 0)
    widths = (wanted or least, least, divisor, beside)
    return list(dict.fromkeys(lanes for lanes in widths if least <= lanes <= channels))
