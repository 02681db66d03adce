"""What an ONNX value is to the importer: integers on streams, or real numbers that integers on streams stand for.

Layout is an explicit index array. Every hardware tensor has a *base* order; ``where`` maps each flat index of the ONNX
value, in its logical shape, to a position of that base. Reshape and Transpose only change ``where`` and ``shape``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

MOST_EXACT = 1 << 53
"""Integers of float64 up to here are exact."""


@dataclass(frozen=True)
class IntegerStream:
    """Integers on a stream.

    Attributes:
        tensor: the hardware tensor.
        shape: of the ONNX value.
        where: (size,) int64: logical flat index -> position in the tensor's base order.
    """

    tensor: str
    shape: tuple[int, ...]
    where: np.ndarray = field(repr=False)


Bound = Fraction | None


@dataclass(frozen=True, kw_only=True)
class Clipped:
    """Bounds on real numbers.

    Attributes:
        low, high: bounds, or None.
    """

    low: Bound = None
    high: Bound = None

    @property
    def clipped(self) -> bool:
        return self.low is not None or self.high is not None

    def clip(self, low: Bound, high: Bound) -> Self:
        """min(max(value, low), high): the bounds so far pass through it like every value."""

        def bounded(value: Fraction) -> Fraction:
            value = value if low is None else max(value, low)
            return value if high is None else min(value, high)

        bounds = (low if self.low is None else self.low, high if self.high is None else self.high)
        new_low, new_high = (None if bound is None else bounded(bound) for bound in bounds)
        return replace(self, low=new_low, high=new_high)


@dataclass(frozen=True)
class Real(Clipped):
    """Real numbers: ``clip(slope[c] · x + offset[c], low, high)`` of the integers x on a stream, c its channel.

    Attributes:
        tensor, shape, where: as of ``IntegerStream``.
        slope, offset: exact, one entry or one per channel; slopes are not negative.
        error: how far a number may be from what the model means, where it is made of a table of rounded numbers.
        partial: ``where`` leaves positions out or repeats them. Nothing has moved yet: the quantized integers will,
            which have one scale.
    """

    tensor: str
    shape: tuple[int, ...]
    where: np.ndarray = field(repr=False)
    slope: tuple[Fraction, ...] = (Fraction(1),)
    offset: tuple[Fraction, ...] = (Fraction(0),)
    partial: bool = False
    error: Fraction = Fraction(0)

    @property
    def zero(self) -> Fraction | None:
        """The place of the number 0 among the integers, if all channels agree and nothing is clipped."""
        if self.clipped or 0 in self.slope:
            return None
        zeros = {-offset / slope for slope, offset in set(self.lines())}
        return zeros.pop() if len(zeros) == 1 else None

    @property
    def zero_point(self) -> int | None:
        """The integer that stands for 0, if one does and all channels agree and nothing is clipped."""
        return int(self.zero) if self.zero is not None and self.zero.denominator == 1 else None

    def whole(self, size: int) -> Real:
        """All numbers of the tensor, of so many elements, in its order."""
        return replace(self, shape=(size,), where=np.arange(size), partial=False)

    def spread(self, numbers: tuple[Fraction, ...]) -> np.ndarray:
        """One number, or one per channel of the stream, float64: as it is broadcast to the shape."""
        array = np.array([float(number) for number in numbers])
        if len(numbers) == 1:
            return array.reshape(())
        return np.asarray(array[self.where % len(numbers)].reshape(self.shape))

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        """The real numbers of integers (1 or channels, n), float64 (1 or channels, n).

        They are counted from the integer next to the number 0, so that nothing cancels out:
        ``slope · (x − z)`` with a zero point z is exact for scales that were float32.
        """
        lines = self.lines()
        nearest = [round(-o / s) if s else 0 for s, o in lines]
        zero = [z if abs(z) < MOST_EXACT else 0 for z in nearest]  # so far away nothing can cancel out
        rest = np.array([[float(o + s * z)] for (s, o), z in zip(lines, zero, strict=True)])
        result = np.array([[float(s)] for s, _ in lines]) * (integers - np.array(zero)[:, None]) + rest
        low = -np.inf if self.low is None else float(self.low)
        return np.clip(result, low, np.inf if self.high is None else float(self.high))

    def lines(self) -> list[tuple[Fraction, Fraction]]:
        """(slope, offset), one pair or one per channel."""
        size = max(len(self.slope), len(self.offset))
        slope, offset = (v * size if len(v) == 1 else v for v in (self.slope, self.offset))
        return list(zip(slope, offset, strict=True))


Pieces = tuple[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], ...]
"""(slope, offset) of several lines."""


@dataclass(frozen=True)
class FunctionValue(Clipped):
    """Real numbers: any function of the integers on a stream, element by element. ``numbers`` has its bounds.

    Attributes:
        tensor, shape, where: as of ``IntegerStream``.
        numbers: integers (1 or channels, n) to float64 (1 or channels, n).
        partial: as of ``Real``.
        rises: a greater integer surely stands for no smaller number.
        pieces: the lines, with slopes and offsets as of ``Real``, whose greatest number each number is; or empty.
    """

    tensor: str
    shape: tuple[int, ...]
    where: np.ndarray = field(repr=False)
    numbers: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    partial: bool = False
    rises: bool = False
    pieces: Pieces = ()

    def whole(self, size: int) -> FunctionValue:
        """All numbers of the tensor, of so many elements, in its order."""
        return replace(self, shape=(size,), where=np.arange(size), partial=False)

    def clip(self, low: Bound, high: Bound) -> FunctionValue:
        """min(max(value, low), high)."""
        before = self.numbers
        bounds = -np.inf if low is None else float(low), np.inf if high is None else float(high)
        return replace(super().clip(low, high), numbers=lambda integers: np.clip(before(integers), *bounds))


@dataclass(frozen=True)
class PendingSum(Clipped):
    """Real numbers: ``clip(a ± b, low, high)`` of two tensors, which are integers with one scale each.

    Attributes:
        a, b: the operands: of one shape, in one order, without bounds.
        sign: of ``b``: 1 or −1.
    """

    a: Real
    b: Real
    sign: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape


@dataclass(frozen=True)
class PendingProduct(Clipped):
    """Real numbers: ``clip(a · b, low, high)`` of two tensors, which are integers with a scale and a zero point each.

    Attributes:
        a, b: the operands: of one shape, in one order, without bounds.
    """

    a: Real
    b: Real

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape


@dataclass(frozen=True)
class Joined(Clipped):
    """Real numbers: tensors one behind the other along an axis, each with a meaning of its own.

    Attributes:
        parts: the tensors.
        axis: of their ONNX shapes.
        shape: of the whole.
    """

    parts: tuple[Real | FunctionValue, ...]
    axis: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Surrounded:
    """Real numbers: those of another value with one constant between or around them.

    Attributes:
        value: the other.
        origin: flat index in ``value`` of each element; -1 for the constant. It has the shape of the whole.
        fill: the constant; it may be infinite.
    """

    value: Operand
    origin: np.ndarray = field(repr=False)
    fill: Fraction | float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.origin.shape

    def clip(self, low: Bound, high: Bound) -> Surrounded:
        """min(max(value, low), high), of every element by itself."""
        fill = self.fill if low is None else max(self.fill, low)
        fill = fill if high is None else min(fill, high)
        return replace(self, value=self.value.clip(low, high), fill=fill)


@dataclass(frozen=True)
class Extrema:
    """Real numbers: each the greatest or the least of some of another value's. Integers of a scale have their order.

    Attributes:
        value: the other.
        shape: of the result.
        of_integers: (builder, the integers that ``value`` became) to the same of those.
    """

    value: Operand
    shape: tuple[int, ...]
    of_integers: Callable[[Any, Any], Any] = field(repr=False)

    def clip(self, low: Bound, high: Bound) -> Extrema:
        """min(max(value, low), high): no matter whether before or after."""
        return replace(self, value=self.value.clip(low, high))


Pending = PendingSum | PendingProduct | Joined | Surrounded | Extrema
"""Values that hardware makes when they are quantized: of several tensors, or of integers that are still to come."""

Operand = Real | FunctionValue | Pending
"""Real numbers of any kind."""


def tensors_of(value: Operand) -> list[Real | FunctionValue]:
    """What a value is made of."""
    match value:
        case Real() | FunctionValue():
            return [value]
        case PendingSum() | PendingProduct():
            return [value.a, value.b]
        case Joined():
            return list(value.parts)
        case Surrounded() | Extrema():
            return tensors_of(value.value)


@dataclass(frozen=True)
class QuantizedConstant:
    """A constant as it is stored: ``scale · (integers − zero_point)`` along an axis.

    Attributes:
        integers: int64, in the constant's shape, the zero point already subtracted.
        scale: exact, not negative, one entry or one per index of ``axis``.
        axis: of the scales.
    """

    integers: np.ndarray
    scale: tuple[Fraction, ...]
    axis: int = 0

    def exact(self) -> np.ndarray:
        """The real numbers, an object array of ``Fraction`` in the constant's shape."""
        scale = np.array(self.scale, dtype=object)
        if len(self.scale) > 1:
            scale = scale.reshape([-1 if k == self.axis else 1 for k in range(self.integers.ndim)])
        return np.asarray(self.integers.astype(object) * scale, dtype=object).reshape(self.integers.shape)
