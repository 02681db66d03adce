"""Requantization digit by digit of the argument: the products with a digit are words of a table, nothing multiplies.

x·m + c is the sum of the words of the digits of x, in base 2^d, the least significant first. Each step adds a word:

    sum = (sum >> d) + word[channel, kind of the step, digit]

The word of a digit is the digit times m, plus a part of c; the last digit has a sign. Bits that leave the sum at the
bottom cannot change the result, since later steps add nothing below them: y = clamp((x·m + c) >> S, low, high), as in
``multiply_add_shift``. The parts of c are as narrow as the words of the digits: the first step has d bits of it, the
second one those that the last step cannot have, and the last one the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift

DIGIT_BITS = (1, 2, 3, 4)
"""Widths of a digit, in bits; wider ones take larger tables."""

FIRST, SECOND, OTHER, LAST = range(4)
"""Kinds of a step."""


@dataclass(frozen=True, eq=False)
class DigitTable:
    """Requantizer that looks up the products of an argument's digits.

    Attributes:
        clamp: the type of x, which is not saturated.
        digit_bits: d.
        words: (channels, 4, 2^d) object array of ints, by the kind of the step, and by the digit's bits.
        shift: number of bits of the last sum that are dropped.
        low, high: the result is clamped to this range.
    """

    clamp: Int
    digit_bits: int
    words: np.ndarray
    shift: int
    low: int
    high: int

    @property
    def channels(self) -> int:
        return len(self.words)

    @property
    def digits(self) -> int:
        """Number of digits of an argument."""
        return digits_of(self.clamp, self.digit_bits)

    @property
    def steps(self) -> int:
        """Cycles of a beat: one for each digit, and one in which the argument is taken and the sum begins as 0."""
        return self.digits + 1

    @cached_property
    def word_type(self) -> Int:
        """Type that holds every word; always signed."""
        return Int(Int.holding(min(-1, int(self.words.min())), max(0, int(self.words.max()))).bits)

    @cached_property
    def sum_type(self) -> Int:
        """Type that holds every sum, for every argument and channel; always signed."""
        low = high = least = most = 0
        for step in range(self.digits):
            words = self.words[:, self.kind(step)]
            low, high = (low >> self.digit_bits) + int(words.min()), (high >> self.digit_bits) + int(words.max())
            least, most = min(least, low), max(most, high)
        return Int(Int.holding(min(-1, least), most).bits)

    def kind(self, digit: int) -> int:
        """Return the kind of the step of a digit, counted from the least significant one."""
        return LAST if digit == self.digits - 1 else min(digit, OTHER)

    @property
    def is_monotone(self) -> bool:
        """Whether the words are those of a line that does not fall, for every channel."""
        count = 1 << self.digit_bits
        digits = np.arange(count).astype(object)
        slope, starts = self.words[:, OTHER, 1], self.words[:, :, 0]
        last = _signed(digits, self.digit_bits) if self.clamp.signed else digits
        by_kind = np.stack([digits, digits, digits, last])
        line = slope[:, None, None] * by_kind + starts[:, :, None]
        return bool((slope >= 0).all()) and bool((self.words == line).all()) and not starts[:, OTHER].any()

    def apply(self, channel: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Compute the circuit's results for pairs (channel, x), step by step; int64."""
        dtype = np.int64 if self.sum_type.bits <= 63 else object
        words, total = self.words.astype(dtype), np.zeros(len(x), dtype=dtype)
        for step in range(self.digits):
            digit = np.asarray(x, dtype=np.int64) >> self.digit_bits * step & (1 << self.digit_bits) - 1
            total = (total >> self.digit_bits) + words[channel, self.kind(step), digit]
        return np.clip(total >> self.shift, self.low, self.high).astype(np.int64)


def digits_of(operand: Int, digit_bits: int) -> int:
    """Return the number of digits of an argument of a type; at least two, so that one of them is not the last."""
    return max(2, -(-operand.bits // digit_bits))


def digit_table(line: MultiplyAddShift, operand: Int, digit_bits: int) -> DigitTable | None:
    """Return the table of a multiplication, for arguments of a type; None where a table cannot do the same.

    Ties are corrected behind a sum, which no table does. Constants that are loaded are those of a multiplication.
    """
    if line.tie_bit is not None or line.form is not None:
        return None
    left = digit_bits * (digits_of(operand, digit_bits) - 1)  # bits that have left the sum when the last digit comes
    finer = max(0, left - line.shift)
    slope, addends = line.multipliers.astype(object) << finer, line.addends.astype(object) << finer
    digits, below = np.arange(1 << digit_bits).astype(object), addends & (1 << left) - 1
    second = below >> digit_bits if left > digit_bits else below * 0
    parts = [below - (second << digit_bits), second, below * 0, addends >> left]
    last = _signed(digits, digit_bits) if operand.signed else digits
    products = [np.outer(slope, bits) for bits in (digits, digits, digits, last)]
    words = np.stack([product + part[:, None] for product, part in zip(products, parts, strict=True)], axis=1)
    return DigitTable(operand, digit_bits, words, line.shift + finer - left, line.low, line.high)


def _signed(digits: np.ndarray, digit_bits: int) -> np.ndarray:
    """Return the digits in two's complement."""
    return digits - (digits >> digit_bits - 1 << digit_bits)
