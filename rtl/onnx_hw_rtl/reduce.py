"""``o[channel] = max`` or ``sum`` over all pixels: a global pool that needs no line buffer.

One beat per cycle; a running result per chunk of channels is kept in a small memory; latency 2.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import memory

from onnx_hw_rtl.copies import copies
from onnx_hw_rtl.core import Core
from onnx_hw_rtl.engine import Engine, delayed
from onnx_hw_rtl.pool import fold_into
from onnx_hw_rtl.stream import StreamShape, groups_of

__all__ = ["Reduce"]


class Reduce(Core):
    """Maximum or sum over the pixels of a frame.

    Args:
        kind: ``max`` or ``sum``.
        pixels, channels: of a frame.
        i, o: the streams, of equally many lanes.
        depth: FIFO depth of the output.
    """

    LATENCY = 2

    def __init__(self, kind: str, *, pixels: int, channels: int, i: StreamShape, o: StreamShape, depth: int) -> None:
        self.kind, self.pixels, self.lanes = kind, pixels, i.lanes
        self.chunks, self.result = groups_of(channels, i.lanes), o.element
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("reduce",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        engine = Engine(
            m,
            "reduce",
            {"pixel": self.pixels, "chunk": self.chunks},
            pops=[(self.i, lambda turn: 1)],
            pushes=[(outbox, lambda turn: turn["pixel"] == self.pixels - 1)],
        )
        first = engine.decode(lambda turn: turn["pixel"] == 0, 1, "first")
        chunk = engine.decode(lambda turn: turn["chunk"], range(max(2, self.chunks)), "chunk")
        there = Mux(ResetSignal(allow_reset_less=True), 0, engine.fire)
        element = delayed(m, self.i.payload, 1, "element")

        width = self.result.width
        bits = len(element) // self.lanes
        for lane, control in enumerate(copies(m, Cat(first, there, chunk), self.lanes, "control")):
            m.submodules[f"totals{lane}"] = totals = memory.Memory(shape=width, depth=max(2, self.chunks), init=[])
            write_port, read_port = totals.write_port(), totals.read_port(domain="comb")
            value = Signal(self.i.payload[lane].shape(), name=f"value{lane}")
            total = Signal(self.result, name=f"total{lane}")
            following = Signal(self.result, name=f"following{lane}")
            m.d.comb += [
                value.eq(element[lane * bits : (lane + 1) * bits]),
                total.eq(read_port.data),
                following.eq(fold_into(self.kind, control[0], value, total)),
                write_port.data.eq(following),
                write_port.en.eq(control[1]),
                write_port.addr.eq(control[2:]),
                read_port.addr.eq(control[2:]),
            ]
            m.d.comb += outbox.data[lane].eq(delayed(m, following, 1, f"result{lane}"))
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m
