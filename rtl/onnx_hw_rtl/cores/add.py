"""``o = j·a + k·b`` for constants j and k, exactly: the sum has the width that it needs. One beat per cycle.

A factor is a few signed powers of two, so its product is a few shifted operands. All of these go through one tree of
adders with a register behind each adder: one carry chain per stage. A plain sum is one adder.

A beat may take several cycles instead. Then a step adds one digit of both factors in base 4, the least first:

    sum = (sum >> 2) + digit_j·a + digit_k·b

Two bits code a digit: 0, 1, 2 stand for themselves, and 3 is −1. The row of −1 is the complement of the operand, which
is one less than its negative; the missing ones are added as the carries of the two adders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed, pick
from onnx_hw_rtl.streams.stream import StreamShape

Digits = Sequence[tuple[int, int]]
"""Factor ``Σ sign · 2^shift`` as pairs (sign, shift)."""

Term = tuple[int, Value]
"""Sign with which a value is added, and the value."""


class Add(Core):
    """Weighted sum of two streams, element by element.

    Args:
        a, b: the operands.
        o: the sum, wide enough for every pair.
        digits: digits of the two factors; one digit of the first factor is positive.
        codes: digits of the two factors in base 4, equally many, one for each step; empty to add a beat in one cycle.
        depth: FIFO depth of the output.

    Attributes:
        LATENCY: cycles: number of levels of the tree; or from the last step to the sum.
    """

    def __init__(
        self,
        *,
        a: StreamShape,
        b: StreamShape,
        o: StreamShape,
        digits: tuple[Digits, Digits] = (((1, 0),), ((1, 0),)),
        codes: tuple[Sequence[int], Sequence[int]] = ((), ()),
        depth: int,
    ) -> None:
        self.lanes, self.result, self.digits, self.codes = o.width, o.element, digits, codes
        self.steps = max(1, len(codes[0]))
        self.LATENCY = 4 if self.steps > 1 else (len(digits[0]) + len(digits[1]) - 1).bit_length()
        super().__init__({"a": a.payload, "b": b.payload}, {"o": (o.payload, depth)}, ("add",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        engine = Engine(
            m,
            "add",
            {"beat": 1, "step": self.steps},
            pops=[(stream, lambda turn: turn["step"] == 0) for stream in (self.a, self.b)],
            pushes=[(outbox, lambda turn: turn["step"] == self.steps - 1)],
        )
        sums = self._in_steps(m, engine) if self.steps > 1 else self._at_once(m)
        for lane, total in enumerate(sums):
            m.d.comb += outbox.data[lane].eq(total)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m

    def _at_once(self, m: Module) -> Iterator[Value]:
        """Yield the sum of each lane, by a tree of adders."""
        for lane in range(self.lanes):
            operands = (self.a.payload[lane], self.b.payload[lane])
            terms = [
                (sign, operand << shift)
                for operand, digits in zip(operands, self.digits, strict=True)
                for sign, shift in digits
            ]
            yield self._sum(m, f"sum{lane}", terms)

    def _in_steps(self, m: Module, engine: Engine) -> Iterator[Value]:
        """Yield the sum of each lane, by one adder for the digits of a step and one for the sum so far.

        The operands are held from the first step on: a register takes what the streams show as long as a first step is
        the next operation.
        """
        first = engine.decode(lambda turn: turn["step"] == 0, 1, "first")
        j, k = (self._code(engine, factor) for factor in (0, 1))
        for lane, turn in enumerate(copies(m, Cat(engine.fire, first, j, k), self.lanes, "turn")):
            rows, missing = [], []
            for name, stream, code in (("a", self.a, turn[2:4]), ("b", self.b, turn[4:6])):
                operand = Signal.like(stream.payload[lane], name=f"{name}{lane}", reset_less=True)
                with m.If(first):
                    m.d.sync += operand.eq(stream.payload[lane])
                x = operand if operand.shape().signed else Cat(operand, Const(0, 1)).as_signed()
                row = Signal(Shape(len(x) + 1, True), name=f"row_{name}{lane}", reset_less=True)
                lacks = Signal(name=f"lacks_{name}{lane}", reset_less=True)
                m.d.sync += [
                    row.eq(Mux(code[1], Mux(code[0], ~x, x << 1), Mux(code[0], x, 0))),
                    lacks.eq(code.all()),
                ]
                rows.append(row)
                missing.append(lacks)
            both = Signal(Shape(max(map(len, rows)) + 1, True), name=f"both{lane}", reset_less=True)
            m.d.sync += both.eq(_plus(rows[0], rows[1], missing[0]))
            carry = delayed(m, missing[1], 1, f"carry{lane}")
            there, begins = (
                delayed(m, control, 2, f"{name}{lane}") for control, name in ((turn[0], "there"), (turn[1], "begins"))
            )
            total = Signal(Shape(len(both) + 1, True), name=f"sum{lane}", reset_less=True)
            left = Signal(2 * (self.steps - 1), name=f"left{lane}", reset_less=True)
            with m.If(there):
                m.d.sync += [
                    total.eq(_plus(Mux(begins, 0, total >> 2), both, carry)),
                    left.eq(Cat(left, total[:2])[2:]),
                ]
            yield Cat(left, total).as_signed()

    def _code(self, engine: Engine, factor: int) -> Signal:
        """Return the digit of a factor for the current step."""
        codes = self.codes[factor]
        return engine.decode(lambda turn: pick(turn["step"], codes), range(4), f"code{factor}")

    def _sum(self, m: Module, name: str, terms: list[Term]) -> Value:
        """Add all terms in pairs. A sum that is only ever subtracted leaves its sign to the next level."""
        level = 0
        while len(terms) > 1:
            level += 1
            paired = [_pair(*terms[k : k + 2]) for k in range(0, len(terms) - 1, 2)]
            paired += terms[len(terms) & ~1 :]
            terms = []
            for k, (sign, value) in enumerate(paired):
                register = Signal(self._sum_shape(value), name=f"{name}_{level}_{k}", reset_less=True)
                m.d.sync += register.eq(value)
                terms.append((sign, register))
        ((_, total),) = terms  # one term is positive, so the sign is positive
        return total

    def _sum_shape(self, value: Value) -> Shape:
        """Return the shape of a partial sum. It may wrap around at the width of the result."""
        shape = value.shape()
        return shape if shape.width <= self.result.width else self.result


def _plus(a: Value, b: Value, carry: Value) -> Value:
    """Return a + b + carry, signed, with a single carry chain."""
    return (Cat(Const(1, 1), a).as_signed() + Cat(carry, b).as_signed())[1:].as_signed()


def _pair(one: Term, other: Term) -> Term:
    (sign, a), (other_sign, b) = one, other
    if sign == other_sign:
        return sign, a + b
    return 1, a - b if sign > 0 else b - a
