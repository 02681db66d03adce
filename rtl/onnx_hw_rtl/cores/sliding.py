"""Sliding window over a streamed image: two engines around one ring of beats.

The *writer* stores every incoming beat. The *reader* walks over the output pixels and, for each, over the *beats of a
window*: a beat holds ``out_lanes`` elements, each at its own place (row of the kernel, column of the kernel, channel).
A window's first beat waits until the last pixel that the window touches has been written; its other beats follow
freely. Rows that no later window touches are given back after the last window of an output row.

Elements are fetched in *groups* of ``gcd(in_lanes, out_lanes, channels)`` lanes, because a group never straddles a
stored beat; each group has its own copy of the ring, its own address and its own choice of a slice. So any cut of the
window into lanes is legal, and an aligned cut needs one copy and no multiplexer.

Where an element lies in its window, a table says for each beat of the window. With many channels and few lanes that
table would be larger than the ring. But a beat of the next channels mostly lies a fixed number of places behind: then
the table is that of the first channels, and what the others are behind is added to the place of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from math import gcd
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Shape, Signal, Value
from amaranth.lib import memory
from amaranth.utils import bits_for

from onnx_hw_rtl.cores.window_geometry import PixelGroups, Place
from onnx_hw_rtl.parts.constant_memory import FixedConstants
from onnx_hw_rtl.parts.fanout import copies, memory_parts, memory_reach, spread
from onnx_hw_rtl.parts.table import Table
from onnx_hw_rtl.streams.engine import Engine, Turn, choose, delayed, pick
from onnx_hw_rtl.streams.outbox import Outbox
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer
from onnx_hw_rtl.streams.stream import bits_of, groups_of

Fields = tuple[int, int, int, int]
"""Place of a group: (offset in the ring, row of the kernel, column in reach, slice of a beat)."""

MAX_TABLE_WORDS = 1024
"""Words of the largest table of places that is stored as a whole: those of a block RAM of an ECP5."""


class SlidingBuffer:
    """Writer, reader and ring, built into the module of a core.

    Args:
        pixels: image, kernel, and how many pixels and windows come side by side.
        out_lanes: elements that are fetched for each of the windows side by side.
        pad_value: number outside the image, which may be loaded.
        constants: source of that number.
        uncut: number of them, beginning with the first, that are neighbours wherever they lie; the next ones are, too.
        places: for each turn of the inner loops (outermost first), the places of the lanes of that beat; unused lanes
            at the end of a ragged beat are missing.
        inner: counts of the loops over the beats of one window.
        pushes_at: which reader operations push a token.

    Attributes:
        writer, reader: the engines.
        beat: the fetched elements, window by window, ``LATENCY`` cycles after the operation fired.
    """

    LATENCY = 6
    WRITE_STAGE = 3
    """Stage in which the ring is written, the same in which it is read: after the old beat was read, before the new one
    is.
    """

    def __init__(
        self,
        m: Module,
        pixels: PixelGroups,
        *,
        source: Any,
        outbox: Outbox,
        bits: int,
        out_lanes: int,
        uncut: int,
        capacity: int,
        pad_value: int,
        constants: FixedConstants,
        inner: Mapping[str, int],
        places: Callable[[Mapping[str, int]], Sequence[Place]],
        pushes_at: Callable[[Turn], Any],
    ) -> None:
        self.geometry = geometry = pixels.wide
        self.m, self.reach, self.inner, self.places = m, pixels.reach, dict(inner), places
        self.bits = bits
        self.pad = constants.number(m, "pad_value", Shape(bits), pad_value & ((1 << bits) - 1))
        self.in_lanes, self.out_lanes = pixels.in_pixels * pixels.in_lanes, pixels.out_pixels * out_lanes
        self.group = gcd(pixels.geometry.shape[2], pixels.in_lanes, uncut)
        self.per_pixel = groups_of(geometry.shape[2], self.in_lanes)
        self.beats = geometry.shape[0] * geometry.shape[1] * self.per_pixel
        self.ring = max(2, 1 << (capacity - 1).bit_length())

        span = 2 * self.beats + capacity + (geometry.extent[0] + 1) * geometry.shape[1] * self.per_pixel
        shared = SharedBuffer(capacity, self._needed(0, 0), span)
        everything_padding = Signal(name="everything_padding")
        self.writer = writer = Engine(
            m, "writer", {"beat": 1}, pops=[(source, lambda turn: 1)], conditions=[shared.has_room]
        )
        out_rows, out_columns = geometry.output
        self.reader = reader = Engine(
            m,
            "reader",
            {"row": out_rows, "column": out_columns, **self.inner},
            pushes=[(outbox, pushes_at)],
            conditions=[shared.has_beat | everything_padding],
        )
        m.d.comb += everything_padding.eq(reader.decode(self._touches_no_pixel, 1, "padding"))
        further = reader.decode(self._need_grows_by, range(-span, span), "further")
        released = reader.decode(self._releases, range(self.beats + 1), "released")
        shared.count(m, writer, reader, further=further, released=released)
        self.beat = self._fetch(source)

    # ---- what operations need and give back; the arguments are integers or signals --------------------------------

    def _last_touched(self, axis: int) -> list[int]:
        """Return, for each output row (column), the last image row (column) that its windows touch, or -1."""
        size, stride, pad = self.geometry.shape[axis], self.geometry.strides[axis], self.geometry.pads[axis]
        return [
            max(-1, min(k * stride + self.geometry.extent[axis] - 1 - pad, size - 1))
            for k in range(self.geometry.output[axis])
        ]

    def _needed(self, row: int, column: int) -> int:
        """Return the number of beats of the frame that a window waits for; meaningless if it touches nothing."""
        y, x = self._last_touched(0)[row], self._last_touched(1)[column]
        return (y * self.geometry.shape[1] + x + 1) * self.per_pixel

    def _touches_no_pixel(self, turn: Turn) -> Any:
        rows = [int(y < 0) for y in self._last_touched(0)]
        columns = [int(x < 0) for x in self._last_touched(1)]
        return pick(turn["row"], rows) | pick(turn["column"], columns)

    def _need_grows_by(self, turn: Turn) -> Any:
        """Return the beats by which the need grows from an operation to the next one."""
        rows, columns = self.geometry.output
        y, x = self._last_touched(0), self._last_touched(1)
        width = self.geometry.shape[1]
        by_column = [(b - a) * self.per_pixel for a, b in zip(x, [*x[1:], x[-1]], strict=True)]
        back = (x[0] - x[-1]) * self.per_pixel
        by_row = [(b - a) * width * self.per_pixel + back for a, b in zip(y, [*y[1:], y[-1]], strict=True)]
        by_row[-1] = self.beats + self._needed(0, 0) - self._needed(rows - 1, columns - 1)
        row_ends = self.reader_is_last("column")(turn)
        grows = choose(row_ends, pick(turn["row"], by_row), pick(turn["column"], by_column))
        return choose(self.reader_is_last(*self.inner)(turn), grows, 0)

    def _releases(self, turn: Turn) -> Any:
        """Return the beats that an operation gives back: whole rows, after the last window of an output row."""
        height, width, _ = self.geometry.shape
        kept_from = [
            max(0, min((row + 1) * self.geometry.strides[0] - self.geometry.pads[0], height))
            for row in range(self.geometry.output[0])
        ]
        kept_from[-1] = height
        rows = [b - a for a, b in zip([0, *kept_from], kept_from, strict=False)]
        beats = [count * width * self.per_pixel for count in rows]
        return choose(self.reader_is_last("column", *self.inner)(turn), pick(turn["row"], beats), 0)

    def reader_is_last(self, *names: str) -> Callable[[Turn], Any]:
        counts = {"row": self.geometry.output[0], "column": self.geometry.output[1], **self.inner}

        def condition(turn: Turn) -> Any:
            last: Any = 1
            for name in names:
                last = (turn[name] == counts[name] - 1) & last
            return last

        return condition

    # ---- the data path ------------------------------------------------------------------------------------------

    def _fetch(self, source: Any) -> list[Value]:
        """Return the values of the reader's beat, lane by lane.

        Stage 2 has the table's answer, 3 the address in the ring, 4 the ring's word, 5 its register, 6 the slice of it
        or the padding.
        """
        m, reader, kernel = self.m, self.reader, self.reach.kernel
        writes = self._write(source)
        shift = self._shift_of_chunks()
        corner = delayed(m, self._corner(), 2, "corner") if shift is None else self._shifted_corner(shift)
        rows = delayed(m, reader.decode(self._inside(0), kernel[0], "rows_inside"), 2, "rows_inside")
        columns = delayed(m, reader.decode(self._inside(1), kernel[1], "columns_inside"), 2, "columns_inside")
        tables = self._tables_of_places if shift is None else self._tables_of_steps()
        index = self._index(self.inner if shift is None else self._steps)
        lanes: list[Value] = []
        for first_lane in range(0, self.out_lanes, self.group):
            offset, row, column, chosen = self._group_table(first_lane, tables[first_lane], index)
            inside = Signal(name=f"inside{first_lane}", reset_less=True)
            m.d.sync += inside.eq(rows.bit_select(row, 1) & columns.bit_select(column, 1))
            word = self._word(first_lane, writes, (corner + offset)[: bits_for(self.ring - 1)])
            lanes += self._fetch_group(first_lane, word, inside, delayed(m, chosen, 2, "slice"))
        return lanes

    def _write(self, source: Any) -> Iterator[tuple[Value, Value]]:
        """Yield (strobe with address, data) for every part of a copy of the ring."""
        m, stage = self.m, self.WRITE_STAGE
        place = Signal(range(self.ring), name="write_at")
        with m.If(self.writer.fire):
            m.d.sync += place.eq(place + 1)
        data = delayed(m, bits_of(source.payload), stage, "write_data")
        strobe = delayed(m, self.writer.fire, stage - 1, "write", strobe=True)
        strobe = Mux(ResetSignal(allow_reset_less=True), 0, strobe)
        parts = [data[bits] for bits in memory_parts(len(data), self.ring)] * (self.out_lanes // self.group)
        together = max(1, memory_reach(self.ring) // len(data))
        control = Cat(strobe, delayed(m, place, stage - 1, "write_address"))
        controls = copies(m, control, -(-len(parts) // together), "write")
        return ((controls[k // together], part) for k, part in enumerate(parts))

    def _word(self, first_lane: int, writes: Iterator[tuple[Value, Value]], address: Value) -> Value:
        """Return the beat at an address, from a copy of the ring, in stage 5; the address belongs to stage 2."""
        m, words = self.m, []
        parts, name = memory_parts(self.in_lanes * self.bits, self.ring), f"address{first_lane}"
        # a single copy may be shared with another group
        addresses = copies(m, address, len(parts), name) if len(parts) > 1 else [delayed(m, address, 1, name)]
        for bits, its_address in zip(parts, addresses, strict=True):
            control, data = next(writes)
            ring = memory.Memory(shape=len(data), depth=self.ring, init=[])
            m.submodules[f"ring{first_lane}_{bits.start}"] = ring
            write_port, read_port = ring.write_port(), ring.read_port()
            m.d.comb += [
                write_port.addr.eq(control[1:]),
                write_port.data.eq(data),
                write_port.en.eq(control[0]),
                read_port.addr.eq(its_address),
            ]
            words.append(read_port.data)
        word: Value = delayed(m, Cat(words), 1, f"word{first_lane}")
        return word

    def _corner(self) -> Signal:
        """Return the address in the ring of the window's first pixel, inside the image or not."""
        m, geometry, reader = self.m, self.geometry, self.reader
        (rows, columns), width = geometry.output, geometry.shape[1]
        column = geometry.strides[1] * self.per_pixel
        row = geometry.strides[0] * width * self.per_pixel
        to_row = row - (columns - 1) * column
        to_frame = self.beats - (rows - 1) * row - (columns - 1) * column

        def moves(turn: Turn) -> Any:
            to_next_row = choose(self.reader_is_last("row")(turn), to_frame % self.ring, to_row % self.ring)
            to_next = choose(self.reader_is_last("column")(turn), to_next_row, column % self.ring)
            return choose(self.reader_is_last(*self.inner)(turn), to_next, 0)

        first = -(geometry.pads[0] * width + geometry.pads[1]) * self.per_pixel
        corner = Signal(range(self.ring), init=first % self.ring)
        move = reader.decode(moves, range(self.ring), "move")
        with m.If(reader.fire):
            m.d.sync += corner.eq(corner + move)
        return corner

    def _shifted_corner(self, shift: int) -> Value:
        """Return the address of the window's first pixel and of the first of its beat's channels, in stage 2."""
        m, (chunk, *_) = self.m, self.inner
        channels = Signal(range(self.ring), name="channels", reset_less=True)
        at = Signal(range(self.ring), name="corner_of_channels", reset_less=True)
        number = self._place_in(chunk)
        m.d.sync += channels.eq(sum((number << k for k in range(shift.bit_length()) if shift >> k & 1), Const(0)))
        m.d.sync += at.eq(delayed(m, self._corner(), 1, "corner") + channels)
        return at

    def _place_in(self, loop: str) -> Signal:
        return self.reader.decode(lambda turn: turn[loop], range(max(2, self.inner[loop])), loop)

    @property
    def _steps(self) -> dict[str, int]:
        """The innermost loop over the beats of a window."""
        (name, count) = list(self.inner.items())[-1]
        return {name: count}

    def _index(self, loops: Mapping[str, int]) -> Value:
        """Return the number of the window's beat in stage 0: loops side by side, the innermost in the lowest bits."""
        return Cat(self._place_in(name) for name in reversed(list(loops)))

    def _fetch_group(self, first_lane: int, word: Value, inside: Value, chosen: Value) -> list[Value]:
        """Return the lanes of one group: the slice of a word, or padding."""
        m, size = self.m, self.group * self.bits
        slices = [word[k : k + size] for k in range(0, len(word), size)]
        padding = self.pad.replicate(self.group)
        value = Signal(size, name=f"group{first_lane}", reset_less=True)
        control = Cat(delayed(m, inside, 1, "inside"), chosen if len(slices) > 1 else [])
        for bits, its_own in spread(m, control, size, f"choice{first_lane}"):
            picked = Array(part[bits] for part in slices)[its_own[1:]] if len(slices) > 1 else word[bits]
            m.d.sync += value[bits].eq(Mux(its_own[0], picked, padding[bits]))
        return [value[k : k + self.bits] for k in range(0, size, self.bits)]

    def _inside(self, axis: int) -> Callable[[Turn], Any]:
        """Return which rows (columns) of the kernel lie inside the image, one bit each."""
        size, stride, pad = self.reach.shape[axis], self.reach.strides[axis], self.reach.pads[axis]
        dilation = self.reach.dilations[axis]
        masks = [
            sum((0 <= k * stride - pad + tap * dilation < size) << tap for tap in range(self.reach.kernel[axis]))
            for k in range(self.reach.output[axis])
        ]
        return lambda turn: pick(turn[("row", "column")[axis]], masks)

    def _group_table(
        self, first_lane: int, places: Sequence[Fields | None], index: Value
    ) -> tuple[Value, Value, Value, Value]:
        """Return (offset in the ring, kernel row, column in reach, slice) of a group, by beat, in stage 2."""
        kernel = self.reach.kernel
        widths = [
            bits_for(self.ring - 1),
            bits_for(kernel[0] - 1),
            bits_for(kernel[1] - 1),
            bits_for(max(1, self.in_lanes // self.group - 1)),
        ]
        words = [_word_of(fields, widths) if fields else 0 for fields in places[: _used_words(places)]]
        self.m.submodules[f"table{first_lane}"] = table = Table(sum(widths), words)
        self.m.d.comb += table.index.eq(index)
        parts, at = [], 0
        for width in widths:
            parts.append(table.data[at : at + width])
            at += width
        return parts[0], parts[1], parts[2], parts[3]

    @cached_property
    def _tables_of_places(self) -> dict[int, list[Fields | None]]:
        """Places of each group of a beat, by its first lane and by the beat's number in the window; None where nothing
        is fetched. The number is that of the inner loops side by side, so the table has holes where the count of a loop
        is not a power of two.
        """
        sizes = [1 << bits_for(max(1, count - 1)) for count in self.inner.values()]
        tables: dict[int, list[Fields | None]] = {first: [] for first in range(0, self.out_lanes, self.group)}
        for place in product(*map(range, sizes)):
            turn = dict(zip(self.inner, place, strict=True))
            reached = all(turn[name] < count for name, count in self.inner.items())
            places = self.places(turn) if reached else []
            for first, table in tables.items():
                table.append(self._group_fields(*places[first]) if first < len(places) else None)
        return tables

    def _shift_of_chunks(self) -> int | None:
        """Return by how many places of the ring a beat of the next channels lies behind; None where the table of all
        is small, or they lie otherwise.
        """
        tables, size = self._tables_of_places.values(), self._step_words
        if len(self.inner) != 2 or max(map(_used_words, tables)) <= MAX_TABLE_WORDS:
            return None
        for first, second in ((table[0], table[size]) for table in tables):
            if first and second:
                shift = (second[0] - first[0]) % self.ring
                return shift if all(self._follows(table, shift) for table in tables) else None
        return None

    def _follows(self, table: Sequence[Fields | None], shift: int) -> bool:
        """Return whether each group of each chunk lies as far behind the one of the chunk before it."""
        pairs = zip(table, table[self._step_words :], strict=False)
        return all(
            after is None or (before is not None and after == ((before[0] + shift) % self.ring, *before[1:]))
            for before, after in pairs
        )

    def _tables_of_steps(self) -> dict[int, list[Fields | None]]:
        """Return where each group of a beat of the first channels lies."""
        return {first: table[: self._step_words] for first, table in self._tables_of_places.items()}

    @property
    def _step_words(self) -> int:
        """The words of a table for the beats of a window that take the same channels."""
        (count,) = self._steps.values()
        return 1 << bits_for(max(1, count - 1))

    def _group_fields(self, row: int, column: int, channel: int, reached: int) -> Fields:
        (down, right), width = self.geometry.dilations, self.geometry.shape[1]
        offset = (row * down * width + column * right) * self.per_pixel + channel // self.in_lanes
        return offset % self.ring, row, reached, channel % self.in_lanes // self.group


def _used_words(places: Sequence[Fields | None]) -> int:
    """Return the words of a table up to the last one that is used; one if none is."""
    return max(number + 1 if fields else 1 for number, fields in enumerate(places))


def _word_of(fields: Sequence[int], widths: Sequence[int]) -> int:
    """Pack fields into one word, the first field in the lowest bits."""
    word, at = 0, 0
    for field, width in zip(fields, widths, strict=True):
        word |= field << at
        at += width
    return word
