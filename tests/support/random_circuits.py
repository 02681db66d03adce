"""Circuits drawn by seed, for simulators to agree on: every kind of arithmetic, registers that exchange, memories."""

from __future__ import annotations

import random

import numpy as np
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from onnx_hw.assemble.elaborate import without_signed_wires
from onnx_hw_sim import stalls
from onnx_hw_sim.circuit import Circuit, Stimulus, Stream
from support.simulated_circuits import as_rtlil, stream_ports

LANE = 32
NARROW, WIDE = 40, 150
"""Bits of most expressions and of the widest."""


class Drawn(wiring.Component):
    """One stream in, one out, a token each cycle; subclasses say what of."""

    def __init__(self, seed: int, lanes: int = 6) -> None:
        self.seed = seed
        self.a = Stream("a", lanes, LANE, signed=False)
        self.parts: list[Value] = []
        self.m = Module()
        self.draw(random.Random(seed))
        width = sum(map(len, self.parts))
        self.y = Stream("y", -(-width // LANE), LANE, signed=False)
        super().__init__(stream_ports(self.a, In) | stream_ports(self.y, Out))

    def draw(self, draw: random.Random) -> None:
        """Add to ``m`` and ``parts`` what there is behind ``self.word``, a signal that is the payload."""
        raise NotImplementedError

    def elaborate(self, _platform: object) -> Module:
        m = self.m
        m.d.comb += [self.word.eq(self.a_payload), self.moves.eq(self.a_valid & self.y_ready)]
        m.d.comb += [self.y_valid.eq(self.a_valid), self.a_ready.eq(self.y_ready), self.y_payload.eq(Cat(*self.parts))]
        return m

    def circuit(self) -> Circuit:
        return Circuit(without_signed_wires(as_rtlil(self)), (self.a,), (self.y,))


class Expressions(Drawn):
    """Expressions of expressions, up to 150 bits wide."""

    def draw(self, draw: random.Random) -> None:
        self.word, self.moves = Signal(self.a.width), Signal()
        values: list[Value] = []
        for width in (20, 32, 50, 64, 90):  # shifts by more than there is
            part = self._leaf(draw, width)
            values += [self._kept(draw, part.as_signed() >> self.word[:7]), self._kept(draw, part >> self.word[1:8])]
        for _ in range(80):
            values.append(self._kept(draw, self._leaf(draw) if draw.random() < 0.25 else self._made(draw, values)))
        last = Signal(9)  # a circuit has a clock
        self.m.d.sync += last.eq(Cat(*values[-1:]))
        self.parts = [*values, last]

    def _kept(self, draw: random.Random, value: Value) -> Value:
        """As a signal, so that it does not grow for ever and yosys sees a word."""
        width = max(1, min(len(value), WIDE if draw.random() < 0.3 else NARROW))
        kept = Signal(signed(width) if value.shape().signed else unsigned(width))
        self.m.d.comb += kept.eq(value)
        return kept

    def _leaf(self, draw: random.Random, width: int = 0) -> Value:
        if not width and draw.random() < 0.1:
            return Const(draw.getrandbits(9) - 200)
        width = width or draw.choice([1, 1, 2, 3, 5, 8, 9, 16, 17, 31, 32, 33, 40, 63, 64, 65, 90])
        first = draw.randrange(len(self.word) - width)
        part = self.word[first : first + width]
        return part.as_signed() if draw.random() < 0.5 else part

    def _made(self, draw: random.Random, values: list[Value]) -> Value:
        def one() -> Value:
            return draw.choice(values) if values and draw.random() < 0.7 else self._leaf(draw)

        def few(most: int = 6) -> Value:
            """A small unsigned number."""
            value = one()
            return value[: draw.randint(1, min(most, len(value)))]

        a, b = one(), one()
        made = draw.choice(
            [
                lambda: a + b, lambda: a - b, lambda: -a, lambda: a * b[:20], lambda: abs(a),
                lambda: a & b, lambda: a | b, lambda: a ^ b, lambda: ~a,
                lambda: a == b, lambda: a != b, lambda: a < b, lambda: a <= b, lambda: a > b, lambda: a >= b,
                lambda: a[:60] << few(), lambda: a >> few(),
                lambda: a[:70] * b[:50], lambda: a.any(), lambda: a.all(), lambda: a.xor(),
                lambda: a.bool(), lambda: Mux(a.bool(), b, one()), lambda: Mux(a[0], b, one()), lambda: Cat(a, b),
                lambda: a.bit_select(few(), min(4, len(a))), lambda: a.word_select(few(), min(3, len(a))),
                lambda: Array([a, b, one(), one()])[few()[:2]], lambda: a.as_signed(), lambda: a.as_unsigned(),
                lambda: a.replicate(2)[: len(a) + 3],
            ]
        )  # fmt: skip
        return made()


class Exchanges(Drawn):
    """Registers that take each other's values, with enables and resets or none, and memories between them."""

    def draw(self, draw: random.Random) -> None:
        self.word, self.moves = Signal(self.a.width), Signal()
        m = self.m
        registers = [
            Signal(width := draw.choice([1, 2, 7, 8, 31, 32, 33, 64, 70]), init=draw.getrandbits(width),
                   reset_less=draw.random() < 0.3, name=f"r{k}")
            for k in range(24)
        ]  # fmt: skip

        def anything() -> Value:
            return draw.choice(registers) if draw.random() < 0.8 else self.word[draw.randrange(100) :]

        def bit() -> Value:
            return anything()[0]

        for register in registers:
            taken = anything() if draw.random() < 0.8 else anything() + 1
            if draw.random() < 0.5:
                with m.If(bit() & self.moves):
                    m.d.sync += register.eq(taken)
            else:
                m.d.sync += register.eq(taken)
        for k in range(4):
            width, depth = draw.choice([1, 8, 32, 36, 70]), draw.choice([2, 8, 16])
            init = [draw.getrandbits(width) for _ in range(draw.choice([0, depth]))]
            memory = m.submodules[f"memory{k}"] = Memory(shape=width, depth=depth, init=init)
            reads = [memory.read_port(), memory.read_port(domain="comb")]
            if k:
                parted = draw.choice([None, None, 1 if width < 32 else 2])
                write = memory.write_port(granularity=parted and width // parted)
                m.d.comb += [write.addr.eq(anything()), write.data.eq(anything())]
                m.d.comb += write.en.eq(Cat(bit() for _ in range(len(write.en))) if draw.random() < 0.8 else -1)
            m.d.comb += [reads[0].en.eq(bit()), *(port.addr.eq(anything()) for port in reads)]
            self.parts += [port.data for port in reads]
            target = draw.choice(registers)
            with m.If(bit()):
                m.d.sync += target.eq(reads[0].data)
        ring = [Signal(40, init=draw.getrandbits(40), name=f"ring{k}") for k in range(3)]
        m.d.sync += [one.eq(after) for one, after in zip(ring, ring[1:] + ring[:1], strict=True)]
        self.parts += registers + ring


def words(circuit: Circuit, seed: int) -> Stimulus:
    """Random words, many of them all zeros, all ones or nearly so, and a sink with moods."""
    generator = np.random.default_rng(seed)
    (a,) = circuit.sources
    tokens = generator.integers(0, 1 << a.bits, (TOKENS, a.lanes))
    flat = generator.random((TOKENS, 1)) < 0.2
    ends = generator.choice([0, (1 << a.bits) - 1], (TOKENS, a.lanes)) ^ (generator.random((TOKENS, a.lanes)) < 0.1)
    return Stimulus(
        {"a": np.where(flat, ends, tokens)},
        {"a": stalls.random_offers(TOKENS, 0.7, seed)},
        {"y": stalls.random_ready(2 * TOKENS, 0.8, seed)},
        {"y": TOKENS},
        cycles=20 * TOKENS,
        tail=seed % 3,
        false_start=7 * (seed % 2),
    )


TOKENS = 150
