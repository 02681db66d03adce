"""``o`` is ``i`` one step later: the initial state first, then all steps but the last, which is taken and dropped.

One beat per cycle. Latency 1: a register behind the multiplexer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Signal

from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, choose, pick
from onnx_hw_rtl.streams.stream import StreamShape


class PreviousStep(Core):
    """Delay of a stream by one step of some beats, which begins anew with every frame.

    Args:
        i: the stream; ``o`` has its shape.
        initial: (beats of a step, width) integers, what ``o`` begins a frame with; or the number of those beats, which
            then come from another stream, ``initial``.
        steps: number of steps of a frame.
        depth: FIFO depth of the output.
    """

    LATENCY = 1

    def __init__(self, i: StreamShape, initial: Sequence[Sequence[int]] | int, *, steps: int, depth: int) -> None:
        self.stream, self.steps, self.has_stream = i, steps, isinstance(initial, int)
        self.beats = [()] * initial if isinstance(initial, int) else [tuple(word) for word in initial]
        self.words = sorted(set(self.beats))
        ports = ("i", "initial") if self.has_stream else ("i",)
        super().__init__(dict.fromkeys(ports, i.payload), {"o": (i.payload, depth)}, ("step",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        pops: list[Any] = [(self.i, self._comes)]
        if self.has_stream:
            pops.append((self.initial, lambda turn: turn["step"] == 0))
        loops = {"step": self.steps + 1, "beat": len(self.beats)}
        engine = Engine(m, "step", loops, pops=pops, pushes=[(outbox, self._leaves)], exclusive=True)
        choices = range(len(self.words) + 1)
        for place, choice in enumerate(engine.decode_copies(self.stream.width, self._choice, choices, "choice")):
            given = Signal(self.stream.element, name=f"given{place}", reset_less=True)
            m.d.sync += given.eq(self.i.payload[place])
            with m.Switch(choice):
                for number, word in enumerate(self.words):
                    with m.Case(number):
                        m.d.sync += given.eq(self.initial.payload[place] if self.has_stream else word[place])
            m.d.comb += outbox.data[place].eq(given)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, engine)
        return m

    def _comes(self, turn: Turn) -> Any:
        """Return the condition that a beat is taken."""
        return turn["step"] >= 1

    def _leaves(self, turn: Turn) -> Any:
        """Return the condition that a beat is given."""
        return turn["step"] < self.steps

    def _choice(self, turn: Turn) -> Any:
        """Return which of the words of the initial state is given; behind the last one, what comes."""
        numbers = [self.words.index(word) for word in self.beats]
        return choose(self._comes(turn), len(self.words), pick(turn["beat"], numbers))
