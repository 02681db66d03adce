"""``o = (a + p)·(b + q)`` for constant p and q, exactly: the product has the width that it needs. One beat per cycle.

A lane is a hardware multiplier, several of them for wide factors, or look-up tables. The offsets are added in a stage
of their own before the product; without offsets, that stage is left out.
"""

from __future__ import annotations

from amaranth.hdl import Module, Shape, Signal, Value

from onnx_hw_rtl.arithmetic.multiplier import WideMultiplier
from onnx_hw_rtl.arithmetic.soft_multiplier import SoftMultiplier
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine
from onnx_hw_rtl.streams.stream import beat


class Multiply(Core):
    """Product of two streams, element by element.

    Args:
        a, b: (bits, signed) of the operands.
        factors: (bits, signed) that hold a + p and b + q; at most 36 bits.
        result: (bits, signed) of the product, wide enough for every pair.
        offsets: p and q.
        loads_offsets: whether other offsets, of a bit more than the operands, can be loaded.
        lanes: elements per beat.
        depth: FIFO depth of the output.
        in_logic: whether products are made of look-up tables.

    Attributes:
        LATENCY: cycles of the sums and of the product.
    """

    def __init__(
        self,
        a: tuple[int, bool],
        b: tuple[int, bool],
        factors: tuple[tuple[int, bool], tuple[int, bool]],
        result: tuple[int, bool],
        *,
        offsets: tuple[int, int] = (0, 0),
        loads_offsets: bool = False,
        lanes: int,
        depth: int,
        in_logic: bool = False,
    ) -> None:
        self.factors, self.offsets = [Shape(*factor) for factor in factors], offsets
        self.loads_offsets, self.offset_bits = loads_offsets, (a[0] + 1, b[0] + 1)
        (a_bits, a_signed), (b_bits, b_signed) = factors
        latency = WideMultiplier.latency(a_bits, b_bits)

        def lane() -> WideMultiplier | SoftMultiplier:
            if in_logic:
                return SoftMultiplier(a_bits, b_bits, a_signed=a_signed, b_signed=b_signed, latency=latency)
            return WideMultiplier(a_bits, b_bits, a_signed=a_signed, b_signed=b_signed)

        self.lanes, self.sums = [lane() for _ in range(lanes)], int(loads_offsets or any(offsets))
        self.LATENCY = self.sums + latency
        super().__init__(
            {"a": beat(lanes, *a), "b": beat(lanes, *b)}, {"o": (beat(lanes, *result), depth)}, ("multiply",)
        )

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        engine = Engine(
            m,
            "multiply",
            {"beat": 1},
            pops=[(self.a, lambda turn: 1), (self.b, lambda turn: 1)],
            pushes=[(outbox, lambda turn: 1)],
        )
        offsets: list[Value | int] = list(self.offsets)
        if self.loads_offsets:
            offsets = [
                self.constants.number(m, f"offset_{name}", Shape(bits, True), offset)
                for name, bits, offset in zip("ab", self.offset_bits, self.offsets, strict=True)
            ]
        for lane, multiplier in enumerate(self.lanes):
            m.submodules[f"lane{lane}"] = multiplier
            a, b = (self._factor(m, k, lane, offsets[k]) for k in range(2))
            m.d.comb += [multiplier.a.eq(a), multiplier.b.eq(b), outbox.data[lane].eq(multiplier.p)]
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m

    def _factor(self, m: Module, k: int, lane: int, offset: Value | int) -> Value:
        """Add an operand and its offset. The result comes one cycle later if any operand has an offset."""
        operand: Value = (self.a, self.b)[k].payload[lane]
        if not self.sums:
            return operand
        total = Signal(self.factors[k], name=f"{'ab'[k]}{lane}", reset_less=True)
        m.d.sync += total.eq(operand + offset)
        return total
