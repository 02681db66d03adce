"""``o[channel] = step function of i[channel]``: an accumulator becomes a small integer.

Five forms of arithmetic, four of them with constants per channel:

* ``MultiplyAddShift``: clamp((saturate(x)·m + c) >> shift, low, high), with a correction for exact ties; a beat may
  take several cycles;
* ``DigitTable``: the same, with products by a digit that are looked up in block RAM;
* ``TableRequantizer``: a look-up;
* ``RoundingShift``: clamp((x - tie) >> shift, low, high), of which bounds and the rounding of ties are loaded;
* ``ThresholdRequantizer``: a binary search, one comparison per bit of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, unsigned

from onnx_hw_rtl.arithmetic.clamp import clamp, clamp_within, saturate
from onnx_hw_rtl.cores.digit_table import DigitTable, DigitTurn
from onnx_hw_rtl.cores.multiply_add_shift import MultiplyAddShift, Turn, named_bounds
from onnx_hw_rtl.parts.constant_memory import FixedConstants
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.stream import beat

__all__ = [
    "Arithmetic",
    "DigitTable",
    "MultiplyAddShift",
    "Requantize",
    "RoundingShift",
    "TableRequantizer",
    "ThresholdRequantizer",
]


@dataclass(frozen=True)
class TableRequantizer:
    """Requantization by a look-up table.

    Attributes:
        clamp: the shape to which x saturates.
        entries: (channels, 2^clamp.width): the result for clamp's lowest value first; or one row for all channels.
        entry_bits: bits of a signed entry, where entries are loaded that fit; 0 where they follow from those here.
        quick: the shape of x, where all channels have the same row and no stage only waits; else None.
    """

    clamp: Shape
    entries: np.ndarray
    entry_bits: int = 0
    quick: Shape | None = None

    steps = 1

    @property
    def latency(self) -> int:
        """Cycles of a copy of x, the saturation, the memory, and a copy of the entry."""
        return 5 if self.quick is None else 2 + (self.quick != self.clamp)

    def lane(
        self, m: Module, name: str, x: Value, turn: Turn, channels: Sequence[int], constants: FixedConstants
    ) -> Value:
        saturated = x if self.quick == self.clamp else saturate(m, name, x, self.clamp)
        index = saturated ^ (self.clamp.signed << (self.clamp.width - 1))
        distinct = len(self.entries) > 1 and len(channels) > 1
        words = [
            int(entry)
            for c in (channels if distinct else channels[:1])
            for entry in self.entries[min(c, len(self.entries) - 1)]
        ]
        low, high = min(words), max(words)
        width = self.entry_bits or max((v if v >= 0 else ~v).bit_length() for v in (low, high)) + 1
        in_logic = width * len(words) <= Rom.BITS_IN_LOGIC
        rom = constants.memory(m, f"{name}_table", width, words, in_logic=in_logic)
        address = index[: self.clamp.width]
        if distinct:
            address = Cat(address, delayed(m, turn.place, 1, f"{name}_chunk"))
        m.d.comb += rom.addr.eq(address)
        return delayed(m, rom.data.as_signed(), int(self.quick is None), f"{name}_entry")


@dataclass(frozen=True)
class RoundingShift:
    """Requantization by a shift; a sum at the edge of a result of one parity does not reach it.

    Attributes:
        shift: bits dropped.
        low, high, parity: bounds of the result, and that parity; all of them may be loaded.
        bounds: the shape of the bounds.
    """

    shift: int
    low: int | Value
    high: int | Value
    parity: int | Value
    bounds: Shape

    latency = 3
    steps = 1

    def with_numbers(self, m: Module, constants: FixedConstants) -> RoundingShift:
        """Return the same with the values of single numbers that are loaded."""
        assert isinstance(self.low, int) and isinstance(self.high, int) and isinstance(self.parity, int)
        low, high = (constants.number(m, *number) for number in named_bounds(self.bounds, self.low, self.high))
        return replace(self, low=low, high=high, parity=constants.number(m, "parity", unsigned(1), self.parity))

    def lane(
        self, m: Module, name: str, x: Value, turn: Turn, channels: Sequence[int], constants: FixedConstants
    ) -> Value:
        edge = ~x[: self.shift].any() & (x[self.shift] == self.parity)
        level = Signal(Shape(len(x) - self.shift + 1, True), name=f"{name}_level", reset_less=True)
        m.d.sync += level.eq((x >> self.shift) - edge)
        return clamp_within(m, name, level, self.low, self.high, self.bounds)


@dataclass(frozen=True)
class ThresholdRequantizer:
    """Requantization by a binary search among thresholds.

    Attributes:
        clamp: the shape to which x saturates; it holds every threshold.
        thresholds: (channels, 2^depth - 1) ascending; or one row for all channels.
        low, high: the result is ``low`` plus the number of thresholds not above x, at most ``high``.
    """

    clamp: Shape
    thresholds: np.ndarray
    low: int
    high: int

    steps = 1

    @property
    def depth(self) -> int:
        return self.thresholds.shape[1].bit_length()

    @property
    def latency(self) -> int:
        """Cycles of the saturation, three cycles per comparison, and the clamp."""
        return 3 + 3 * self.depth

    def lane(
        self, m: Module, name: str, x: Value, turn: Turn, channels: Sequence[int], constants: FixedConstants
    ) -> Value:
        x = saturate(m, name, x, self.clamp)
        distinct = len(self.thresholds) > 1 and len(channels) > 1
        chunk = turn.place
        if distinct:
            chunk = delayed(m, chunk, 1, f"{name}_chunk")
        passed: Value | None = None  # the bits of the result known so far, most significant first
        for step in reversed(range(self.depth)):
            prefixes = 1 << (self.depth - 1 - step)
            words = [
                int(self.thresholds[min(c, len(self.thresholds) - 1), (prefix << step + 1) + (1 << step) - 1])
                for c in (channels if distinct else channels[:1])
                for prefix in range(prefixes)
            ]
            in_logic = self.clamp.width * len(words) <= Rom.BITS_IN_LOGIC
            rom = constants.memory(m, f"{name}_step{step}", self.clamp.width, words, in_logic=in_logic)
            parts = ([passed] if passed is not None else []) + ([chunk] if distinct else [])
            m.d.comb += rom.addr.eq(Cat(*parts) if parts else 0)
            threshold = rom.data.as_signed() if self.clamp.signed else rom.data
            x = delayed(m, x, 2, f"{name}_x{step}")
            bit = Signal(name=f"{name}_bit{step}", reset_less=True)
            m.d.sync += bit.eq(x >= threshold)
            x = delayed(m, x, 1, f"{name}_x{step}")
            if distinct:
                chunk = delayed(m, chunk, 3, f"{name}_chunk{step}")
            passed = bit if passed is None else Cat(bit, delayed(m, passed, 3, f"{name}_passed{step}"))
        assert passed is not None
        return clamp(m, name, passed + Const(self.low), self.low, self.high)


Arithmetic = MultiplyAddShift | DigitTable | TableRequantizer | ThresholdRequantizer | RoundingShift


class Requantize(Core):
    """Step function per channel.

    Args:
        arithmetic: how the function is computed.
        words: (chunks, lanes) integers: the channel whose constants each lane has, for each beat of a pixel.
        bits, signed: shape of an input element.
        out_bits, out_signed: shape of a result.
        lanes: channels per beat, in and out.
        pixels: pixels per beat, in and out.
        run: consecutive beats of one channel group, each of other pixels.
        depth: FIFO depth of the output.
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        *,
        words: np.ndarray,
        bits: int,
        signed: bool,
        out_bits: int,
        out_signed: bool,
        lanes: int,
        pixels: int = 1,
        run: int = 1,
        depth: int,
    ) -> None:
        if words.shape[1] != lanes:
            raise ValueError(f"words must be (n, {lanes}), not {words.shape}")
        self.arithmetic, self.words, self.width = arithmetic, words, lanes * pixels
        self.chunks, self.run = len(words), run if len(words) > 1 else 1
        self.latency = arithmetic.latency
        super().__init__(
            {"i": beat(self.width, bits, signed)},
            {"o": (beat(self.width, out_bits, out_signed), depth)},
            ("requantize",),
        )

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        steps, arithmetic = self.arithmetic.steps, self.arithmetic
        if isinstance(arithmetic, MultiplyAddShift | RoundingShift):
            arithmetic = arithmetic.with_numbers(m, self.constants)
        engine = Engine(
            m,
            "requantize",
            {"chunk": self.chunks, **({"run": self.run} if self.run > 1 else {}), "step": steps},
            pops=[(self.i, lambda turn: turn["step"] == 0)],
            pushes=[(outbox, lambda turn: turn["step"] == steps - 1)],
        )
        if isinstance(arithmetic, DigitTable):
            self._look_up(m, engine, arithmetic)
        else:
            self._compute(m, engine, arithmetic)
        self.arrives(m, "o", self.latency)
        self.report(m, engine)
        return m

    def _compute(
        self,
        m: Module,
        engine: Engine,
        arithmetic: MultiplyAddShift | TableRequantizer | ThresholdRequantizer | RoundingShift,
    ) -> None:
        quick = isinstance(arithmetic, MultiplyAddShift | TableRequantizer) and arithmetic.quick is not None
        for lane, turn in enumerate(self._turns(m, engine)):
            x = delayed(m, self.i.payload[lane], int(not quick), f"lane{lane}")
            channels = self.words[:, lane % self.words.shape[1]].tolist()
            result = arithmetic.lane(m, f"lane{lane}", x, turn, channels, self.constants)
            m.d.comb += self.outboxes["o"].data[lane].eq(result)

    def _look_up(self, m: Module, engine: Engine, table: DigitTable) -> None:
        """Add lanes that look products up; each has a memory of its own."""
        turn = DigitTurn.of(engine, table, self.chunks)
        for lane in range(self.width):
            channels = self.words[:, lane % self.words.shape[1]].tolist()
            x = self.i.payload[lane]
            result, words = table.lane(m, f"lane{lane}", Value.cast(x), engine, turn, channels)
            m.submodules[f"lane{lane}_words"] = words
            m.d.comb += self.outboxes["o"].data[lane].eq(result)

    def _turns(self, m: Module, engine: Engine) -> list[Turn]:
        """Return a copy of the operation's state for every lane."""
        first = engine.decode(lambda turn: turn["step"] == 0, 1, "first")
        step = engine.decode(lambda turn: turn["step"], range(max(2, self.arithmetic.steps)), "step")
        places = self.chunks * self.arithmetic.steps
        if self.run > 1:
            steps = self.arithmetic.steps
            place = engine.decode(lambda turn: turn["chunk"] * steps + turn["step"], range(max(2, places)), "place")
        else:
            place = Signal(range(max(2, places)))
            with m.If(engine.fire):
                m.d.sync += place.eq(Mux(place == places - 1, 0, place + 1))
        turn = Cat(engine.fire, engine.fire & first, step, place)
        split = 2 + len(step)
        return [Turn(c[0], c[1], c[2:split], c[split:]) for c in copies(m, turn, self.width, "turn")]
