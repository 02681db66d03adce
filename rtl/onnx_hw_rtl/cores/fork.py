"""``a = i`` and ``b = i``: one tensor for several consumers. One beat per cycle; latency 0."""

from __future__ import annotations

from amaranth.hdl import Module

from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine
from onnx_hw_rtl.streams.stream import StreamShape, bits_of


class Fork(Core):
    """Fork that copies every beat to each output. It fires when all outputs have room.

    Args:
        i: the stream; every output is a copy of it.
        depths: FIFO depth of each output, by port name.
    """

    LATENCY = 0

    def __init__(self, i: StreamShape, depths: dict[str, int]) -> None:
        super().__init__({"i": i.payload}, {name: (i.payload, depth) for name, depth in depths.items()}, ("fork",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outboxes = list(self.outboxes.values())
        engine = Engine(
            m,
            "fork",
            {"beat": 1},
            pops=[(self.i, lambda turn: 1)],
            pushes=[(outbox, lambda turn: 1) for outbox in outboxes],
        )
        for outbox in outboxes:
            m.d.comb += [bits_of(outbox.data).eq(bits_of(self.i.payload)), outbox.write.eq(outbox.reserve)]
        self.report(m, engine)
        return m
