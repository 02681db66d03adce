"""``o`` is ``i`` one frame later; after a reset it begins with the initial value.

All beats of a frame are given, then all of the next one are taken into the same places of a memory. One beat per cycle.

    stage   giving                              taking
    1       the address of the beat             the beat is written
    2       the beat, or that of the first frame
    3       ... in a register
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import memory

from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.parts.fanout import copies, memory_parts
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn
from onnx_hw_rtl.streams.stream import StreamShape, bits_of


class KeptState(Core):
    """Delay of a stream by one frame.

    Args:
        i: the stream; ``o`` has its shape.
        beats: beats of a frame.
        initial: every element of the first frame that ``o`` gives.
        depth: FIFO depth of the output.
    """

    LATENCY = 3

    def __init__(self, i: StreamShape, beats: int, initial: int, *, depth: int) -> None:
        self.stream, self.beats, self.initial = i, beats, initial
        super().__init__({"i": i.payload}, {"o": (i.payload, depth)}, ("keep",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        loops = {"turn": 2, "beat": self.beats}
        engine = Engine(m, "keep", loops, pops=[(self.i, self._takes)], pushes=[(outbox, self._gives)])
        first = Signal(init=1, name="first")
        ends = engine.decode(engine.is_last("turn", "beat"), 1, "ends")
        with m.If(engine.fire & self._is_over(ends)):
            m.d.sync += first.eq(0)
        stored, bits = self._stored(m, engine), self.stream.element.width
        begins = delayed(m, first, 1, "begins")
        for place, its_own in enumerate(copies(m, begins, self.stream.width, "begins")):
            given = Signal(self.stream.element, name=f"given{place}", reset_less=True)
            word = Mux(its_own, Const(self.initial, self.stream.element), stored[place * bits : (place + 1) * bits])
            m.d.sync += given.eq(word[:bits])
            m.d.comb += outbox.data[place].eq(given)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m

    def _takes(self, turn: Turn) -> Any:
        """Return the condition that a beat is taken."""
        return turn["turn"] == 1

    def _gives(self, turn: Turn) -> Any:
        """Return the condition that a beat is given."""
        return turn["turn"] == 0

    def _is_over(self, ends: Value) -> Value:
        """Return the condition that the first frame is over, where the last beat of a frame is taken."""
        return ends

    def _stored(self, m: Module, engine: Engine) -> Value:
        """Return the beat of the frame before, two cycles after the operation."""
        data = delayed(m, bits_of(self.i.payload), 1, "taken")
        takes = engine.decode(self._takes, 1, "takes")
        place = engine.decode(lambda turn: turn["beat"], range(max(2, self.beats)), "place")
        strobe = Mux(ResetSignal(allow_reset_less=True), 0, engine.fire & takes)
        parts, words = memory_parts(len(data), max(2, self.beats), ports=2), []
        for bits, control in zip(parts, copies(m, Cat(strobe, place), len(parts), "address"), strict=True):
            held = memory.Memory(shape=bits.stop - bits.start, depth=max(2, self.beats), init=[])
            m.submodules[f"state_from{bits.start}"] = held
            write_port, read_port = held.write_port(), held.read_port()
            m.d.comb += [
                write_port.en.eq(control[0]),
                write_port.addr.eq(control[1:]),
                write_port.data.eq(data[bits]),
                read_port.addr.eq(control[1:]),
            ]
            words.append(read_port.data)
        return Cat(*words)
