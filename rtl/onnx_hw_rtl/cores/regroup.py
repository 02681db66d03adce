"""Several pixels of a row into one beat, or one beat into its pixels. Two engines around a ring; latency 3.

The ring has one memory for each pixel of a group; a word of it is one channel group. The side with single pixels fills
or empties the memories in turn; the side with groups uses all of them at once. A pixel group is given back as a whole.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Signal, Value

from onnx_hw_rtl.parts.distributed_memory import stored
from onnx_hw_rtl.parts.fanout import spread
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, choose, delayed, pick
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer
from onnx_hw_rtl.streams.stream import StreamShape, bits_of, groups_of


class Regroup(Core):
    """Conversion from one pixel per beat to several, or back.

    A group never crosses a row; the last group of a row may be smaller.

    Args:
        columns: pixels of a row.
        channels: channels of a pixel.
        i, o: the streams, with the same number of lanes; one of them has 1 pixel.
        capacity: input beats that may be stored and not yet given back.
        depth: FIFO depth of the output.
    """

    LATENCY = 3

    def __init__(
        self,
        *,
        columns: int,
        channels: int,
        i: StreamShape,
        o: StreamShape,
        capacity: int,
        depth: int,
    ) -> None:
        self.gathers, self.capacity = i.pixels == 1, capacity
        self.pixels, self.size = max(i.pixels, o.pixels), i.lanes * i.bits
        self.channel_groups = groups_of(channels, i.lanes)
        row = columns if columns % self.pixels else self.pixels  # the sequence of groups that repeats
        self.group_of = [column // self.pixels for column in range(row)]
        self.lengths = [min(self.pixels, row - first) for first in range(0, row, self.pixels)]
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        by_pixel, by_group = len(self.group_of), len(self.lengths)
        written, read = (by_pixel, by_group) if self.gathers else (by_group, by_pixel)
        beats = self.channel_groups * max(self.lengths if self.gathers else [1])
        span = 2 * beats + self.capacity + 1
        shared = SharedBuffer(self.capacity, self._first_need(0), span)
        writer = Engine(
            m,
            "writer",
            {"place": written, "channels": self.channel_groups},
            pops=[(self.i, lambda turn: 1)],
            conditions=[shared.has_room],
        )
        reader = Engine(
            m,
            "reader",
            {"place": read, "channels": self.channel_groups},
            pushes=[(outbox, lambda turn: 1)],
            conditions=[shared.has_beat],
        )
        asks = reader.decode(lambda turn: self._need_grows_by(reader, turn), range(-span, span), "further")
        frees = reader.decode(lambda turn: self._releases(reader, turn), range(span), "freed")
        shared.count(m, writer, reader, further=asks, released=frees)
        self._move(m, writer, reader, platform)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, writer, reader)
        return m

    # ---- what the reader needs and gives back -----------------------------------------------------------------------

    def _first_need(self, group: int) -> int:
        """Return the number of beats of a pixel group that its first output beat waits for."""
        return (self.lengths[group] - 1) * self.channel_groups + 1 if self.gathers else 1

    def _need_grows_by(self, reader: Engine, turn: Turn) -> Any:
        """Return the beats by which the need grows from an operation to the next one.

        A group that is scattered is complete once its first pixel has left.
        """
        channels_end = reader.is_last("channels")(turn)
        if self.gathers:
            firsts = [self._first_need(group) for group in range(len(self.lengths))]
            to_next = pick(turn["place"], [*firsts[1:], firsts[0]])
            return choose(channels_end, to_next, 1)
        first_pixel = pick(turn["place"], [int(self._slot(k) == 0) for k in range(len(self.group_of))])
        return choose(channels_end, pick(turn["place"], self._ends()), first_pixel)

    def _releases(self, reader: Engine, turn: Turn) -> Any:
        if self.gathers:
            beats = pick(turn["place"], [length * self.channel_groups for length in self.lengths])
        else:
            beats = pick(turn["place"], [end * self.channel_groups for end in self._ends()])
        return choose(reader.is_last("channels")(turn), beats, 0)

    def _slot(self, column: int) -> int:
        """Return the place of a pixel in its group."""
        return column % self.pixels

    def _ends(self) -> list[int]:
        """Return, for each pixel, whether it is the last one of its group."""
        group = self.group_of
        return [int(k + 1 == len(group) or group[k] != group[k + 1]) for k in range(len(group))]

    # ---- the data path ----------------------------------------------------------------------------------------------

    def _move(self, m: Module, writer: Engine, reader: Engine, platform: object) -> None:
        data = delayed(m, bits_of(self.i.payload), 1, "data")
        write_slot, write_address = self._position(m, writer, self.gathers)
        read_slot, read_address = self._position(m, reader, not self.gathers)
        read_slot = delayed(m, read_slot, 1, "read_slot")
        pixels: list[Value] = []  # stage 2
        for k in range(self.pixels):
            word = data if self.gathers else data[k * self.size : (k + 1) * self.size]
            writes = writer.fire & (write_slot == k) if self.gathers else writer.fire
            controls = Cat(Mux(ResetSignal(allow_reset_less=True), 0, writes), write_address, read_address)
            parts = spread(m, controls, self.size, f"pixel{k}")
            depth = 1 << len(write_address)
            pixels.append(
                Cat(
                    stored(m, word[bits], depth, its_own, f"pixel{k}_from{bits.start}", platform)
                    for bits, its_own in parts
                )
            )
        m.d.comb += bits_of(self.outboxes["o"].data).eq(self._pixels_read(m, pixels, read_slot))

    def _pixels_read(self, m: Module, stored: list[Value], slot: Value) -> Value:
        """Return all pixels, or the one in the slot that is read, in stage 3."""
        if self.gathers:
            return delayed(m, Cat(*stored), 1, "made")
        made = Signal(self.size, name="made", reset_less=True)
        for bits, its_own in spread(m, slot, self.size, "read_slot"):
            m.d.sync += made[bits].eq(Array(pixel[bits] for pixel in stored)[its_own])
        return made

    def _position(self, m: Module, engine: Engine, pixel_by_pixel: bool) -> tuple[Value, Value]:
        """Return (pixel of its group, word of its memory) of an engine's current beat."""
        group = Signal(range(max(2, self._groups_held())), name=f"{engine.name}_group")
        channels = engine.decode(lambda turn: turn["channels"], range(max(2, self.channel_groups)), "channels")
        slots = [self._slot(k) for k in range(len(self.group_of))]
        slot: Value = Const(0, 1)
        ends: Value = engine.decode(engine.is_last("channels"), 1, "ends")
        if pixel_by_pixel:
            slot = engine.decode(lambda turn: pick(turn["place"], slots), range(max(2, self.pixels)), "slot")
            ends = ends & engine.decode(lambda turn: pick(turn["place"], self._ends()), 1, "group_ends")
        with m.If(engine.fire & ends):
            m.d.sync += group.eq(Mux(group == self._groups_held() - 1, 0, group + 1))
        return slot, Cat(channels, group)

    def _groups_held(self) -> int:
        """Return the most pixel groups that ``capacity`` beats touch; they begin with one, given back as a whole."""
        beats = [(length if self.gathers else 1) * self.channel_groups for length in self.lengths]
        most = 0
        for first in range(len(beats)):
            left, held = self.capacity, 0
            while left > 0:
                left -= beats[(first + held) % len(beats)]
                held += 1
            most = max(most, held)
        return most
