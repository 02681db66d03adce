"""Bytes of a host into the beats of a network's streams, and beats into bytes: see ``onnx_hw_link.link.Port``."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import Port

__all__ = ["BeatsFromBytes", "BytesFromBeats", "Turns"]


class Turns(Component):
    """Whose beat is next.

    Args:
        turns: (stream, beats) one after the other: a frame.

    Ports:
        step: a beat has passed.
        stream: whose turn it is.
        first, last: this beat is that of a frame.
    """

    def __init__(self, turns: Sequence[tuple[int, int]]) -> None:
        self.turns = tuple(turns)
        self.streams = 1 + max(stream for stream, _ in turns)
        super().__init__({"step": In(1), "stream": Out(_numbers(self.streams)), "first": Out(1), "last": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beats = [beats for _, beats in self.turns]
        turn, left = Signal(_numbers(len(beats))), Signal(range(max(beats)), init=beats[0] - 1)
        first = Signal(init=1)
        with m.Switch(turn):
            for k, (stream_, _) in enumerate(self.turns):
                with m.Case(k):
                    m.d.comb += self.stream.eq(stream_)
        m.d.comb += [self.first.eq(first), self.last.eq((left == 0) & (turn == len(beats) - 1))]
        with m.If(self.step):
            m.d.sync += [left.eq(left - 1), first.eq(self.last)]
            with m.If(left == 0), m.Switch(turn):
                for k in range(len(beats)):
                    after = (k + 1) % len(beats)
                    with m.Case(k):
                        m.d.sync += [turn.eq(after), left.eq(beats[after] - 1)]
        return m


def _numbers(count: int) -> range:
    """The shape of a number below ``count``: one bit at least, since synthesis takes no case of a switch over none."""
    return range(max(2, count))


class BeatsFromBytes(Component):
    """Bytes gathered to beats.

    Args:
        ports: the streams.
        turns: see ``Turns``.

    Ports:
        i: the bytes.
        {name}_payload, {name}_valid, {name}_ready: each stream.
        at_start: the next byte is the first of a frame.
        begins: the network takes the first beat of a frame.
    """

    def __init__(self, ports: Sequence[Port], turns: Sequence[tuple[int, int]]) -> None:
        self.ports, self.turns = tuple(ports), tuple(turns)
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                **{f"{port.name}_payload": Out(port.width * port.bits) for port in ports},
                **{f"{port.name}_valid": Out(1) for port in ports},
                **{f"{port.name}_ready": In(1) for port in ports},
                "at_start": Out(1),
                "begins": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.turns = turns = Turns(self.turns)
        most = max(port.beat_bytes for port in self.ports)
        word = Signal(8 * most, reset_less=True)  # what came last is at the top
        count, full, last_byte = Signal(range(most)), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            self.at_start.eq(turns.first & ~full & (count == 0)),
            self.begins.eq(turns.step & turns.first),
        ]
        with m.Switch(turns.stream):
            for k, port in enumerate(self.ports):
                ready = getattr(self, f"{port.name}_ready")
                with m.Case(k):
                    m.d.comb += getattr(self, f"{port.name}_valid").eq(full)
                    m.d.comb += [turns.step.eq(full & ready), last_byte.eq(count == port.beat_bytes - 1)]
        for port in self.ports:
            of_beat = word[8 * (most - port.beat_bytes) :]
            places = [of_beat[k * port.place_bits :][: port.bits] for k in range(port.width)]
            m.d.comb += getattr(self, f"{port.name}_payload").eq(Cat(*places))
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [word.eq(Cat(word, self.i.payload)[8:]), count.eq(count + 1)]
            with m.If(last_byte):
                m.d.sync += [full.eq(1), count.eq(0)]
        with m.If(turns.step):
            m.d.sync += full.eq(0)
        return m


class BytesFromBeats(Component):
    """Beats taken apart, and a trailer behind every frame.

    Args:
        ports: the streams.
        turns: see ``Turns``.
        trailer: its bytes.

    Ports:
        {name}_payload, {name}_valid, {name}_ready: each stream.
        o, last: the bytes, the last one of a frame's trailer marked.
        ends: the last beat of a frame is taken.
        index, trailer: the byte of the trailer that is asked for, and what it is.
    """

    def __init__(self, ports: Sequence[Port], turns: Sequence[tuple[int, int]], trailer: int) -> None:
        self.ports, self.turns, self.trailer_bytes = tuple(ports), tuple(turns), trailer
        super().__init__(
            {
                **{f"{port.name}_payload": In(port.width * port.bits) for port in ports},
                **{f"{port.name}_valid": In(1) for port in ports},
                **{f"{port.name}_ready": Out(1) for port in ports},
                "o": Out(stream.Signature(8)),
                "last": Out(1),
                "ends": Out(1),
                "index": Out(range(trailer)),
                "trailer": In(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.turns = turns = Turns(self.turns)
        most = max(port.beat_bytes for port in self.ports)
        word = Signal(8 * most, reset_less=True)
        left = Signal(range(most + 1))  # bytes of the beat
        behind = Signal()  # the trailer follows, or is on its way
        sent, trailing = Signal(), Signal()
        m.d.comb += [
            sent.eq(self.o.valid & self.o.ready),
            trailing.eq(behind & (left == 0)),
            self.o.valid.eq((left != 0) | behind),
            self.last.eq(trailing & (self.index == self.trailer_bytes - 1)),
            self.ends.eq(turns.step & turns.last),
        ]
        m.d.comb += self.o.payload.eq(word[:8])
        with m.If(trailing):
            m.d.comb += self.o.payload.eq(self.trailer)
        with m.If(sent & ~trailing):
            m.d.sync += [word.eq(word >> 8), left.eq(left - 1)]
        with m.If(sent & trailing):
            m.d.sync += self.index.eq(self.index + 1)
            with m.If(self.last):
                m.d.sync += [self.index.eq(0), behind.eq(0)]
        with m.Switch(turns.stream):
            for k, port in enumerate(self.ports):
                valid, ready = getattr(self, f"{port.name}_valid"), getattr(self, f"{port.name}_ready")
                with m.Case(k):
                    m.d.comb += [ready.eq((left == 0) & ~behind), turns.step.eq(valid & ready)]
                    with m.If(turns.step):
                        m.d.sync += [word.eq(_bytes_of(port, getattr(self, f"{port.name}_payload")))]
                        m.d.sync += left.eq(port.beat_bytes)
        with m.If(self.ends):
            m.d.sync += behind.eq(1)
        return m


def _bytes_of(port: Port, payload: Value) -> Value:
    """A beat as it travels."""
    places = [payload[k * port.bits :][: port.bits] for k in range(port.width)]
    above = port.place_bits - port.bits
    return Cat(*(Cat(place, (place[-1] if port.signed else Const(0, 1)).replicate(above)) for place in places))
