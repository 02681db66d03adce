"""A core that needs its own earlier results, and that fills a table before its first frame. No network needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib import memory

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.folding import EvenFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.schedule import Dependency, Engine, Schedule
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction
from onnx_hw_rtl.streams import engine, feedback
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Turn, delayed
from onnx_hw_rtl.streams.stream import beat, bits_of

BITS = 6
TABLE = (5, -9, 14, -2, 7)


@dataclass(frozen=True, repr=False)
class Recurrence(Operator[EvenFolding]):
    """``h[p, c] = x[p, c] + floor(h[p − 1, c] / 2) + table[c mod once]`` for pixel after pixel p, one integer a beat.

    Every frame begins with h = 0.

    Attributes:
        shape: of a frame.
        delay: cycles until a result can be used.
        once: operations before the first frame, each of which writes a word of the table; without any it is 0.
    """

    shape: tuple[int, int, int]
    delay: int = 2
    once: int = 0

    folding_type = EvenFolding

    def operands(self) -> tuple[Tensor, ...]:
        return (Tensor(self.shape, Int(BITS)),)

    def results(self) -> tuple[Tensor, ...]:
        return (Tensor(self.shape, Int(BITS + 2)),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        x = arrays[0].reshape(len(arrays[0]), -1, self.shape[2])
        table = np.resize(TABLE[: self.once] or [0], self.shape[2])
        h, found = np.zeros_like(x[:, 0]), []
        for pixel in range(x.shape[1]):
            h = x[:, pixel] + h // 2 + table
            found.append(h)
        return (np.stack(found, axis=1).reshape(arrays[0].shape),)

    def foldings(self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None) -> Iterator[Any]:  # type: ignore[override]
        yield EvenFolding(1)

    def schedule(self, folding: EvenFolding) -> Schedule:
        tensor = self.operands()[0]
        every = AffineSequence.every(tensor.size)
        repeated = tensor.size - tensor.channels
        own = Dependency(
            AffineSequence.every(repeated, first=tensor.channels), AffineSequence.every(repeated), self.delay
        )
        return Schedule(
            (Engine("step", tensor.size, self.delay, {"i": every}, {"o": every}, self.once, (own,) * (repeated > 0)),)
        )

    def demand(self, folding: EvenFolding) -> Demand:
        return Demand.of(LogicFunction(1))

    def core(self, folding: EvenFolding, depths: Mapping[str, int]) -> Circuit:
        return Circuit(self.shape, self.delay, self.once, depths["o"])


class Circuit(Core):
    """One engine; latency ``delay``."""

    def __init__(self, shape: tuple[int, int, int], delay: int, once: int, depth: int) -> None:
        self.pixels, self.channels, self.delay, self.once = shape[0] * shape[1], shape[2], delay, once
        super().__init__({"i": beat(1, BITS)}, {"o": (beat(1, BITS + 2), depth)}, ("step",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox, last_pixel = self.outboxes["o"], self.pixels - 1
        own = feedback.FeedbackCounter(self.delay, self.channels)
        step = engine.Engine(
            m,
            "step",
            {"pixel": self.pixels, "channel": self.channels},
            pops=[(self.i, lambda turn: 1)],
            pushes=[(outbox, lambda turn: 1)],
            conditions=[own.has_come],
            once=self.once,
        )

        def next_waits(turn: Turn) -> Any:
            """All operations do but those of the first pixel."""
            goes_on = step.is_last("pixel", "channel")(turn) == 0
            return goes_on & ((turn["pixel"] != 0) | (step.is_last("channel")(turn) == 1))

        own.count(
            m,
            step,
            waited_for=step.decode(lambda turn: turn["pixel"] != last_pixel, 1, "waited_for"),
            next_waits=step.decode(next_waits, 1, "next_waits"),
        )
        channel = delayed(m, step.decode(lambda turn: turn["channel"], 8, "channel"), 1, "channel")
        begins = delayed(m, step.decode(lambda turn: turn["pixel"] == 0, 1, "begins"), 1, "begins")
        x = delayed(m, bits_of(self.i.payload), 1, "x")
        m.submodules.state = state = memory.Memory(shape=BITS + 2, depth=max(2, self.channels), init=[])
        read_port, write_port = state.read_port(domain="comb"), state.write_port()
        m.d.comb += read_port.addr.eq(channel)
        half = Mux(begins, 0, read_port.data.as_signed() >> 1)
        total = delayed(m, (x.as_signed() + half + self._table(m, step, channel))[: BITS + 2], self.delay - 1, "total")
        m.d.comb += [
            write_port.addr.eq(delayed(m, channel, self.delay - 1, "channel")),
            write_port.data.eq(total),
            write_port.en.eq(delayed(m, step.works, self.delay, "store", strobe=True)),
            bits_of(outbox.data).eq(total),
            outbox.write.eq(delayed(m, outbox.reserve, self.delay, "write", strobe=True)),
        ]
        self.report(m, step)
        return m

    def _table(self, m: Module, step: engine.Engine, channel: Value) -> Value:
        """What stands there for a channel of stage 1: written once, word by word."""
        if not self.once:
            return Const(0, 1)
        words = [Signal(5, name=f"word{k}") for k in range(self.once)]
        signed = [word.as_signed() for word in words]
        for k, word in enumerate(words):
            with m.If(step.fire & step.prepares & (step.prepared == k)):
                m.d.sync += word.eq(TABLE[k])
        chosen: Value = Array(signed)[channel % self.once]
        return chosen
