"""Deal: an engine that hands the bytes of a tape to cores, as words, after a table of runs.

A token is what the memory gives at once, a byte or more; a word takes whole tokens. A run is some groups of words of
one port, one after the other. The table lies in a memory; the counters hold the place of the next token, one ahead as
those of every engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import memory

from onnx_hw_rtl.parts.fanout import spread
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, delayed, pick
from onnx_hw_rtl.streams.stream import beat, bits_of

LATENCY = 2
"""Cycles from the token that ends a word until the word arrives in the FIFO."""


@dataclass(frozen=True)
class DealtPort:
    """Port of a deal.

    Attributes:
        bits: width of a word.
        word_bytes: bytes that it takes; its lowest bits come first.
        group_words: words of a group.
        depth: FIFO depth of the port.
    """

    bits: int
    word_bytes: int
    group_words: int
    depth: int


@dataclass(frozen=True)
class _Place:
    """Place of a token: number of its run, the port, and its group, word and token within the run."""

    run: int
    port: int
    group: int
    word: int
    byte: int


class Deal(Core):
    """Deal of a tape.

    Args:
        ports: the cores' ports, called ``w0``, ``w1`` and so on; a word is one integer there.
        runs: (port, groups) of each run of a frame.
        padding: bytes at the end of a frame that nobody gets.
        token_bytes: bytes that come at once.
    """

    def __init__(
        self, ports: Sequence[DealtPort], runs: Sequence[tuple[int, int]], *, padding: int, token_bytes: int = 1
    ) -> None:
        if padding % token_bytes or any(port.word_bytes % token_bytes for port in ports):
            raise ValueError(f"words and padding must be whole tokens of {token_bytes} bytes")
        self.dealt, self.token_bytes = tuple(ports), token_bytes
        padding //= token_bytes
        self.runs = [(port, groups) for port, groups in runs] + ([(len(ports), padding)] if padding else [])
        super().__init__(
            {"tape": beat(token_bytes, 8, False)},
            {f"w{k}": (beat(1, port.bits, False), port.depth) for k, port in enumerate(ports)},
            ("deal",),
        )

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outboxes = [self.outboxes[f"w{k}"] for k in range(len(self.dealt))]
        self._word_tokens = [port.word_bytes // self.token_bytes for port in self.dealt] + [1]
        self._group_words = [port.group_words for port in self.dealt] + [1]
        first, second = islice(self._places(), 2)
        self._first = first
        self._port = Signal(range(len(self._word_tokens)), init=second.port, name="port")
        self._byte = Signal(range(max(2, *self._word_tokens)), init=second.byte, name="byte")
        self._word = Signal(range(max(2, *self._group_words)), init=second.word, name="word")
        self._group = Signal(range(max(2, *(groups for _, groups in self.runs))), init=second.group, name="group")
        self._word_ends = Signal(name="word_ends")
        m.d.comb += self._word_ends.eq(self._byte == pick(self._port, [n - 1 for n in self._word_tokens]))
        engine = Engine(
            m,
            "deal",
            {"byte": 1},
            pops=[(self.tape, lambda turn: 1)],
            pushes=[(outbox, self._ends_word_of(k)) for k, outbox in enumerate(outboxes)],
        )
        self._count(m, engine.fire, second.run)
        word = self._assembled(m, engine)
        for port, outbox in zip(self.dealt, outboxes, strict=True):
            m.d.comb += Value.cast(outbox.data).eq(word[len(word) - 8 * port.word_bytes :])
        for k in range(len(outboxes)):
            self.arrives(m, f"w{k}", LATENCY)
        self.report(m, engine)
        return m

    def _places(self) -> Iterator[_Place]:
        """Yield the places of all tokens, frame after frame."""
        while True:
            for run, (port, groups) in enumerate(self.runs):
                for group in range(groups):
                    for word in range(self._group_words[port]):
                        for byte in range(self._word_tokens[port]):
                            yield _Place(run, port, group, word, byte)

    def _ends_word_of(self, number: int) -> Any:
        """Return the function of a turn that says whether the operation ends a word of a port."""

        def ends(turn: Turn) -> Any:
            if isinstance(turn["byte"], int):  # the very first operation
                return int(self._first.port == number and self._first.byte == self._word_tokens[number] - 1)
            return (self._port == number) & self._word_ends

        return ends

    def _count(self, m: Module, fires: Value, run: int) -> None:
        """Let the place of the next token go on.

        Args:
            run: the one of the second token.
        """
        count, port_bits = len(self.runs), len(self._port)
        table = [port | groups - 1 << port_bits for port, groups in self.runs]
        width = port_bits + len(self._group)
        m.submodules.runs = stored = memory.Memory(shape=width, depth=max(2, count), init=table)
        read = stored.read_port()
        group_ends, run_ends, loads = Signal(), Signal(), Signal()
        last_group = Signal.like(self._group, name="last_group", init=self.runs[run][1] - 1)
        m.d.comb += [
            group_ends.eq(self._word_ends & (self._word == pick(self._port, [n - 1 for n in self._group_words]))),
            run_ends.eq(group_ends & (self._group == last_group)),
            loads.eq(fires & run_ends),
        ]
        following = Signal(range(max(2, count)), init=(run + 1) % count, name="following")
        after: Value = Mux(following == count - 1, 0, following + 1)
        m.d.comb += read.addr.eq(Mux(loads, after, following))
        with m.If(fires):
            m.d.sync += [
                self._byte.eq(Mux(self._word_ends, 0, self._byte + 1)),
                self._word.eq(Mux(group_ends, 0, self._word + self._word_ends)),
                self._group.eq(Mux(run_ends, 0, self._group + group_ends)),
            ]
        with m.If(loads):
            m.d.sync += [
                following.eq(after),
                self._port.eq(read.data[:port_bits]),
                last_group.eq(read.data[port_bits:]),
            ]

    def _assembled(self, m: Module, engine: Engine) -> Value:
        """Return the bytes that came last, the latest one at the top, one cycle before a word is written."""
        width = 8 * max(port.word_bytes for port in self.dealt)
        came = delayed(m, bits_of(self.tape.payload), 1, "came")
        word = Signal(width, reset_less=True, name="assembled")
        shifted = Cat(word[8 * self.token_bytes :], came)
        for bits, strobe in spread(m, Mux(ResetSignal(allow_reset_less=True), 0, engine.fire), width, "comes"):
            with m.If(strobe):
                m.d.sync += word[bits].eq(shifted[bits])
        return word
