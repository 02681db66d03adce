"""``o = j·a + k·b`` for constant j and k, exactly: the sum is as wide as it must be. One beat per cycle.

A factor is a few signed powers of two, so its product is a few shifted operands. All of them go through one tree of
adders with a register behind each: one carry chain per stage. A plain sum is one adder.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Shape, Signal, Value

from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine
from onnx_hw_rtl.streams.stream import StreamShape

__all__ = ["Add"]

Digits = Sequence[tuple[int, int]]
"""``Σ sign · 2^shift`` over pairs (sign, shift)."""

Term = tuple[int, Value]
"""A value and the sign it is added with."""


class Add(Core):
    """Element by element weighted sum of two streams.

    Args:
        a, b: the operands.
        o: the sum, wide enough for every pair.
        digits: of the factors; a digit of the first one is positive.
        depth: FIFO depth of the output.

    Attributes:
        LATENCY: cycles: levels of the tree.
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
        """The sum of all terms, by pairs. A sum that is only ever subtracted keeps its sign for the next level."""
        level = 0
        while len(terms) > 1:
            level += 1
            paired = [_pair(*terms[k : k + 2]) for k in range(0, len(terms) - 1, 2)]
            paired += terms[len(terms) & ~1 :]
            terms = []
            for k, (sign, value) in enumerate(paired):
                register = Signal(self._narrowed(value), name=f"{name}_{level}_{k}", reset_less=True)
                m.d.sync += register.eq(value)
                terms.append((sign, register))
        ((_, total),) = terms  # with a positive term in it, the sign is positive
        return total

    def _narrowed(self, value: Value) -> Shape:
        """Sums may wrap at the width of the result, which none leaves in the end."""
        shape = value.shape()
        return shape if shape.width <= self.result.width else self.result


def _pair(one: Term, other: Term) -> Term:
    (sign, a), (other_sign, b) = one, other
    if sign == other_sign:
        return sign, a + b
    return 1, a - b if sign > 0 else b - a
