"""``o[channel] = max``, ``min`` or ``sum`` over all pixels: a global pool that needs no line buffer.

One beat per cycle; a running result per chunk of channels is kept in a small memory, or in a register where each chunk
comes for all pixels before the next one; latency 2.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value

from onnx_hw_rtl.cores.pool import fold_into
from onnx_hw_rtl.parts.distributed_memory import DistributedMemory
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.stream import StreamShape, groups_of
from onnx_hw_rtl.target import primitives_of

CHUNKS_IN_FLIGHT = 3
"""Number of chunks from which a total is stored before it is read again, even if it is read a cycle early and stored a
cycle late.
"""


class Reduce(Core):
    """Maximum, minimum or sum over the pixels of a frame.

    Args:
        kind: ``max``, ``min`` or ``sum``.
        pixels, channels: size of a frame.
        by_channels: whether each chunk comes for all pixels before the next one, not each pixel with all its chunks.
        i, o: the streams, with the same number of lanes.
        depth: FIFO depth of the output.
    """

    LATENCY = 2

    def __init__(
        self,
        kind: str,
        *,
        pixels: int,
        channels: int,
        by_channels: bool = False,
        i: StreamShape,
        o: StreamShape,
        depth: int,
    ) -> None:
        self.kind, self.pixels, self.lanes, self.by_channels = kind, pixels, i.lanes, by_channels
        self.chunks, self.result = groups_of(channels, i.lanes), o.element
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("reduce",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        loops = {"pixel": self.pixels, "chunk": self.chunks}
        engine = Engine(
            m,
            "reduce",
            dict(reversed(loops.items())) if self.by_channels else loops,
            pops=[(self.i, lambda turn: 1)],
            pushes=[(outbox, lambda turn: turn["pixel"] == self.pixels - 1)],
        )
        first = engine.decode(lambda turn: turn["pixel"] == 0, 1, "first")
        chunks = self._chunks(engine)
        fires = Mux(ResetSignal(allow_reset_less=True), 0, engine.fire)
        element = delayed(m, self.i.payload, 1, "element")
        bits = len(element) // self.lanes
        controls = copies(m, Cat(first, fires), self.lanes, "control")
        for lane, (chunk, control) in enumerate(zip(chunks, controls, strict=True)):
            value = Signal(self.i.payload[lane].shape(), name=f"value{lane}")
            total = Signal(self.result, name=f"total{lane}")
            following = Signal(self.result, name=f"following{lane}")
            result = delayed(m, following, 1, f"result{lane}")
            if self.by_channels:
                stored = self._hold(m, lane, control[1], following)
            else:
                stored = self._store(m, lane, chunk, control[1], following, result, platform)
            m.d.comb += [
                value.eq(element[lane * bits : (lane + 1) * bits]),
                total.eq(stored),
                following.eq(fold_into(self.kind, control[0], value, total)),
                outbox.data[lane].eq(result),
            ]
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m

    def _chunks(self, engine: Engine) -> list[Value]:
        """Return the chunk of the current operation, for each lane; a constant where one total is enough."""
        if self.by_channels:
            return [Const(0, 1)] * self.lanes
        return engine.decode_copies(self.lanes, lambda turn: turn["chunk"], range(max(2, self.chunks)), "chunk")

    def _hold(self, m: Module, lane: int, strobe: Value, following: Value) -> Value:
        """Return a lane's total so far, in stage 1, where the next operation adds to the same one. Arguments as for
        ``_store``.
        """
        total = Signal(self.result, reset_less=True, name=f"held{lane}")
        with m.If(strobe):
            m.d.sync += total.eq(following)
        return total

    def _store(
        self, m: Module, lane: int, chunk: Value, strobe: Value, following: Value, result: Value, platform: object
    ) -> Value:
        """Return a lane's total so far, in stage 1. With enough chunks, there is a register on either side of the
        memory.

        Args:
            chunk: chunk of the current operation, in stage 0.
            strobe: there is an operation, in stage 1.
            following, result: the next total, at the end of stage 1 and in stage 2.
            platform: the target; without distributed memory that register is the memory's own.
        """
        m.submodules[f"totals{lane}"] = totals = DistributedMemory(
            shape=len(result), depth=max(2, self.chunks), init=[]
        )
        early = self.chunks >= CHUNKS_IN_FLIGHT
        own = early and not primitives_of(platform).distributed_memory
        write_port, read_port = totals.write_port(), totals.read_port(domain="sync" if own else "comb")
        at_write = delayed(m, chunk, 1 + early, f"write_at{lane}")
        m.d.comb += [
            write_port.en.eq(delayed(m, strobe, early, f"write{lane}")),
            write_port.addr.eq(at_write),
            write_port.data.eq(result if early else following),
            read_port.addr.eq(chunk if early else at_write),
        ]
        total: Value = delayed(m, read_port.data, early and not own, f"total{lane}")
        return total
