"""``o`` takes its beats from the inputs in turn: some from the first, then some from the next. One beat per cycle.

Latency 1: a register behind the multiplexer. An operation pops from one input only, so each ``ready`` is a flip-flop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from amaranth.hdl import Module, Signal

from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, choose
from onnx_hw_rtl.streams.stream import StreamShape


class Concat(Core):
    """Concatenation of the streams i0, i1, ..., which are equally wide.

    Args:
        inputs: the streams i0, i1, ...
        o: the result, whose elements can hold every element of the inputs.
        beats: number of beats that are taken from each input before it is the next one's turn.
        depth: FIFO depth of the output.
    """

    LATENCY = 1

    def __init__(self, *inputs: StreamShape, o: StreamShape, beats: Sequence[int], depth: int) -> None:
        if len(beats) != len(inputs) or min(beats) < 1:
            raise ValueError(f"each of the {len(inputs)} inputs must have at least one beat in turn, not {beats}")
        self.lanes, self.result = o.lanes, o.element
        self.starts, self.total = [0, *accumulate(beats)][:-1], sum(beats)
        super().__init__(
            {f"i{k}": shape.payload for k, shape in enumerate(inputs)}, {"o": (o.payload, depth)}, ("concat",)
        )

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        streams = [getattr(self, f"i{k}") for k in range(len(self.starts))]
        engine = Engine(
            m,
            "concat",
            {"beat": self.total},
            pops=[(stream, self._takes(k)) for k, stream in enumerate(streams)],
            pushes=[(outbox, lambda turn: 1)],
            exclusive=True,
        )
        for lane, part in enumerate(engine.decode_copies(self.lanes, self._input_of, range(len(streams)), "part")):
            joined = Signal(self.result, name=f"joined{lane}", reset_less=True)
            with m.Switch(part):
                for k, stream in enumerate(streams):
                    with m.Case(k) if k < len(streams) - 1 else m.Default():
                        m.d.sync += joined.eq(stream.payload[lane])
            m.d.comb += outbox.data[lane].eq(joined)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m

    def _takes(self, part: int) -> Callable[[Turn], Any]:
        """Return the condition that a beat comes from an input."""
        start, following = self.starts[part], self.starts[part + 1 :]
        if not following:
            return lambda turn: turn["beat"] >= start
        if not start:
            return lambda turn: turn["beat"] < following[0]
        return lambda turn: (turn["beat"] >= start) & (turn["beat"] < following[0])

    def _input_of(self, turn: Turn) -> Any:
        """Return the number of the input that a beat comes from."""
        part: Any = 0
        for k, start in enumerate(self.starts[1:], 1):
            part = choose(turn["beat"] >= start, k, part)
        return part
