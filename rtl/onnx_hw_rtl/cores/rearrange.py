"""``o.flat[k] = i.flat[source[k]]``, or a constant: any element to any place, fixed at elaboration.

The *writer* stores every incoming beat in a ring. The *reader* goes through the beats of the result in three loops.
Lanes of the result that always come from the same stored beat share a *port*: a copy of the ring, which stores only the
lanes that are needed, and an address, which is the sum of three constants, one per loop. The composition of a beat
(which stored lane goes where, or the constant) is a *pattern*; the loops select it.

All operations of a turn of the outer loop wait for the last beat that this or an earlier turn reads; at the end of the
turn, every beat before the first one that later turns read is given back.

    stage  1, 2  the tables of the three loops
           3, 4  the address of every port (meanwhile the pattern, if several loops select it)
           5, 6  the ring's word and its register
           7     each lane's element of it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import memory

from onnx_hw_rtl.cores.gather import FILL, UNUSED, LaneSelection, LoopTable, side_by_side
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, choose, delayed, pick
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer
from onnx_hw_rtl.streams.stream import StreamShape, bits_of, groups_of

LOOPS = ("outer", "middle", "inner")
MAX_EXCEPTIONS = 8  # further exceptions from the most frequent value are cheaper as a table than one by one


@dataclass
class RingReader:
    """Lanes of the result that read one copy of the ring.

    Attributes:
        wants: stored beat by operation, or -1.
        lanes: lanes of the result.
        stored: lanes of a stored beat that this copy holds, ascending.
    """

    wants: np.ndarray
    lanes: list[int]
    stored: list[int] = field(default_factory=list)


class Rearrange(Core):
    """Rearrangement: any map from a frame to a frame.

    Args:
        source: (size of the result,) integers: flat index in the operand, or -1 for the constant.
        in_shape, out_shape: (height, width, channels) of operand and result.
        loops: three factors of the number of output beats, such that the beat every port reads is a sum of three
            numbers, one per loop; (1, 1, beats) always works.
        i, o: the streams, one pixel per beat.
        capacity: beats that may be stored and not yet given back.
        fill: the constant.
        depth: FIFO depth of the output.

    Raises:
        ValueError: the loops do not fit the map.
    """

    LATENCY = 7
    WRITE_STAGE = 4
    """Stage in which the ring is written, the same in which it is read: after the old beat was read, before the new one
    is.
    """

    def __init__(
        self,
        source: np.ndarray,
        *,
        in_shape: tuple[int, int, int],
        out_shape: tuple[int, int, int],
        loops: tuple[int, int, int],
        i: StreamShape,
        o: StreamShape,
        capacity: int,
        fill: int = 0,
        depth: int,
    ) -> None:
        self.bits, self.in_lanes, self.out_lanes, self.capacity, self.fill = i.bits, i.lanes, o.lanes, capacity, fill
        self.loops = dict(zip(LOOPS, loops, strict=True))
        self.in_beats = in_shape[0] * in_shape[1] * groups_of(in_shape[2], i.lanes)
        self.ring = max(2, 1 << (capacity - 1).bit_length())
        self._locate(source, in_shape, out_shape)
        if self.out_beats != loops[0] * loops[1] * loops[2]:
            raise ValueError(f"loops {loops} do not make {self.out_beats} beats")
        self.ports = self._share_ports()
        self.offsets = [self._separate(port) for port in self.ports]
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "reader"))

    # ---- at elaboration: where every element comes from -----------------------------------------------------------

    def _locate(self, source: np.ndarray, in_shape: tuple[int, int, int], out_shape: tuple[int, int, int]) -> None:
        """Set ``wants`` and ``takes``: (output beats, out_lanes) stored beat and its lane, or FILL or UNUSED."""
        height, width, channels = out_shape
        per_pixel, stored_per_pixel = groups_of(channels, self.out_lanes), groups_of(in_shape[2], self.in_lanes)
        self.out_beats = height * width * per_pixel
        self.wants = np.full((self.out_beats, self.out_lanes), UNUSED, dtype=np.int64)
        places = np.arange(source.size)
        at = places // channels * per_pixel + places % channels // self.out_lanes, places % channels % self.out_lanes
        self.takes = self.wants.copy()
        pixel, channel = np.divmod(source, in_shape[2])
        self.wants[at] = np.where(source < 0, FILL, pixel * stored_per_pixel + channel // self.in_lanes)
        self.takes[at] = np.where(source < 0, FILL, channel % self.in_lanes)

    def _share_ports(self) -> list[RingReader]:
        ports: list[RingReader] = []
        for lane in range(self.out_lanes):
            wants = self.wants[:, lane]
            real = wants >= 0
            if not np.any(real):
                continue
            for port in ports:
                if not np.any(real & (port.wants >= 0) & (wants != port.wants)):
                    port.wants = np.maximum(port.wants, wants)
                    port.lanes.append(lane)
                    break
            else:
                ports.append(RingReader(np.maximum(wants, FILL), [lane]))
        for port in ports:
            taken = self.takes[:, port.lanes]
            port.stored = sorted(set(taken[taken >= 0].tolist()))
        return ports

    def _separate(self, port: RingReader) -> list[list[int]]:
        """Return, for each loop, the part of the stored beat's number that each of its turns adds."""
        counts = tuple(self.loops.values())
        wants = port.wants.reshape(counts)
        outer, middle, inner = np.unravel_index(int(np.argmax(port.wants >= 0)), counts)
        first = wants[outer, middle, inner]
        lines = (wants[:, middle, inner], first), (wants[outer, :, inner], first), (wants[outer, middle, :], 0)
        parts = [np.where(line >= 0, line - less, 0) for line, less in lines]
        total = parts[0][:, None, None] + parts[1][:, None] + parts[2]
        if np.any((wants >= 0) & (wants != total)):
            raise ValueError(f"loops {counts} do not separate the map")
        return [part.tolist() for part in parts]

    def _turns(self) -> tuple[list[int], list[int]]:
        """Return two lists with one entry for each turn of the outer loop: the beats it waits for, counted from the
        start of the frame, and the beats given back after it.
        """
        turns = self.wants.reshape(self.loops["outer"], -1)
        needed, released = [], []
        most = 0
        for turn in turns:
            most = max(most, int(turn.max()) + 1)
            needed.append(most)
        least = self.in_beats
        for turn in turns[::-1]:
            released.append(least)
            least = min(least, int(turn[turn >= 0].min(initial=self.in_beats)))
        return needed, released[::-1]

    # ---- the engines ----------------------------------------------------------------------------------------------

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        needed, released = self._turns()
        further = [b - a for a, b in zip(needed, [*needed[1:], self.in_beats + needed[0]], strict=True)]
        freed = [b - a for a, b in zip([0, *released], released, strict=False)]

        shared = SharedBuffer(self.capacity, needed[0], 3 * self.in_beats + self.capacity)
        nothing = Signal(name="nothing")
        writer = Engine(m, "writer", {"beat": 1}, pops=[(self.i, lambda turn: 1)], conditions=[shared.has_room])
        reader = Engine(
            m, "reader", self.loops, pushes=[(outbox, lambda turn: 1)], conditions=[shared.has_beat | nothing]
        )
        m.d.comb += nothing.eq(reader.decode(lambda turn: self._needs_nothing(turn, needed), 1, "nothing"))
        turn_ends = reader.is_last("middle", "inner")

        def at_turn_end(values: Sequence[int]) -> Any:
            return lambda turn: choose(turn_ends(turn), _entry(turn["outer"], values), 0)

        asks = reader.decode(at_turn_end(further), range(2 * self.in_beats + 1), "further")
        frees = reader.decode(at_turn_end(freed), range(self.in_beats + 1), "freed")
        shared.count(m, writer, reader, further=asks, released=frees)
        m.d.comb += bits_of(outbox.data).eq(Cat(*self._fetch(m, writer, reader)))
        self.arrives(m, "o", self.LATENCY)
        self.report(m, writer, reader)
        return m

    def _needs_nothing(self, turn: Turn, needed: Sequence[int]) -> Any:
        """Return the condition that a turn comes before the first one that reads; it waits for no frame either."""
        return turn["outer"] < sum(count == 0 for count in needed)

    # ---- the data path --------------------------------------------------------------------------------------------

    def _fetch(self, m: Module, writer: Engine, reader: Engine) -> list[Value]:
        """Return the lanes of the reader's beat."""
        place = Signal(range(self.ring), name="write_at")
        with m.If(writer.fire):
            m.d.sync += place.eq(place + 1)
        written = delayed(m, bits_of(self.i.payload), self.WRITE_STAGE, "write_data")
        strobe = delayed(m, writer.fire, self.WRITE_STAGE, "write", strobe=True)
        write_address = delayed(m, place, self.WRITE_STAGE, "write_address")

        addresses, selects = self._look_up(m, reader)
        self.filler = self.constants.number(m, "fill", Shape(self.bits), self.fill & ((1 << self.bits) - 1))
        lanes: list[Value] = [self.filler] * self.out_lanes
        for number, (port, address) in enumerate(zip(self.ports, addresses, strict=True)):
            held = Cat(written[k * self.bits : (k + 1) * self.bits] for k in port.stored)
            m.submodules[f"ring{number}"] = ring = memory.Memory(shape=len(held), depth=self.ring, init=[])
            write_port, read_port = ring.write_port(), ring.read_port()
            m.d.comb += [
                write_port.addr.eq(write_address),
                write_port.data.eq(held),
                write_port.en.eq(strobe),
                read_port.addr.eq(address),
            ]
            word = delayed(m, read_port.data, 1, f"word{number}")
            for lane in port.lanes:
                lanes[lane] = self._lane(m, lane, port, word, selects[lane])
        return lanes

    def _lane(self, m: Module, lane: int, port: RingReader, word: Value, select: tuple[Value, Sequence[int]]) -> Value:
        """Return the element that the pattern names, in stage 7; ``select`` has the stored lane of each number."""
        number, stands_for = select
        at = {taken: place * self.bits for place, taken in enumerate(port.stored)}
        elements = [self.filler if taken == FILL else word[at.get(taken, 0) :][: self.bits] for taken in stands_for]
        return delayed(m, _multiplexer(number, elements), 1, f"lane{lane}")

    def _look_up(self, m: Module, reader: Engine) -> tuple[list[Value], list[tuple[Value, Sequence[int]]]]:
        """Return the address of every port in stage 4 and, for every lane, what selects its element in stage 6."""
        columns: dict[str, list[list[int]]] = {loop: [] for loop in LOOPS}
        for parts in self.offsets:
            for loop, part in zip(LOOPS, parts, strict=True):
                column = [offset % self.ring for offset in part]
                if column not in columns[loop]:
                    columns[loop].append(column)
        selects = LaneSelection(self.takes, self.loops)
        answers = {
            loop: self._table(m, reader, loop, columns[loop], self.ring - 1, selects.words[loop]) for loop in LOOPS
        }

        def offset(port: int, axis: int) -> int:
            """Return the number of the column in the loop's table."""
            return columns[LOOPS[axis]].index([part % self.ring for part in self.offsets[port][axis]])

        base = delayed(m, self._base(m, reader), 2, "base")
        sums: dict[tuple[int, ...], Signal] = {}
        addresses = []
        for port in range(len(self.ports)):
            outer, middle, inner = (offset(port, axis) for axis in range(3))
            left, right = (
                self._sum(m, sums, (-1, outer), base, answers["outer"][0][outer]),
                self._sum(m, sums, (middle, inner), answers["middle"][0][middle], answers["inner"][0][inner]),
            )
            address = Signal(range(self.ring), name=f"address{port}", reset_less=True)
            m.d.sync += address.eq(left + right)
            addresses.append(address)
        chosen = selects.resolve(m, [answers[loop][1] for loop in LOOPS])
        return addresses, [selects.of_lane(chosen, lane) for lane in range(self.out_lanes)]

    def _sum(self, m: Module, sums: dict[tuple[int, ...], Signal], key: tuple[int, ...], a: Value, b: Value) -> Signal:
        """Add two parts of an address in stage 3, once for all ports that need the sum."""
        if key not in sums:
            sums[key] = Signal(range(self.ring), name=f"sum{len(sums)}", reset_less=True)
            m.d.sync += sums[key].eq(a + b)
        return sums[key]

    def _base(self, m: Module, reader: Engine) -> Signal:
        """Return the place in the ring where the frame begins, in stage 0."""
        base = Signal(range(self.ring), name="base")
        with m.If(reader.fire & reader.decode(reader.is_last(*LOOPS), 1, "frame_ends")):
            m.d.sync += base.eq(base + self.in_beats % self.ring)
        return base

    def _table(
        self, m: Module, reader: Engine, loop: str, columns: list[list[int]], largest: int, words: tuple[int, list[int]]
    ) -> tuple[list[Value], Value]:
        """Return the entries of a loop's turn in stage 2: one per column, and the word of ``words``, (width, words)."""
        wide = [max(1, largest.bit_length()) if len(set(column)) > 1 else 0 for column in columns]
        wide.append(words[0])
        if sum(wide) == 0:
            return [Const(column[0], max(1, largest.bit_length())) for column in columns], Const(0, 0)
        index = reader.decode(lambda turn: turn[loop], range(max(2, self.loops[loop])), f"{loop}_now")
        every = [*columns, words[1]]
        rows = [side_by_side([column[k] for column in every], wide) for k in range(self.loops[loop])]
        m.submodules[f"{loop}_table"] = table = LoopTable(sum(wide), rows)
        m.d.comb += table.addr.eq(index)
        entries: list[Value] = []
        at = 0
        for column, width in zip(every, wide, strict=True):
            constant = Const(column[0], max(1, largest.bit_length())) if column is not words[1] else Const(0, 0)
            entries.append(table.data[at : at + width] if width else constant)
            at += width
        return entries[:-1], entries[-1]


def _multiplexer(number: Value, elements: Sequence[Value]) -> Value:
    """Build a multiplexer as a tree over the bits of the number, half of what yosys makes of a switch with these cases.

    A number beyond the last element selects any element.
    """
    if len(elements) == 1:
        return elements[0]
    half = 1 << ((len(elements) - 1).bit_length() - 1)
    return Mux(
        number[half.bit_length() - 1], _multiplexer(number, elements[half:]), _multiplexer(number, elements[:half])
    )


def _entry(index: Any, values: Sequence[int]) -> Any:
    """Return ``values[index]`` for an integer or a signal."""
    regular = max(values.count(value) for value in set(values))
    if isinstance(index, int) or len(values) - regular <= MAX_EXCEPTIONS:
        return pick(index, values)
    return Array(values)[index]
