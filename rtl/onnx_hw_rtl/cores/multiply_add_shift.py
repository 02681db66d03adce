"""``clamp((saturate(x)·m + c) >> shift, low, high)`` in look-up tables alone, in one cycle or in several steps.

m is written in base 4 with the digits −1, 0, 1 and 2, the least significant first. A *row*, x times a digit, is one
look-up table per bit. A beat takes ``steps`` cycles; each of them adds the rows of the same number of digits:

    sum = (sum >> 2·rows) + Σ row[j]·4^j

Two bits code a digit: 0, 1, 2 stand for themselves, and 3 is −1. The row of −1 is the complement of x, which is one
less than −x. The missing one is added as the carry of an adder: there is one adder for each row.

Bits that leave the sum at the bottom are kept only as far down as some addend has a bit; lower bits cannot change the
result. The addend comes out of the same memory as the digits, one slice per step, and is complete when the last sum is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.arithmetic.clamp import clamp, clamp_within, saturate
from onnx_hw_rtl.parts.constant_memory import FixedConstants
from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.streams.engine import delayed


@dataclass(frozen=True)
class Turn:
    """State of an operation, one cycle after it fires.

    Attributes:
        fired: an operation has fired.
        taken: an operation has fired that took a beat: the first step.
        step: number of the step within the beat.
        place: chunk · steps + step.
    """

    fired: Value
    taken: Value
    step: Value
    place: Value


@dataclass(frozen=True)
class MultiplyAddShift:
    """Requantizing multiplication.

    Attributes:
        clamp: the shape to which x saturates.
        multipliers, addends: one per channel, or one for all channels. No multiplier is negative.
        shift: bits dropped.
        low, high: bounds of the result.
        total: the signed shape that holds every sum.
        tie_bit: subtract ``2^tie_bit`` where bit ``shift`` of the sum equals ``tie_parity``; None for never.
        steps: cycles per beat.
        form: digits of a multiplier, bits of an addend and how many of its lowest bits are 0, where constants are
            loaded that fit; None where they follow from those that are here.
        bounds: the shape of ``low`` and ``high``, where they are loaded; None for constants.
        quick: the shape of x, where the one multiplier is a power of two and no stage only waits; else None.
    """

    clamp: Shape
    multipliers: Sequence[int]
    addends: Sequence[int]
    shift: int
    low: int | Value
    high: int | Value
    total: Shape
    tie_bit: int | None = None
    tie_parity: int = 1
    steps: int = 1
    form: tuple[int, int, int] | None = None
    bounds: Shape | None = None
    quick: Shape | None = None

    def with_numbers(self, m: Module, constants: FixedConstants) -> MultiplyAddShift:
        """Return the same with the values of single numbers that are loaded."""
        if self.bounds is None or not isinstance(self.low, int) or not isinstance(self.high, int):
            return self
        low, high = (constants.number(m, *number) for number in named_bounds(self.bounds, self.low, self.high))
        return replace(self, low=low, high=high)

    @cached_property
    def rows(self) -> int:
        """Digits per step."""
        digits = max(len(codes(int(factor))) for factor in self.multipliers) if self.form is None else self.form[0]
        return -(-digits // self.steps)

    @property
    def latency(self) -> int:
        """Cycles from the last step to the result: constants, rows, their sum over digits and steps, addend, clamp."""
        if self.quick is not None:
            return 2 + (self.quick != self.clamp) + (self.tie_bit is not None)
        return 5 + (self.rows - 1).bit_length() + (self.steps > 1) + (self.tie_bit is not None) + 1

    @property
    def shifted(self) -> int:
        """Bits by which all steps together shift the sum."""
        return 2 * self.rows * (self.steps - 1)

    @cached_property
    def zeros(self) -> int:
        """Bits at the bottom that are 0 in every addend."""
        if self.form is not None:
            return self.form[2]
        return min(((c & -c).bit_length() - 1 for c in map(int, self.addends) if c), default=0)

    @property
    def dropped(self) -> int:
        """Bits at the bottom of the sum that neither an addend nor the correction can change."""
        if self.steps == 1:
            return 0  # the carry of the lowest row comes with the addend
        return min(self.zeros, self.shift if self.tie_bit is None else self.tie_bit, self.shifted)

    @cached_property
    def slice_bits(self) -> int:
        """Bits of the addend that come with a step."""
        widest = 1 + max((c if c >= 0 else ~c).bit_length() for c in map(int, self.addends))
        if self.form is not None:
            widest = self.form[1]
        return -(-(widest - self.zeros) // self.steps)

    def lane(
        self, m: Module, name: str, x: Value, turn: Turn, channels: Sequence[int], constants: FixedConstants
    ) -> Value:
        if self.quick is not None:
            return self._bounded(m, name, self._shifted(m, name, x))
        bits = 2 * self.rows
        word = self._constants(m, f"{name}_constants", turn, channels, constants)
        if self.steps == 1:
            x = saturate(m, name, x, self.clamp)
        else:
            with m.If(turn.taken):
                x = saturate(m, name, x, self.clamp)
        if not self.clamp.signed:
            x = Cat(x, Const(0, 1)).as_signed()
        x = delayed(m, x, 1, f"{name}_x")
        total, carry = self._product(m, name, x, word[:bits])
        levels = (self.rows - 1).bit_length()
        part = delayed(m, word[bits:], levels + 1, f"{name}_addend")
        if self.steps == 1:
            total = _sum(m, f"{name}_total", self.total, total, self._addend(part), carry)
        else:
            there = delayed(m, turn.fired, 3 + levels, f"{name}_there")
            first = delayed(m, turn.taken, 3 + levels, f"{name}_first")
            sum_ = Signal(Shape(len(x) + bits, True), name=f"{name}_sum", reset_less=True)
            left = Signal(self.shifted - self.dropped, name=f"{name}_left", reset_less=True)
            addend = Signal(self.slice_bits * self.steps, name=f"{name}_collected", reset_less=True)
            with m.If(there):
                before = Mux(first, 0, sum_ >> bits)
                m.d.sync += [
                    sum_.eq(_plus(before, total, carry)),
                    left.eq(Cat(left, sum_[:bits])[bits:]),
                    addend.eq(Cat(addend, part)[self.slice_bits :]),
                ]
            shape = Shape(self.total.width - self.dropped, True)
            total = _sum(m, f"{name}_total", shape, Cat(left, sum_).as_signed(), self._addend(addend), Const(0, 1))
        return self._bounded(m, name, total)

    def _shifted(self, m: Module, name: str, x: Value) -> Value:
        """Return x times the power of two plus the addend, one cycle later, or two where x has to be saturated."""
        if self.quick != self.clamp:
            x = saturate(m, name, x, self.clamp)
        shifted = Cat(
            Const(0, int(self.multipliers[0]).bit_length() - 1), x, *([] if self.clamp.signed else [Const(0, 1)])
        )
        addend = Const(int(self.addends[0]), self.total)
        return _sum(m, f"{name}_total", self.total, shifted.as_signed(), addend, Const(0, 1))

    def _bounded(self, m: Module, name: str, total: Value) -> Value:
        """Return the result of a sum: without what a tie has too much, without the bits below, within the bounds."""
        shift = self.shift - self.dropped
        if self.tie_bit is not None:
            ties = total[shift] == self.tie_parity
            corrected = Signal.like(total, name=f"{name}_corrected", reset_less=True)
            m.d.sync += corrected.eq(total - (ties << (self.tie_bit - self.dropped)))
            total = corrected
        if self.bounds is not None:
            return clamp_within(m, name, total >> shift, self.low, self.high, self.bounds)
        assert isinstance(self.low, int) and isinstance(self.high, int)
        return clamp(m, name, total >> shift, self.low, self.high)

    def _addend(self, stored: Value) -> Value:
        """Append the zeros that the memory leaves out."""
        return Cat(Const(0, self.zeros - self.dropped), stored).as_signed()

    def _product(self, m: Module, name: str, x: Value, digits: Value) -> tuple[Value, Value]:
        """Multiply x by the digits of a step. Return the product and, separately, the carry that it still lacks."""
        terms: list[tuple[Value, Value, int]] = []  # a sum, the carry it still lacks, its number of digits
        for j in range(self.rows):
            code = digits[2 * j : 2 * j + 2]
            row = Signal(Shape(len(x) + 1, True), name=f"{name}_row{j}", reset_less=True)
            lacks = Signal(name=f"{name}_lacks{j}", reset_less=True)
            m.d.sync += [
                row.eq(Mux(code[1], Mux(code[0], ~x, x << 1), Mux(code[0], x, 0))),
                lacks.eq(code.all()),
            ]
            terms.append((row, lacks, 1))
        while len(terms) > 1:
            level = []
            for (low, lacks, count), (high, carry, others) in zip(terms[::2], terms[1::2], strict=False):
                total = Signal(Shape(len(x) + 2 * (count + others), True), name=f"{name}_sum", reset_less=True)
                upper = _plus(low >> 2 * count, high, carry)
                m.d.sync += total.eq(Cat(low[: 2 * count], upper).as_signed())
                level.append((total, delayed(m, lacks, 1, f"{name}_lacks"), count + others))
            if len(terms) % 2:
                last, lacks, count = terms[-1]
                level.append((delayed(m, last, 1, f"{name}_rest"), delayed(m, lacks, 1, f"{name}_lacks"), count))
            terms = level
        return terms[0][0], terms[0][1]

    def _constants(self, m: Module, name: str, turn: Turn, channels: Sequence[int], constants: FixedConstants) -> Value:
        """Return the digits and a slice of the addend, two cycles after the number of their place."""
        bits, each = 2 * self.rows, self.slice_bits
        words = []
        distinct = len(self.multipliers) > 1 and len(channels) > 1
        for channel in channels if distinct or not constants.loaded else channels[:1]:
            digits = codes(int(_of(self.multipliers, channel)), self.rows * self.steps)
            addend = int(_of(self.addends, channel)) >> self.zeros
            for step in range(self.steps):
                word = sum(code << 2 * j for j, code in enumerate(digits[step * self.rows :][: self.rows]))
                words.append(word | (addend >> each * step & (1 << each) - 1) << bits)
        if len(set(words)) == 1 and not constants.loaded:
            return Const(words[0], bits + each)
        place = turn.place
        if not distinct if constants.loaded else words == words[: self.steps] * len(channels):
            words, place = words[: self.steps], turn.step
        rom = constants.memory(m, name, bits + each, words, in_logic=len(words) * (bits + each) <= Rom.BITS_IN_LOGIC)
        m.d.comb += rom.addr.eq(place)
        return rom.data


def named_bounds(shape: Shape, low: int, high: int) -> list[tuple[str, Shape, int]]:
    """Return name, shape and first value of bounds that are loaded."""
    return [("low", shape, low), ("high", shape, high)]


def codes(factor: int, count: int = 1) -> list[int]:
    """Return the digits of a factor as codes 0..3, least significant first, and at least ``count`` of them.

    >>> codes(7), codes(8, 3)
    ([3, 2], [0, 2, 0])
    """
    digits: list[int] = []
    while factor or len(digits) < max(count, 1):
        digits.append(factor % 4)
        factor = (factor + 1) // 4  # the digit of code 3 is −1
    return digits


def _of(constants: Sequence[int], channel: int) -> int:
    return constants[min(channel, len(constants) - 1)]


def _plus(a: Value, b: Value, carry: Value) -> Value:
    """Return a + b + carry, signed, with a single carry chain."""
    return (Cat(Const(1, 1), a).as_signed() + Cat(carry, b).as_signed())[1:].as_signed()


def _sum(m: Module, name: str, shape: Shape, a: Value, b: Value, carry: Value) -> Signal:
    """Return a + b + carry, one cycle later."""
    total = Signal(shape, name=name, reset_less=True)
    m.d.sync += total.eq(_plus(a, b, carry))
    return total
