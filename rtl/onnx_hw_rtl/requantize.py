"""``o[channel] = step function of i[channel]``: an accumulator becomes a small integer. One beat per cycle.

Three forms of arithmetic, all with constants per channel:

* ``MultiplyAddShift``: clamp((saturate(x)·m + c) >> shift, low, high), with a correction for exact ties;
* ``Table``: a look-up;
* ``Thresholds``: a binary search, one comparison per bit of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.core import Core
from onnx_hw_rtl.engine import Engine, delayed
from onnx_hw_rtl.multiplier import Multiplier, WideMultiplier
from onnx_hw_rtl.rom import Rom
from onnx_hw_rtl.stream import beat

__all__ = ["Arithmetic", "MultiplyAddShift", "Requantize", "Table", "Thresholds"]


@dataclass(frozen=True)
class MultiplyAddShift:
    """One multiplication.

    Attributes:
        clamp: the shape to which x saturates.
        multipliers, addends: per channel; or one for all. No multiplier is negative.
        shift: bits dropped.
        low, high: bounds of the result.
        total: the signed shape that holds every sum.
        tie_bit: subtract ``2^tie_bit`` where bit ``shift`` of the sum equals ``tie_parity``; None for never.
    """

    clamp: Shape
    multipliers: Sequence[int]
    addends: Sequence[int]
    shift: int
    low: int
    high: int
    total: Shape
    tie_bit: int | None = None
    tie_parity: int = 1

    @property
    def multiplier_bits(self) -> int:
        return max(1, max(self.multipliers).bit_length())

    @property
    def addend_bits(self) -> int:
        return 1 + max((c if c >= 0 else ~c).bit_length() for c in self.addends)

    @property
    def latency(self) -> int:
        """From the beat to its result: constants, product, sum, correction, clamp."""
        wide = (self.clamp.width > WideMultiplier.LIMB) + (self.multiplier_bits > WideMultiplier.LIMB)
        product = 1 if self.multiplier_bits == 1 else Multiplier.LATENCY + wide
        return 4 + product + 1 + (self.tie_bit is not None) + 1

    def lane(self, m: Module, name: str, x: Value, chunk: Value, channels: Sequence[int]) -> Value:
        saturated = _delayed(m, _saturate(m, name, x, self.clamp), 2, f"{name}_x")
        bits = self.multiplier_bits
        mask_m, mask_c = (1 << bits) - 1, (1 << self.addend_bits) - 1
        words = [(_of(self.multipliers, c) & mask_m) | (_of(self.addends, c) & mask_c) << bits for c in channels]
        constants = _constants(m, f"{name}_constants", bits + self.addend_bits, words, chunk)
        factor, addend = constants[:bits], constants[bits:].as_signed()
        if bits == 1:
            product = Signal(self.clamp, name=f"{name}_product", reset_less=True)
            m.d.sync += product.eq(Mux(factor, saturated, 0))
            late = _delayed(m, addend, 1, f"{name}_addend")
        else:
            multiplier = WideMultiplier(self.clamp.width, bits, a_signed=self.clamp.signed, b_signed=False)
            m.submodules[f"{name}_multiplier"] = multiplier
            m.d.comb += [multiplier.a.eq(saturated), multiplier.b.eq(factor)]
            product = multiplier.p
            late = _delayed(m, addend, multiplier.LATENCY, f"{name}_addend")
        total = Signal(self.total, name=f"{name}_total", reset_less=True)
        m.d.sync += total.eq(product + late)
        if self.tie_bit is not None:
            corrected = Signal(self.total, name=f"{name}_corrected", reset_less=True)
            ties = total[self.shift] == self.tie_parity
            m.d.sync += corrected.eq(total - (ties << self.tie_bit))
            total = corrected
        return _clamp(m, name, total >> self.shift, self.low, self.high)


@dataclass(frozen=True)
class Table:
    """A look-up.

    Attributes:
        clamp: the shape to which x saturates.
        entries: (channels, 2^clamp.width): the result for clamp's lowest value first; or one row for all channels.
    """

    clamp: Shape
    entries: np.ndarray

    latency = 5

    def lane(self, m: Module, name: str, x: Value, chunk: Value, channels: Sequence[int]) -> Value:
        saturated = _saturate(m, name, x, self.clamp)
        index = saturated ^ (self.clamp.signed << (self.clamp.width - 1))
        distinct = len(self.entries) > 1 and len(channels) > 1
        words = [
            int(entry)
            for c in (channels if distinct else channels[:1])
            for entry in self.entries[min(c, len(self.entries) - 1)]
        ]
        low, high = min(words), max(words)
        shape = Shape(max((v if v >= 0 else ~v).bit_length() for v in (low, high)) + 1, True)
        rom = Rom(shape.width, words)
        m.submodules[f"{name}_table"] = rom
        address = index[: self.clamp.width]
        if distinct:
            address = Cat(address, delayed(m, chunk, 1, f"{name}_chunk"))
        m.d.comb += rom.addr.eq(address)
        return _delayed(m, rom.data.as_signed(), 1, f"{name}_entry")


@dataclass(frozen=True)
class Thresholds:
    """A binary search.

    Attributes:
        clamp: the shape to which x saturates; it holds every threshold.
        thresholds: (channels, 2^depth - 1) ascending; or one row for all channels.
        low, high: the result is ``low`` plus the number of thresholds not above x, at most ``high``.
    """

    clamp: Shape
    thresholds: np.ndarray
    low: int
    high: int

    @property
    def depth(self) -> int:
        return self.thresholds.shape[1].bit_length()

    @property
    def latency(self) -> int:
        """Saturation, three cycles per comparison, the clamp."""
        return 3 + 3 * self.depth

    def lane(self, m: Module, name: str, x: Value, chunk: Value, channels: Sequence[int]) -> Value:
        x = _saturate(m, name, x, self.clamp)
        distinct = len(self.thresholds) > 1 and len(channels) > 1
        if distinct:
            chunk = delayed(m, chunk, 1, f"{name}_chunk")
        passed: Value | None = None  # the bits of the result found so far, most significant first
        for step in reversed(range(self.depth)):
            prefixes = 1 << (self.depth - 1 - step)
            words = [
                int(self.thresholds[min(c, len(self.thresholds) - 1), (prefix << step + 1) + (1 << step) - 1])
                for c in (channels if distinct else channels[:1])
                for prefix in range(prefixes)
            ]
            rom = Rom(self.clamp.width, words)
            m.submodules[f"{name}_step{step}"] = rom
            parts = ([passed] if passed is not None else []) + ([chunk] if distinct else [])
            m.d.comb += rom.addr.eq(Cat(*parts) if parts else 0)
            threshold = rom.data.as_signed() if self.clamp.signed else rom.data
            x = _delayed(m, x, 2, f"{name}_x{step}")
            bit = Signal(name=f"{name}_bit{step}", reset_less=True)
            m.d.sync += bit.eq(x >= threshold)
            x = _delayed(m, x, 1, f"{name}_x{step}")
            if distinct:
                chunk = delayed(m, chunk, 3, f"{name}_chunk{step}")
            passed = bit if passed is None else Cat(bit, delayed(m, passed, 3, f"{name}_passed{step}"))
        assert passed is not None
        return _clamp(m, name, passed + Const(self.low), self.low, self.high)


Arithmetic = MultiplyAddShift | Table | Thresholds


class Requantize(Core):
    """A step function per channel.

    Args:
        arithmetic: how it is computed.
        channels: of a pixel.
        bits, signed: of an input element.
        out_bits, out_signed: of a result.
        lanes: elements per beat, in and out.
        depth: FIFO depth of the output.
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        *,
        channels: int,
        bits: int,
        signed: bool,
        out_bits: int,
        out_signed: bool,
        lanes: int,
        depth: int,
    ) -> None:
        self.arithmetic, self.channels, self.lanes = arithmetic, channels, lanes
        self.chunks = -(-channels // lanes)
        self.latency = arithmetic.latency
        super().__init__(
            {"i": beat(lanes, bits, signed)}, {"o": (beat(lanes, out_bits, out_signed), depth)}, ("requantize",)
        )

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        engine = Engine(
            m,
            "requantize",
            {"chunk": self.chunks},
            pops=[(self.i, lambda turn: 1)],
            pushes=[(outbox, lambda turn: 1)],
        )
        chunk = delayed(m, engine.decode(lambda turn: turn["chunk"], range(max(2, self.chunks)), "chunk"), 1, "chunk")
        for lane in range(self.lanes):
            x = _delayed(m, self.i.payload[lane], 1, f"lane{lane}")
            channels = [min(k * self.lanes + lane, self.channels - 1) for k in range(self.chunks)]
            result = self.arithmetic.lane(m, f"lane{lane}", x, chunk, channels)
            m.d.comb += outbox.data[lane].eq(result)
        m.d.comb += outbox.write.eq(delayed(m, outbox.reserve, self.latency, "write", strobe=True))
        self.report(m, engine)
        return m


def _delayed(m: Module, value: Value, cycles: int, name: str) -> Value:
    """Like ``delayed``, and of the same shape."""
    for stage in range(cycles):
        register = Signal(value.shape(), name=f"{name}_{stage + 1}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


def _of(constants: Sequence[int], channel: int) -> int:
    return int(constants[min(channel, len(constants) - 1)])


def _constants(m: Module, name: str, width: int, words: Sequence[int], chunk: Value) -> Value:
    """The constants of a chunk, three cycles after its number."""
    if len(set(words)) == 1:
        return Const(words[0], width)
    rom = Rom(width, words)
    m.submodules[name] = rom
    m.d.comb += rom.addr.eq(chunk)
    return delayed(m, rom.data, 1, name)


def _saturate(m: Module, name: str, x: Value, shape: Shape) -> Signal:
    """x clamped to a shape, one cycle later."""
    low = -(1 << shape.width - 1) if shape.signed else 0
    high = (1 << shape.width - shape.signed) - 1
    saturated = Signal(shape, name=f"{name}_saturated", reset_less=True)
    m.d.sync += saturated.eq(Mux(x < low, low, Mux(x > high, high, x)))
    return saturated


def _clamp(m: Module, name: str, value: Value, low: int, high: int) -> Signal:
    """A value clamped to a range, one cycle later; the range may lie beyond what the value's shape holds."""
    clamped = Signal(range(low, high + 1), name=f"{name}_clamped", reset_less=True)
    m.d.sync += clamped.eq(Mux(value < low, low, Mux(value > high, high, value)))
    return clamped
