"""Real numbers that are linear in the integers on a stream."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import Self

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder, StreamValue
from onnx_hw.lower.obstacle import COARSE_TABLE, SCALES_MOVE, Obstacle
from onnx_hw.lower.quantizers import Quantizer
from onnx_hw.lower.values.channel_steps import ChannelSteps
from onnx_hw.lower.values.function_table import fine_table
from onnx_hw.lower.values.signed_product import signed_product
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.requantize import Requantize

MAX_EXACT_INTEGER = 1 << 53
"""Greatest integer up to which all integers of float64 are exact."""

MAX_TABLE_ERROR_IN_STEPS = Fraction(1, 1000)
"""Greatest error of tabled numbers, in steps of the quantizer that follows. Nearer to a tie than that, no
float computation tells which of two integers is right."""

MAX_SHIFTED_BITS = 20
"""Greatest width, in bits, of integers whose zero is shifted: the operator that makes them has a threshold for each."""

MAX_CLAMPED_INTEGERS = 1 << 16
"""Greatest number of integers in the range of a tensor that is clamped."""


@dataclass(frozen=True)
class Real(StreamNumbers):
    """Real numbers ``clip(slope[c] · x + offset[c], low, high)`` of the integers x on a stream, c being the channel.

    Attributes:
        slope, offset: exact, one entry or one per channel; slopes are not negative.
        error: upper bound of the difference between a number and the exact one of the model, where a table rounds it.
        rounded: the same, where the definition of a normalization names the roundings.
    """

    rises: bool = field(default=True, kw_only=True)
    slope: tuple[Fraction, ...] = (Fraction(1),)
    offset: tuple[Fraction, ...] = (Fraction(0),)
    error: Fraction = Fraction(0)
    rounded: Fraction = Fraction(0)

    @property
    def zero(self) -> Fraction | None:
        """Position of the number 0 among the integers, perhaps a fraction.

        None where channels differ, the numbers have bounds or a slope is 0.
        """
        if self.is_clipped or 0 in self.slope:
            return None
        zeros = {-offset / slope for slope, offset in set(self.lines())}
        return zeros.pop() if len(zeros) == 1 else None

    @property
    def zero_point(self) -> int | None:
        """Integer that stands for 0; None where no integer does so in all channels, or numbers have bounds."""
        return int(self.zero) if self.zero is not None and self.zero.denominator == 1 else None

    @property
    def has_one_scale(self) -> bool:
        return len(set(self.slope)) == len(set(self.offset)) == 1

    @property
    def scale_key(self) -> Hashable | None:
        if len(self.slope) > 1 or len(self.offset) > 1:
            return None
        return self.slope, self.offset, self.low, self.high

    def broadcast(self, numbers: tuple[Fraction, ...]) -> np.ndarray:
        """Return one number, or one per channel of the stream, as float64 that broadcasts to the shape."""
        array = np.array([float(number) for number in numbers])
        if len(numbers) == 1:
            return array.reshape(())
        return np.asarray(array[self.where % len(numbers)].reshape(self.shape))

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        """Return the real numbers of integers (1 or channels, n), float64 (1 or channels, n).

        They are computed relative to the integer nearest to the number 0, so that no digits cancel:
        ``slope · (x − z)`` with a zero point z is exact for scales that were float32.
        """
        lines = self.lines()
        nearest = [round(-o / s) if s else 0 for s, o in lines]
        zero = [z if abs(z) < MAX_EXACT_INTEGER else 0 for z in nearest]  # at such a distance no digits cancel
        rest = np.array([[float(o + s * z)] for (s, o), z in zip(lines, zero, strict=True)])
        result = np.array([[float(s)] for s, _ in lines]) * (integers - np.array(zero)[:, None]) + rest
        low = -np.inf if self.low is None else float(self.low)
        return np.clip(result, low, np.inf if self.high is None else float(self.high))

    def lines(self) -> list[tuple[Fraction, Fraction]]:
        """Return (slope, offset), one pair or one per channel."""
        size = max(len(self.slope), len(self.offset))
        slope, offset = (v * size if len(v) == 1 else v for v in (self.slope, self.offset))
        return list(zip(slope, offset, strict=True))

    def keeps_order(self, builder: NetworkBuilder) -> bool:
        return not self.partial

    def least(self, builder: NetworkBuilder) -> Fraction | float:
        first, _ = builder.materialize(self).range
        low = min(slope * first + offset for slope, offset in self.lines())
        return low if self.low is None else max(low, self.low)

    def ends(self, builder: NetworkBuilder) -> list[Fraction]:
        first, last = builder.materialize(self).range
        return [self._clipped(slope * x + offset) for slope, offset in self.lines() for x in (first, last)]

    def _clipped(self, number: Fraction) -> Fraction:
        number = number if self.low is None else max(number, self.low)
        return number if self.high is None else min(number, self.high)

    def integer_for(self, builder: NetworkBuilder, number: Fraction | float) -> int | None:
        if isinstance(number, float) or self.partial or self.is_clipped:
            return None
        lines = set(self.lines())
        slope, offset = lines.pop()
        if lines or slope == 0:
            return None
        integer, dtype = (number - offset) / slope, builder.integer_type(self)
        return int(integer) if integer.denominator == 1 and dtype.min <= integer <= dtype.max else None

    # ---- elements at other positions --------------------------------------------------------------------------------

    def differs_by_channel(self, builder: NetworkBuilder) -> bool:
        builder.materialize(self)
        return len(set(self.slope)) > 1 or len(set(self.offset)) > 1

    def moved_by(
        self, builder: NetworkBuilder, node: Node, shape: tuple[int, ...], layout: Layout, source: np.ndarray
    ) -> Self:
        slope, offset = (_per_new_channel(v, source, layout.shape[2], node) for v in (self.slope, self.offset))
        return replace(self, shape=shape, where=layout.where, slope=slope, offset=offset)

    def concatenated_as(
        self, tensor: str, shape: tuple[int, ...], where: np.ndarray, parts: Sequence[StreamValue]
    ) -> Self:
        reals = [part for part in parts if isinstance(part, Real)]
        error, rounded = max(real.error for real in reals), max(real.rounded for real in reals)
        return replace(self, tensor=tensor, shape=shape, where=where, error=error, rounded=rounded)

    # ---- quantizers -------------------------------------------------------------------------------------------------

    def requantized_whole(
        self, builder: NetworkBuilder, node: Node, grid: Grid, *, name: str, output: str
    ) -> IntegerStream:
        dtype = grid.dtype
        if set(self.lines()) == set(grid.lines()) and builder.integer_type(self) == dtype:
            low, high = builder.materialize(self).range if self.is_clipped else (dtype.min, dtype.max)
            if grid.low <= low and high <= grid.high:
                return IntegerStream(self.tensor, self.shape, self.where)
        if self.error > MAX_TABLE_ERROR_IN_STEPS * grid.step[0]:
            raise Obstacle(
                COARSE_TABLE,
                f"sums of a function's numbers must be within {float(MAX_TABLE_ERROR_IN_STEPS):g} of a step of "
                f"`{node.inputs[0]}`, {float(grid.step[0]):g}; from a table they may be {float(self.error):g} off",
                "put QuantizeLinear and DequantizeLinear behind the function, or quantize its sum with a larger scale",
            )
        if self.rounded:
            builder.approximate[node.outputs[0]] = float(self.rounded / grid.step[0])
        bounded = builder.loadable and self.high is not None  # scales of other weights may bring it into the range
        operator = Requantize(builder.materialize(self), self.slope, self.offset, grid, bounded=bounded)
        tensor = builder.add(name, operator, [self.tensor], node, output=output)
        return IntegerStream(tensor, self.shape, builder.positions(self))

    def quantized_in_steps(self, builder: NetworkBuilder, node: Node, quantizer: Quantizer) -> IntegerStream:
        if self.error or self.rounded:  # a rounded number of a table may be on the wrong side of an edge
            raise builder.obstacle(node)
        return super().quantized_in_steps(builder, node, quantizer)

    def stepped(self, builder: NetworkBuilder, node: Node, steps: ChannelSteps) -> IntegerStream:
        operator = steps.operator(builder.materialize(self), self)
        tensor = builder.add(node.label, operator, [self.tensor], node, output=node.outputs[0])
        return IntegerStream(tensor, self.shape, builder.positions(self))

    # ---- other lines ------------------------------------------------------------------------------------------------

    def negated(self, builder: NetworkBuilder, node: Node) -> Real | None:
        return None if self.error else self.scaled(builder, node, (Fraction(-1),), (Fraction(0),))

    def scaled(
        self, builder: NetworkBuilder, node: Node, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...]
    ) -> Real | None:
        real = self
        if any(factor <= 0 for factor in factors):
            negated = None if self.is_clipped else self._with_signs(builder, node, factors)
            if negated is None:
                return None
            real = negated
        elif self.is_clipped and (len(factors) > 1 or len(terms) > 1):
            return None
        low, high = (None if bound is None else bound * factors[0] + terms[0] for bound in (real.low, real.high))
        size = max(len(factors), len(terms), len(real.slope), len(real.offset))
        slope, offset, factors, terms = (_repeated(v, size) for v in (real.slope, real.offset, factors, terms))
        return replace(
            real,
            slope=tuple(abs(a * f) for a, f in zip(slope, factors, strict=True)),
            offset=tuple(o * f + t for o, f, t in zip(offset, factors, terms, strict=True)),
            low=low,
            high=high,
            error=real.error * max(abs(factor) for factor in factors),
            rounded=real.rounded * max(abs(factor) for factor in factors),
        )

    def _with_signs(self, builder: NetworkBuilder, node: Node, factors: tuple[Fraction, ...]) -> Real | None:
        """Build the sums of a product, negated in channels with a negative factor; None for other numbers."""
        channels = builder.materialize(self).channels
        signs = np.array([-1 if factor < 0 else 1 for factor in _repeated(factors, channels)])
        tensor = signed_product(builder, node, self.tensor, signs)
        return None if tensor is None else replace(self, tensor=tensor)

    def unclipped(self, builder: NetworkBuilder, node: Node) -> Real:
        """Build the same numbers without bounds, on clamped integers where integers stand for the bounds.

        Return the numbers with their bounds where that is impossible.
        """
        if not self.is_clipped or self.partial:
            return self
        real = self
        first, last = builder.materialize(real).range
        lines = set(real.lines())
        if real.low is not None and all(slope * first + offset >= real.low for slope, offset in lines):
            real = replace(real, low=None)
        if real.high is not None and all(slope * last + offset <= real.high for slope, offset in lines):
            real = replace(real, high=None)
        slope, offset = lines.pop()
        if not real.is_clipped or lines or slope == 0 or last - first >= MAX_CLAMPED_INTEGERS:
            return real
        low, high = (
            Fraction(end) if bound is None else (bound - offset) / slope
            for bound, end in ((real.low, first), (real.high, last))
        )
        dtype = builder.integer_type(real)
        if low.denominator != 1 or high.denominator != 1 or not dtype.min <= low <= high <= dtype.max:
            return real
        operand = builder.tensors[real.tensor]
        clamp = Requantize(operand, (Fraction(1),), (Fraction(0),), Grid.over(dtype).within(int(low), int(high)))
        stream = builder.add(f"{node.label}/clamp", clamp, [real.tensor], node)
        return replace(real, tensor=stream, where=builder.positions(real), low=None, high=None)

    def counted_from_zero(
        self, builder: NetworkBuilder, node: Node, name: str, max_bits: int = MAX_SHIFTED_BITS
    ) -> Real | None:
        """Build the numbers on integers whose 0 stands for the number 0.

        Where no integer stood for 0, the new steps are a fraction of the old ones. None where the new integers need
        more than ``max_bits`` bits, since a bias may be any fraction of a step.

        Args:
            name: name of the hardware node.
        """
        zeros = [-offset / slope for slope, offset in self.lines()]
        parts = lcm(*(zero.denominator for zero in zeros))
        shifts = tuple(-zero * parts for zero in (zeros if len(set(zeros)) > 1 else zeros[:1]))
        tensor = builder.materialize(self)
        first, last = (parts * bound for bound in tensor.range)
        low, high = int(first + min(shifts)), int(last + max(shifts))
        dtype = Int.holding(min(low, 0), max(high, 0))
        if dtype.bits > max_bits:
            return None
        grid = Grid.over(dtype).within(low, high)
        stream = builder.add(name, Requantize(tensor, (Fraction(parts),), shifts, grid), [self.tensor], node)
        slope = tuple(number / parts for number in self.slope)
        return replace(self, tensor=stream, where=builder.positions(self), slope=slope, offset=(Fraction(0),))

    def as_summands(self, builder: NetworkBuilder, node: Node, *, zeros: bool) -> Real:
        if not self.partial and not self.rounded:
            real = self.unclipped(builder, node)
            if not real.is_clipped and not (zeros and real.zero_point is None):
                return real
            approximation = tabled(builder, node, real)
            if approximation is not None:
                return approximation
        raise builder.obstacle(node)


def tabled(builder: NetworkBuilder, node: Node, value: StreamNumbers) -> Real | None:
    """Build the numbers of a function that a node sums up, rounded to multiples of a power of two by a table.

    None where the function has too many arguments for a table.
    """
    table = fine_table(builder, node, value)
    if table is None:
        return None
    tensor, step = table
    return Real(tensor, value.shape, builder.positions(value), (step,), error=step / 2)


def summed(builder: NetworkBuilder, node: Node, *, zeros: bool = False) -> Real:
    """Build the data of an average or a sum, without bounds; a function of few integers becomes a fine table of them.

    Args:
        zeros: whether zeros are added, too; then an integer must stand for 0.

    Raises:
        Obstacle: the data must be quantized.
    """
    name = node.inputs[0]
    value = builder.values.get(name) or builder.pending.get(name)
    if value is None:
        raise builder.obstacle(node)
    real: Real = value.as_summands(builder, node, zeros=zeros)
    return real


def _per_new_channel(
    numbers: tuple[Fraction, ...], source: np.ndarray, channels: int, node: Node
) -> tuple[Fraction, ...]:
    """Return the numbers of the result's channels, given those of the channels that its elements come from."""
    if len(numbers) == 1:
        return numbers
    from_channel = np.where(source >= 0, source % len(numbers), -1).reshape(-1, channels)
    per_channel = []
    for column in from_channel.T:
        in_channel = {numbers[channel] for channel in set(column.tolist()) - {-1}}
        if len(in_channel) > 1:
            raise Obstacle(
                SCALES_MOVE,
                f"the data `{node.inputs[0]}` of {node.op_type} must have one scale, not one per channel",
                "put QuantizeLinear and DequantizeLinear before it",
            )
        per_channel.append(in_channel.pop() if in_channel else numbers[0])
    return tuple(per_channel)


def _repeated(values: tuple[Fraction, ...], size: int) -> tuple[Fraction, ...]:
    return values * size if len(values) == 1 else values
