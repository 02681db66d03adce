"""Outbox: the edge between two cores, a FIFO that belongs to its producer and is guarded by credits.

A firing engine *reserves* a place; its result arrives some pipeline stages later and always finds that place. So the
pipeline never stalls, and ``valid`` and ``payload`` of the outgoing stream are flip-flops. ``depth`` counts the tokens
that have been fired and not yet popped, including the one in the output register.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Shape, Signal, Value
from amaranth.lib import memory, stream
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.parts.fanout import BITS_PER_COPY, spread
from onnx_hw_rtl.target import primitives_of

DEEPEST_IN_LUTRAM = 33  # 32 words of distributed memory and the output register


def visible_after(depth: int, deepest_at_once: int = DEEPEST_IN_LUTRAM) -> int:
    """Return V of the firing law between neighbours: cycles from a token's arrival until its ``valid``."""
    return 1 if depth <= deepest_at_once else 3


class Outbox(Component):
    """Credits, storage and output register of one edge.

    Args:
        shape: shape of the payload.
        depth: greatest number of tokens that are fired and not yet popped.
        forward, back: number of registers on the way to a consumer that is not a neighbour, and on the way of the
            credits back: V is ``visible_after(depth) + forward``, and a place may be reserved again ``1 + back`` cycles
            after the pop. Tokens are stored at the far end.

    Attributes:
        foretold: whether ``write_next`` is driven, so that every part of a wide word gets a strobe of its own.
        deepest_at_once: greatest depth without block RAM; storage in block RAM takes two cycles longer.

    Ports:
        o: the outgoing stream.
        reserve: an operation that pushes fires in this cycle.
        write, data: a reserved token arrives.
        write_next: a token will arrive in the next cycle.
        credit_next: a place will be free in the next cycle; feeds the engine's ``go`` register.
    """

    def __init__(self, shape: object, depth: int, *, forward: int = 0, back: int = 0):
        if depth < 1:
            raise ValueError(f"an edge must hold at least one token, not {depth}")
        self.shape, self.depth, self.forward, self.back = shape, depth, forward, back
        self.foretold = False
        self.deepest_at_once = DEEPEST_IN_LUTRAM
        super().__init__(
            {
                "o": Out(stream.Signature(shape)),
                "reserve": In(1),
                "write": In(1),
                "write_next": In(1),
                "data": In(shape),
                "credit_next": Out(1),
            }
        )

    @property
    def visible_after(self) -> int:
        """V of the firing law, if producer and consumer are neighbours."""
        return visible_after(self.depth, self.deepest_at_once)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pop = Signal()
        m.d.comb += pop.eq(self.o.valid & self.o.ready)
        self.count_credits(m, delayed(m, pop, self.back, "credit", strobe=True))
        write, word = self.arrival(m)
        payload = Signal(len(Value.cast(self.data)), reset_less=True)  # a reset need not reach every wide register
        m.d.comb += Value.cast(self.o.payload).eq(payload)
        if self.depth == 1:
            self._store_in_register(m, payload, write, word)
        elif self.depth <= self.deepest_at_once:
            self._store_in_lutram(m, payload, write, word, whole=not primitives_of(platform).distributed_memory)
        else:
            self._store_in_block_ram(m, payload, pop, write, word)
        return m

    # ---- the seam: one method each, which tests override to break an outbox on purpose ------------------------------

    def arrival(self, m: Module) -> tuple[Value, Value]:
        """Return (strobe, word) of the token that is stored now."""
        write: Value = delayed(m, self.write, self.forward, "write", strobe=True)
        return write, delayed(m, Value.cast(self.data), self.forward, "data")

    def count_credits(self, m: Module, pop: Signal) -> None:
        """Count reservations and the credits that come back.

        ``some`` and ``one`` shadow the counter, so that no carry chain precedes ``credit_next``.
        """
        credits = Signal(range(self.depth + 1), init=self.depth)
        one = Signal(init=self.depth == 1)
        some = Signal(init=1)
        m.d.comb += self.credit_next.eq(pop | (some & ~(one & self.reserve)))
        m.d.sync += some.eq(self.credit_next)
        with m.If(self.reserve & ~pop):
            m.d.sync += [credits.eq(credits - 1), one.eq(credits == 2)]
        with m.Elif(pop & ~self.reserve):
            m.d.sync += [credits.eq(credits + 1), one.eq(~some)]

    # ---- storage ----------------------------------------------------------------------------------------------------

    def _store_in_register(self, m: Module, payload: Signal, write: Value, word: Value) -> None:
        out = self.o
        m.d.sync += out.valid.eq(write | (out.valid & ~out.ready))
        for bits, its_write in self._strobes(m, len(word), write):
            with m.If(its_write):
                m.d.sync += payload[bits].eq(word[bits])

    def _store_in_lutram(self, m: Module, payload: Signal, write: Value, word: Value, *, whole: bool) -> None:
        """Store tokens in distributed memory. A token bypasses it if the output register is free and no token is before
        it.

        The memory is written on ``write`` alone: a token that bypassed it leaves a word that both pointers skip.

        Args:
            whole: whether the memory is one piece, without parts that have pointers of their own.
        """
        out = self.o
        words = _power_of_two(self.depth - 1)
        stored = Signal(range(words + 1))  # words in memory; flags: not 0, exactly 1
        some, one = Signal(name="some_stored"), Signal(name="one_stored")
        load, take, put, some_next = Signal(), Signal(), Signal(), Signal(name="some_next")
        m.d.comb += [
            load.eq(~out.valid | out.ready),
            take.eq(load & some),
            put.eq(write & ~(load & ~some)),
            some_next.eq(Mux(put, some | ~take, Mux(take, ~one, some))),
        ]
        m.d.sync += some.eq(some_next)
        with m.If(put & ~take):
            m.d.sync += [stored.eq(stored + 1), one.eq(~some)]
        with m.Elif(take & ~put):
            m.d.sync += [stored.eq(stored - 1), one.eq(stored == 2)]
        valid_next = Mux(load, some | write, out.valid)
        m.d.sync += out.valid.eq(valid_next)
        flags = self._shared(m, len(word), (out.valid, valid_next), (some, some_next))
        strobes = self._strobes(m, len(word), write)
        loads = [~its_valid | out.ready for _, (its_valid, _) in flags]
        if whole:
            first = self._words(m, "", words, write, word, load & (some | write))
            firsts = [first[bits] for bits, _ in flags]
        else:
            firsts = [
                self._words(m, str(k or ""), words, its_write, word[bits], its_load & (its_some | its_write))
                for k, ((bits, (_, its_some)), its_load, (_, its_write)) in enumerate(
                    zip(flags, loads, strobes, strict=True)
                )
            ]
        for (bits, (_, its_some)), its_load, first in zip(flags, loads, firsts, strict=True):
            with m.If(its_load):
                m.d.sync += payload[bits].eq(Mux(its_some, first, word[bits]))

    def _words(self, m: Module, part: str, depth: int, write: Value, word: Value, passes: Value) -> Value:
        """Return the first word of a ring of distributed memory, with pointers that are used for nothing else."""
        ram = memory.Memory(shape=len(word), depth=depth, init=[])
        m.submodules[f"words{part}"] = ram
        write_port, read_port = ram.write_port(), ram.read_port(domain="comb")
        write_at, read_at = (Signal(range(depth), name=f"{name}{part}") for name in ("write_at", "read_at"))
        with m.If(write):
            m.d.sync += write_at.eq(write_at + 1)
        with m.If(passes):
            m.d.sync += read_at.eq(read_at + 1)
        m.d.comb += [
            write_port.addr.eq(write_at),
            write_port.data.eq(word),
            write_port.en.eq(write),
            read_port.addr.eq(read_at),
        ]
        first: Value = read_port.data
        return first

    def _strobes(self, m: Module, width: int, write: Value) -> list[tuple[slice, Value]]:
        """Return the strobe of the token stored now, for each part of a word; copies if it is known in advance."""
        if width <= BITS_PER_COPY:
            return [(slice(0, width), write)]
        if not self.foretold:
            return [(slice(at, min(at + BITS_PER_COPY, width)), write) for at in range(0, width, BITS_PER_COPY)]
        coming = delayed(m, self.write_next, self.forward, "coming", strobe=True)
        return spread(m, Mux(ResetSignal(allow_reset_less=True), 0, coming), width, "write")

    def _shared(self, m: Module, width: int, *flags: tuple[Signal, Value]) -> list[tuple[slice, list[Value]]]:
        """Copy flags that concern a whole word, each with its value in the next cycle, for the parts of the word."""
        if width <= BITS_PER_COPY:
            return [(slice(0, width), [flag for flag, _ in flags])]
        starts = [0, *accumulate(len(flag) for flag, _ in flags)]
        following = Cat(following for _, following in flags)
        following = Mux(ResetSignal(allow_reset_less=True), 0, following)  # a copy has no reset of its own
        return [
            (bits, [its_own[start:end] for start, end in pairwise(starts)])
            for bits, its_own in spread(m, following, width, "flags")
        ]

    def _store_in_block_ram(self, m: Module, payload: Signal, pop: Signal, write: Value, word: Value) -> None:
        """Store tokens in block RAM, followed by three registers (one is the output) that cover the read latency."""
        out = self.o
        words = _power_of_two(self.depth)
        m.submodules.memory = ram = memory.Memory(shape=len(word), depth=words, init=[])
        write_port, read_port = ram.write_port(), ram.read_port()
        write_at, read_at = Signal(range(words), name="write_at"), Signal(range(words), name="read_at")
        stored = Signal(range(self.depth + 1))
        room = Signal(range(4), init=3)
        read, arrived = Signal(), Signal(name="arrived")
        m.d.comb += [
            read.eq((stored != 0) & (room != 0)),
            write_port.addr.eq(write_at),
            write_port.data.eq(word),
            write_port.en.eq(write),
            read_port.addr.eq(read_at),
            read_port.en.eq(1),
        ]
        m.d.sync += [
            stored.eq(stored + write - read),
            room.eq(room - read + pop),
            write_at.eq(write_at + write),
            read_at.eq(read_at + read),
            arrived.eq(read),
        ]
        spare = [Signal(Shape(len(word)), name=f"spare{k}", reset_less=True) for k in range(2)]
        spares, spares_next = Signal(range(3), name="spares"), Signal(range(3), name="spares_next")
        valid_next = Mux(~out.valid | out.ready, (spares != 0) | arrived, out.valid)
        with m.If(~out.valid | out.ready):
            m.d.comb += spares_next.eq(Mux(spares != 0, spares - 1 + arrived, 0))
        with m.Else():
            m.d.comb += spares_next.eq(spares + arrived)
        m.d.sync += [out.valid.eq(valid_next), spares.eq(spares_next)]
        flags = (out.valid, valid_next), (spares, spares_next), (arrived, read)
        for bits, (its_valid, its_spares, its_arrived) in self._shared(m, len(word), *flags):
            came = read_port.data[bits]
            with m.If(~its_valid | out.ready):
                m.d.sync += payload[bits].eq(Mux(its_spares != 0, spare[0][bits], came))
                with m.If(its_spares != 0):
                    m.d.sync += spare[0][bits].eq(Mux(its_spares == 1, came, spare[1][bits]))
                    m.d.sync += spare[1][bits].eq(came)
            with m.Elif(its_arrived):
                with m.If(its_spares == 0):
                    m.d.sync += spare[0][bits].eq(came)
                with m.Else():
                    m.d.sync += spare[1][bits].eq(came)


def _power_of_two(least: int) -> int:
    return max(2, 1 << (least - 1).bit_length())
