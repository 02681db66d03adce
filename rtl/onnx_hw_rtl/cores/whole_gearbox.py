"""The same elements in beats that are a whole number of times as wide, or as narrow; one engine.

It has one operation for each narrow beat and needs no memory. Wide beats that come are kept in a register while their
parts leave; wide beats that leave are gathered part by part. These registers follow their input as long as their part
is the current operation's, so that firing enables nothing: what they hold when it fires is what they keep.

    wide to narrow    stage 1  the wide beat
                            2  the part that leaves
    narrow to wide          1  the wide beat
"""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal, Value

from onnx_hw_rtl.parts.fanout import BITS_PER_COPY, spread
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, innermost_ends
from onnx_hw_rtl.streams.stream import StreamShape, bits_of, groups_of

PARTS_PER_COPY = 3
"""Pieces of a wide beat, of ``BITS_PER_COPY`` bits at most, that follow the same copy of the part's number."""


class WholeGearbox(Core):
    """Width converter between beats of which one is n times as wide as the other.

    Args:
        channels: elements of a pixel.
        i, o: the streams, of different widths. Both have the same number of pixels per beat, which move together.
        depth: FIFO depth of the output.
    """

    def __init__(self, *, channels: int, i: StreamShape, o: StreamShape, depth: int) -> None:
        self.widens, self.bits, self.pixels = o.lanes > i.lanes, i.bits, i.pixels
        self.narrow, self.wide = sorted((i.lanes, o.lanes))
        self.parts = self.wide // self.narrow
        if self.parts < 2 or self.wide % self.narrow:
            raise ValueError(f"one of {i.lanes} and {o.lanes} lanes must be a multiple of the other")
        beats = groups_of(channels, self.narrow)
        self.groups, self.turns = groups_of(beats, self.parts), min(beats, self.parts)
        self.last_turns = beats % self.turns or None
        self.latency = 1 if self.widens else 2
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("gearbox",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        loops = {"group": self.groups, "part": self.turns}
        ends = partial(innermost_ends, loops, self.last_turns)
        engine = Engine(
            m,
            "gearbox",
            loops,
            pops=[(self.i, self._every if self.widens else self._begins)],
            pushes=[(outbox, ends if self.widens else self._every)],
            last_turns=self.last_turns,
        )
        data = bits_of(outbox.data)
        m.d.comb += data.eq(self._gathered(m, engine) if self.widens else self._taken_apart(m, engine))
        self.arrives(m, "o", self.latency)
        self.report(m, engine)
        return m

    def _every(self, turn: Turn) -> Any:
        return 1

    def _begins(self, turn: Turn) -> Any:
        return turn["part"] == 0

    def _gathered(self, m: Module, engine: Engine) -> Value:
        """Return the parts of a wide beat in stage 1, each behind the register that it was gathered in."""
        payload = bits_of(self.i.payload)
        pieces = [
            (part, slice(at, min(at + BITS_PER_COPY, len(payload))))
            for part in range(self.parts)
            for at in range(0, len(payload), BITS_PER_COPY)
        ]
        count = groups_of(len(pieces), PARTS_PER_COPY)
        numbers = engine.decode_copies(count, lambda turn: turn["part"], range(self.parts), "part")
        gathered = Signal(self.parts * len(payload), reset_less=True)
        for k, (part, bits) in enumerate(pieces):
            start = part * len(payload)
            with m.If(numbers[k // PARTS_PER_COPY] == part):
                m.d.sync += gathered[start + bits.start : start + bits.stop].eq(payload[bits])
        return self._turned(gathered, self.parts, self.pixels)

    def _taken_apart(self, m: Module, engine: Engine) -> Value:
        """Return the part of a wide beat that leaves, in stage 2."""
        payload = self._turned(bits_of(self.i.payload), self.pixels, self.parts)
        count = groups_of(len(payload), BITS_PER_COPY)
        waits = engine.decode_copies(count, lambda turn: turn["part"] != 0, 1, "waits")
        held = Signal(len(payload), reset_less=True)
        for k, its_own in enumerate(waits):
            bits = slice(k * BITS_PER_COPY, min((k + 1) * BITS_PER_COPY, len(payload)))
            with m.If(~its_own):
                m.d.sync += held[bits].eq(payload[bits])
        number = engine.decode(lambda turn: turn["part"], range(self.parts), "part")
        size = len(payload) // self.parts
        parts = [held[part * size : (part + 1) * size] for part in range(self.parts)]
        chosen = Signal(size, reset_less=True)
        for bits, its_own in spread(m, number, size, "part"):
            m.d.sync += chosen[bits].eq(Array(part[bits] for part in parts)[its_own])
        return chosen

    def _turned(self, elements: Value, rows: int, columns: int) -> Value:
        """Transpose a matrix of narrow beats of a pixel: from row by row to column by column."""
        if 1 in (rows, columns):
            return elements
        size = self.narrow * self.bits
        places = [row * columns + column for column in range(columns) for row in range(rows)]
        return Cat(elements[place * size : (place + 1) * size] for place in places)
