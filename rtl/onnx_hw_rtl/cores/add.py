"""``o = j·a + k·b`` for constants j and k, exactly: the sum has the width that it needs. One beat per cycle.

A factor is a few signed powers of two, so its product is a few shifted operands. All of these go through one tree of
adders with a register behind each adder: one carry chain per stage. A plain sum is one adder.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Shape, Signal, Value

from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine
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
        depth: FIFO depth of the output.

    Attributes:
        LATENCY: cycles: number of levels of the tree.
    """

    def __init__(
        self,
        *,
        a: StreamShape,
        b: StreamShape,
        o: StreamShape,
        digits: tuple[Digits, Digits] = (((1, 0),), ((1, 0),)),
        depth: int,
    ) -> None:
        self.lanes, self.result, self.digits = o.width, o.element, digits
        self.LATENCY = (len(digits[0]) + len(digits[1]) - 1).bit_length()
        super().__init__({"a": a.payload, "b": b.payload}, {"o": (o.payload, depth)}, ("add",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        engine = Engine(
            m,
            "add",
            {"beat": 1},
            pops=[(self.a, lambda turn: 1), (self.b, lambda turn: 1)],
            pushes=[(outbox, lambda turn: 1)],
        )
        for lane in range(self.lanes):
            operands = (self.a.payload[lane], self.b.payload[lane])
            terms = [
                (sign, operand << shift)
                for operand, digits in zip(operands, self.digits, strict=True)
                for sign, shift in digits
            ]
            m.d.comb += outbox.data[lane].eq(self._sum(m, f"sum{lane}", terms))
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m

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


def _pair(one: Term, other: Term) -> Term:
    (sign, a), (other_sign, b) = one, other
    if sign == other_sign:
        return sign, a + b
    return 1, a - b if sign > 0 else b - a
