"""The data of a product: integers with one scale, or with scales per channel that are multiples of a common one.

    Σ s_c (x_c − z_c)·w_c = g Σ x_c·(n_c w_c) − Σ s_c z_c w_c        s_c = g·n_c

so that scales per channel cost wider weights, and zero points that are no integers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_hw.exact.rationals import commensurable
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node

WIDEST = 18
"""Bits of an operand of a hardware multiplier."""


def operand_of_product(builder: Builder, node: Node, k: int = 0) -> Real:
    """The data: any slopes that are not 0, no bounds.

    Raises:
        Obstacle: it must be quantized.
    """
    name, real = node.inputs[k], builder.real(node, k).unclipped(builder, node)
    if real.is_clipped or 0 in real.slope:
        raise _not_quantized(name)
    integer = builder.integer_type(real)
    if integer.bits > WIDEST:
        raise Obstacle(
            "not-quantized",
            f"the data `{name}` must be quantized to {WIDEST} bits at most, not left at {integer.bits}",
            needs=name,
        )
    return real


def dequantized(builder: Builder, node: Node, k: int = 0) -> Real:
    """The data with one scale and one zero point, which need not be one of its integers."""
    real = operand_of_product(builder, node, k)
    if real.zero is None or len(set(real.slope)) > 1:
        raise _not_quantized(node.inputs[k])
    return real


def _not_quantized(name: str) -> Obstacle:
    return Obstacle(
        "not-quantized",
        f"the data `{name}` must be quantized here: QuantizeLinear and DequantizeLinear are missing",
        needs=name,
    )


def with_integer_for_zero(builder: Builder, node: Node, real: Real) -> Real:
    """The data so that an integer of its type stands for 0.

    Raises:
        Obstacle: that takes too many bits.
    """
    dtype = builder.integer_type(real)
    if real.zero_point is not None and dtype.min <= real.zero_point <= dtype.max:
        return real
    return from_zero(builder, node, real, "from_zero", 0)


def from_zero(builder: Builder, node: Node, real: Real, name: str, k: int) -> Real:
    """The data so that 0 stands for 0.

    Args:
        name: what its hardware node is called after the product's name.
        k: number of the product's input.

    Raises:
        Obstacle: that takes too many bits.
    """
    finer = real.counted_from_zero(builder, node, f"{node.label}/{name}", WIDEST)
    if finer is None:
        raise _not_quantized(node.inputs[k])
    return finer


@dataclass(frozen=True)
class OperandColumns:
    """What each column of a matrix of weights is multiplied by.

    Attributes:
        slope, offset: of the data, one for all columns or one per column.
    """

    slope: tuple[Fraction, ...]
    offset: tuple[Fraction, ...]

    def repeated(self, times: int) -> OperandColumns:
        """All columns, so many times."""
        slope, offset = (numbers * (1 if len(numbers) == 1 else times) for numbers in (self.slope, self.offset))
        return OperandColumns(slope, offset)

    def product(
        self, node: Node, weights: QuantizedConstant, matrix: np.ndarray, bias: tuple[Fraction, ...]
    ) -> tuple[np.ndarray, tuple[Fraction, ...], tuple[Fraction, ...]]:
        """The matrix (outputs, columns) whose products with integers are to be summed, slope and offset per output.

        Args:
            weights: whose scales the outputs have.
            matrix: their integers.
            bias: of every output.

        Raises:
            Obstacle: scales have no common one, or make the weights too wide.
        """
        scales = weights.scale * len(matrix) if len(weights.scale) == 1 else weights.scale
        common, factors = commensurable(self.slope)
        scaled = matrix * factors if len(factors) > 1 else matrix
        if len(factors) > 1 and np.abs(scaled).max(initial=0) >> (WIDEST - 1):
            raise _not_quantized(node.inputs[0])
        sums = [Fraction(0)] * len(matrix)
        for number in set(self.offset):
            chosen = [offset == number for offset in self.offset] if len(self.offset) > 1 else slice(None)
            totals = matrix[:, chosen].sum(axis=1)
            sums = [sum_ + number * int(total) for sum_, total in zip(sums, totals, strict=True)]
        offset = tuple(b + s * sum_ for b, s, sum_ in zip(bias, scales, sums, strict=True))
        return scaled, tuple(common * s for s in scales), offset


def columns_of(real: Real, order: np.ndarray | None = None) -> OperandColumns:
    """Of data on a stream: for each of its channels, or for the elements in an order if there is one."""

    def each(numbers: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        if len(numbers) == 1 or order is None:
            return numbers
        return tuple(numbers[channel] for channel in (real.where[order] % len(numbers)).tolist())

    return OperandColumns(each(real.slope), each(real.offset))
