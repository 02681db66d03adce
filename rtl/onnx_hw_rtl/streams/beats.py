"""Conversion between the bytes of a host and the beats of a network's streams; see ``onnx_hw_link.link.LinkPort``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, stream
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import LinkPort, chunk_bits
from onnx_hw_rtl.parts.lfsr_counter import next_state, states, width_for

_BYTE = 8


class BeatArbiter(Component):
    """Arbiter that says to which stream the next beat belongs.

    A sequence of turns that repeats is stored once. Many turns are stored in a memory, which needs the two cycles
    between beats.

    Attributes:
        in_memory: whether they are.

    Args:
        turns: (stream, beats) of one frame, in order.

    Ports:
        step: a beat has passed; if ``in_memory``, two cycles or more apart.
        stream: number of the stream whose turn it is.
        first, last: the current beat is the first or the last one of a frame.
    """

    MAX_TURNS_IN_LOGIC = 16

    def __init__(self, turns: Sequence[tuple[int, int]]) -> None:
        count = len(turns)
        period = next(k for k in range(1, count + 1) if count % k == 0 and [*turns[:k]] * (count // k) == [*turns])
        self.turns, self.rounds = tuple(turns[:period]), count // period
        self.in_memory = period > self.MAX_TURNS_IN_LOGIC
        self.streams = 1 + max(stream for stream, _ in turns)
        longest = max(beats for _, beats in turns)
        # states of a counter through the longest turn; shorter turns start within it
        self._places = tuple(islice(states(width_for(longest)), longest))
        super().__init__({"step": In(1), "stream": Out(_numbers(self.streams)), "first": Out(1), "last": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        turns, (stream, beats) = self.turns, self.turns[0]
        turn = Signal(_numbers(len(turns)))
        whose = Signal(_numbers(self.streams), init=stream)
        place = Signal(width_for(len(self._places)), init=self._places[-beats])  # position in the turn
        rounds = Signal(range(self.rounds), init=self.rounds - 1)
        first = Signal(init=1)
        at_end, after = turn == len(turns) - 1, self._after(m, turn, len(place))
        at_last = place == self._places[-1]
        m.d.comb += [
            self.stream.eq(whose),
            self.first.eq(first),
            self.last.eq(at_last & at_end & (rounds == 0)),
        ]
        with m.If(self.step):
            m.d.sync += [place.eq(next_state(place)), first.eq(self.last)]
        # next to what it overrides: where that is a constant, flip-flops alone are enough
        with m.If(self.step & at_last):
            m.d.sync += [Cat(place, whose).eq(after), turn.eq(turn + 1)]
            with m.If(at_end):
                m.d.sync += [turn.eq(0), rounds.eq(Mux(rounds == 0, self.rounds - 1, rounds - 1))]
        return m

    def _after(self, m: Module, turn: Signal, width: int) -> Value:
        """Return the next turn: the place at which it begins, and the number of its stream above it."""
        words = [stream << width | self._places[-beats] for stream, beats in (*self.turns[1:], self.turns[0])]
        shape = width + (self.streams - 1 or 1).bit_length()
        if self.in_memory:
            m.submodules.memory = rom = memory.Memory(shape=shape, depth=len(words), init=words)
            port = rom.read_port()
            m.d.comb += port.addr.eq(turn)
            return port.data
        word = Signal(shape)
        with m.Switch(turn):
            for k, value in enumerate(words):
                with m.Case(k):
                    m.d.comb += word.eq(value)
        return word


def _numbers(count: int) -> range:
    """Return the shape of a number below ``count``: at least one bit, since synthesis takes no switch over none."""
    return range(max(2, count))


class BeatsFromBytes(Component):
    """Collector of bytes into beats. It holds one beat per stream, so that a core that needs several at once gets them.

    Beats follow each other bit by bit, in chunks of ``onnx_hw_link.link.chunk_bits``, one per cycle; where a chunk is a
    byte, the bytes come every other cycle. What the last byte of a frame has behind the last beat is dropped.

    Args:
        ports: the streams.
        turns: order of the beats, see ``BeatArbiter``.

    Ports:
        i: the bytes, two cycles or more apart.
        {name}_payload, {name}_valid, {name}_ready: each stream.
        at_start: the next byte is the first of a frame.
        begins: the network takes the first beat of a frame.
    """

    def __init__(self, ports: Sequence[LinkPort], turns: Sequence[tuple[int, int]]) -> None:
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
        m.submodules.turns = turns = BeatArbiter(self.turns)
        size = chunk_bits(self.ports)
        chunks = [port.beat_bits // size for port in self.ports]
        count = Signal(range(max(chunks)))  # chunks of the current beat so far
        full = Array(Signal(name=f"full_{port.name}") for port in self.ports)
        last_chunk = Array(count == number - 1 for number in chunks)
        waits = Signal()  # the first beat of a frame waits until the network takes it
        come, (stream_, _), chunk = Signal(), self.turns[0], Signal(size)
        free, ends, stepped = Signal(), Signal(), Signal()
        left = self._take_apart(m, chunk, come, free, ends)
        if turns.in_memory:
            m.d.sync += stepped.eq(turns.step)
        m.d.comb += [
            free.eq(~full[turns.stream] & ~stepped),
            turns.step.eq(come & last_chunk[turns.stream]),
            ends.eq(turns.step & turns.last),
            self.at_start.eq(turns.first & (count == 0) & (left == 0)),
            self.begins.eq(waits & full[stream_] & getattr(self, f"{self.ports[stream_].name}_ready")),
        ]
        with m.If(come):
            m.d.sync += count.eq(Mux(turns.step, 0, count + 1))
        with m.If(self.begins):
            m.d.sync += waits.eq(0)
        for k, port in enumerate(self.ports):
            word = Signal(port.beat_bits, name=f"word_{port.name}", reset_less=True)
            m.d.comb += getattr(self, f"{port.name}_valid").eq(full[k])
            m.d.comb += getattr(self, f"{port.name}_payload").eq(word)
            with m.If(full[k] & getattr(self, f"{port.name}_ready")):
                m.d.sync += full[k].eq(0)
            with m.If(come & (turns.stream == k)):
                m.d.sync += word.eq(Cat(word, chunk)[size:])
                with m.If(last_chunk[k]):
                    m.d.sync += full[k].eq(1)
        with m.If(turns.step & turns.first):
            m.d.sync += waits.eq(1)
        return m

    def _take_apart(self, m: Module, chunk: Signal, come: Signal, free: Signal, ends: Signal) -> Value:
        """Drive ``chunk`` with the next one, and ``come``; return the number of chunks that are left of a byte.

        A chunk has room where ``free``; it is the last one of a frame where ``ends``.
        """
        size = len(chunk)
        if size == _BYTE:
            m.d.comb += [chunk.eq(self.i.payload), self.i.ready.eq(free), come.eq(self.i.valid & free)]
            return Const(0, 1)
        rest, left = Signal(_BYTE - size, reset_less=True), Signal(range(_BYTE // size))
        bits = Mux(left == 0, self.i.payload, rest)
        m.d.comb += [
            chunk.eq(bits),
            self.i.ready.eq(free & (left == 0)),
            come.eq(free & (self.i.valid | (left != 0))),
        ]
        with m.If(come):
            m.d.sync += [rest.eq(bits >> size), left.eq(left - 1)]  # from 0 to the greatest one
        with m.If(ends):
            m.d.sync += left.eq(0)
        return left


class BytesFromBeats(Component):
    """Serializer of beats into bytes, with a trailer after every frame.

    Beats follow each other bit by bit, in chunks as in ``BeatsFromBytes``; zeros fill up the last byte before the
    trailer.

    Args:
        ports: the streams.
        turns: order of the beats, see ``BeatArbiter``.

    Ports:
        {name}_payload, {name}_valid, {name}_ready: each stream.
        o, last: the bytes; ``last`` marks the last byte of a frame's trailer.
        ends: the last beat of a frame is taken.
        trailer, trailer_last: the trailer's next byte, and whether it is the last one.
        passes: that byte of the trailer is taken.
    """

    def __init__(self, ports: Sequence[LinkPort], turns: Sequence[tuple[int, int]]) -> None:
        self.ports, self.turns = tuple(ports), tuple(turns)
        super().__init__(
            {
                **{f"{port.name}_payload": In(port.width * port.bits) for port in ports},
                **{f"{port.name}_valid": In(1) for port in ports},
                **{f"{port.name}_ready": Out(1) for port in ports},
                "o": Out(stream.Signature(8)),
                "last": Out(1),
                "ends": Out(1),
                "passes": Out(1),
                "trailer": In(8),
                "trailer_last": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.turns = turns = BeatArbiter(self.turns)
        size = chunk_bits(self.ports)
        word = Signal(max(port.beat_bits for port in self.ports), reset_less=True)
        left = Signal(range(len(word) // size + 1))  # chunks left of the current beat
        behind = Signal()  # the trailer is next, or is being sent
        moves, trailing = Signal(), Signal()
        m.d.comb += [
            self.last.eq(trailing & self.trailer_last),
            self.ends.eq(turns.step & turns.last),
            self.passes.eq(self.o.valid & self.o.ready & trailing),
        ]
        self._put_together(m, word[:size], left != 0, moves, behind, trailing)
        with m.If(trailing):
            m.d.comb += self.o.payload.eq(self.trailer)
        with m.If(moves):
            m.d.sync += [word.eq(word >> size), left.eq(left - 1)]
        with m.If(self.passes & self.trailer_last):
            m.d.sync += behind.eq(0)
        with m.Switch(turns.stream):
            for k, port in enumerate(self.ports):
                valid, ready = getattr(self, f"{port.name}_valid"), getattr(self, f"{port.name}_ready")
                with m.Case(k):
                    m.d.comb += [ready.eq((left == 0) & ~behind), turns.step.eq(valid & ready)]
                    with m.If(turns.step):
                        m.d.sync += word.eq(getattr(self, f"{port.name}_payload"))
                        m.d.sync += left.eq(port.beat_bits // size)
        with m.If(self.ends):
            m.d.sync += behind.eq(1)
        return m

    def _put_together(
        self, m: Module, chunk: Value, there: Value, moves: Signal, behind: Signal, trailing: Signal
    ) -> None:
        """Drive ``o``, but for the trailer, ``trailing`` while the trailer passes, and ``moves`` when a chunk does.

        Args:
            there: there is a chunk.
            behind: no beat of the frame comes after the present one.
        """
        size = len(chunk)
        if size == _BYTE:
            m.d.comb += [
                trailing.eq(behind & ~there),
                self.o.valid.eq(there | behind),
                self.o.payload.eq(chunk),
                moves.eq(there & self.o.ready),
            ]
            return
        byte, count = Signal(_BYTE, reset_less=True), Signal(range(_BYTE // size + 1))  # chunks of the byte so far
        whole, fills = Signal(), Signal()
        m.d.comb += [
            whole.eq(count == _BYTE // size),
            trailing.eq(behind & ~there & (count == 0)),
            self.o.valid.eq(whole | trailing),
            self.o.payload.eq(byte),
            moves.eq(there & (~whole | self.o.ready)),
            fills.eq(behind & ~there & (count != 0) & ~whole),
        ]
        with m.If(moves | fills):
            m.d.sync += [byte.eq(Cat(byte, chunk & there.replicate(size))[size:]), count.eq(count + 1)]
        with m.If(whole & self.o.ready):
            m.d.sync += count.eq(moves)


def beat_of_transfer(port: LinkPort, word: Value) -> Value:
    """Extract the payload from a transfer."""
    return Cat(*(word[k * port.place_bits :][: port.bits] for k in range(port.width)))


def transfer_of_beat(port: LinkPort, payload: Value) -> Value:
    """Return the transfer of a beat."""
    places = [payload[k * port.bits :][: port.bits] for k in range(port.width)]
    above = port.place_bits - port.bits
    return Cat(*(Cat(place, (place[-1] if port.signed else Const(0, 1)).replicate(above)) for place in places))
