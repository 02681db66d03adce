"""The same elements in beats of another width. Two engines around a ring; one beat per cycle on the busier side.

The writer stores a beat of ``in_lanes``; the reader emits one of ``out_lanes`` once all its elements are stored. (A
single engine would lose a cycle per pixel for some ratios.) Latency 3.

The ring consists of *blocks* of lcm(in_lanes, out_lanes) elements, in which beats of either width always lie at the
same few places; a pixel begins a new block, and its last block may be cut short.
"""

from __future__ import annotations

from math import gcd, lcm

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value

from onnx_hw_rtl.parts.distributed_memory import stored
from onnx_hw_rtl.parts.fanout import spread
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed, pick
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer
from onnx_hw_rtl.streams.stream import StreamShape, bits_of, groups_of


class Gearbox(Core):
    """Width converter. Beats of either side never reach beyond the channels of their pixels.

    Args:
        channels: elements of a pixel.
        i, o: the streams. Both have the same number of pixels per beat, which move together.
        capacity: beats of ``i`` that may be stored and not yet given back.
        depth: FIFO depth of the output.
    """

    LATENCY = 3

    def __init__(
        self,
        *,
        channels: int,
        i: StreamShape,
        o: StreamShape,
        capacity: int,
        depth: int,
    ) -> None:
        self.channels, self.bits, self.pixels, self.capacity = channels, i.bits, i.pixels, capacity
        self.in_lanes, self.out_lanes = in_lanes, out_lanes = i.lanes, o.lanes
        self.in_beats, self.out_beats = groups_of(channels, in_lanes), groups_of(channels, out_lanes)
        block = lcm(in_lanes, out_lanes)
        self.in_places = min(self.in_beats, block // in_lanes)  # beats of a block
        self.out_places = min(self.out_beats, block // out_lanes)
        self.blocks = _blocks_touched(self.in_beats, self.in_places, capacity)
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        needed = [groups_of(min((k + 1) * self.out_lanes, self.channels), self.in_lanes) for k in range(self.out_beats)]
        released = [min((k + 1) * self.out_lanes, self.channels) // self.in_lanes for k in range(self.out_beats)]
        released[-1] = self.in_beats
        further = [b - a for a, b in zip(needed, [*needed[1:], self.in_beats + needed[0]], strict=True)]
        freed = [b - a for a, b in zip([0, *released], released, strict=False)]

        span = self.in_beats * 2 + self.capacity
        shared = SharedBuffer(self.capacity, needed[0], span)
        writer = Engine(
            m, "writer", {"beat": self.in_beats}, pops=[(self.i, lambda turn: 1)], conditions=[shared.has_room]
        )
        reader = Engine(
            m, "reader", {"beat": self.out_beats}, pushes=[(outbox, lambda turn: 1)], conditions=[shared.has_beat]
        )
        asks = reader.decode(lambda turn: pick(turn["beat"], further), range(span), "further")
        frees = reader.decode(lambda turn: pick(turn["beat"], freed), range(span), "freed")
        shared.count(m, writer, reader, further=asks, released=frees)
        self._move(m, writer, reader, platform)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, writer, reader)
        return m

    def _move(self, m: Module, writer: Engine, reader: Engine, platform: object) -> None:
        """Build the ring: for each place of a block one memory, in parts with addresses of their own."""
        group = gcd(self.in_lanes, self.out_lanes)
        size = group * self.pixels * self.bits
        in_groups, out_groups = self.in_lanes // group, self.out_lanes // group

        data = delayed(m, self._transposed(bits_of(self.i.payload), self.pixels, self.in_lanes), 1, "data")
        write_block, write_place = self._position(m, writer, self.in_places)
        read_block, read_place = self._position(m, reader, self.out_places)
        read_place = delayed(m, read_place, 1, "read_place")
        rings = []  # stage 2: the block that is read, place by place
        for place in range(self.in_places):
            fires = Mux(ResetSignal(allow_reset_less=True), 0, writer.fire & (write_place == place))
            controls = Cat(fires, *([write_block, read_block] if self.blocks > 1 else []))
            for bits, its_own in spread(m, controls, len(data), f"place{place}"):
                name = f"place{place}_from{bits.start}"
                rings.append(stored(m, data[bits], max(2, self.blocks), its_own, name, platform))
        block = Cat(*rings)
        groups = [block[k * size : (k + 1) * size] for k in range(self.in_places * in_groups)]
        groups += [Const(0, size)] * (self.out_places * out_groups - len(groups))

        beats = [Cat(*groups[place * out_groups : (place + 1) * out_groups]) for place in range(self.out_places)]
        chosen = Signal(size * out_groups, reset_less=True)  # stage 3
        if len(beats) == 1:
            m.d.sync += chosen.eq(beats[0])
        else:
            for bits, its_own in spread(m, read_place, len(chosen), "read_place"):
                with m.Switch(its_own):
                    for place, beat in enumerate(beats):
                        with m.Case(place):
                            m.d.sync += chosen[bits].eq(beat[bits])
        m.d.comb += bits_of(self.outboxes["o"].data).eq(self._transposed(chosen, self.out_lanes, self.pixels))

    def _transposed(self, elements: Value, rows: int, columns: int) -> Value:
        """Transpose a matrix of elements: from row by row to column by column."""
        if 1 in (rows, columns):
            return elements
        places = [row * columns + column for column in range(columns) for row in range(rows)]
        return Cat(elements[place * self.bits : (place + 1) * self.bits] for place in places)

    def _position(self, m: Module, engine: Engine, places: int) -> tuple[Signal, Signal]:
        """Return (block of the ring, place in the block) of an engine's current beat."""
        block = Signal(range(max(2, self.blocks)), name=f"{engine.name}_block")
        place = Signal(range(max(2, places)), name=f"{engine.name}_place")
        last = engine.decode(engine.is_last("beat"), 1, "last")
        ends = last | (place == places - 1)
        with m.If(engine.fire):
            m.d.sync += place.eq(Mux(ends, 0, place + 1))
            with m.If(ends):
                m.d.sync += block.eq(Mux(block == self.blocks - 1, 0, block + 1))
        return block, place


def _blocks_touched(beats: int, places: int, span: int) -> int:
    """Return the most blocks of ``places`` that ``span`` beats touch; a pixel's ``beats`` begin a new block."""
    per_pixel = -(-beats // places)
    block_of = [pixel * per_pixel + k // places for pixel in range(2 + -(-span // beats)) for k in range(beats)]
    return max(block_of[k + span - 1] - block_of[k] + 1 for k in range(beats))
