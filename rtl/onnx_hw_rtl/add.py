"""``o = a + b``, exactly: the sum is as wide as it must be. One beat per cycle; latency 1."""

from __future__ import annotations

from amaranth.hdl import Module, Shape, Signal

from onnx_hw_rtl.core import Core
from onnx_hw_rtl.engine import Engine, delayed
from onnx_hw_rtl.stream import beat

__all__ = ["Add"]


class Add(Core):
    """Element by element sum of two streams.

    Args:
        a, b: (bits, signed) of the operands.
        result: (bits, signed) of the sum, wide enough for every pair.
        lanes: elements per beat.
        depth: FIFO depth of the output.
    """

    LATENCY = 1

    def __init__(
        self, a: tuple[int, bool], b: tuple[int, bool], result: tuple[int, bool], *, lanes: int, depth: int
    ) -> None:
        self.lanes, self.result = lanes, Shape(*result)
        super().__init__(
            {"a": beat(lanes, *a), "b": beat(lanes, *b)}, {"o": (beat(lanes, *result), depth)}, ("add",)
        )

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
            total = Signal(self.result, name=f"sum{lane}", reset_less=True)
            m.d.sync += total.eq(self.a.payload[lane] + self.b.payload[lane])
            m.d.comb += outbox.data[lane].eq(total)
        m.d.comb += outbox.write.eq(delayed(m, outbox.reserve, self.LATENCY, "write", strobe=True))
        self.report(m, engine)
        return m
