"""Operand of a matrix product: integers with one scale, or with scales per channel that are multiples of a common one.

    Σ s_c (x_c − z_c)·w_c = g Σ x_c·(n_c w_c) − Σ s_c z_c w_c        s_c = g·n_c

so that scales per channel cost wider weights, and zero points that are not integers cost nothing.
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

MAX_OPERAND_BITS = 18
"""Maximum width of an operand of a hardware multiplier, in bits."""

MAX_LINES = 1 << 14
"""Greatest number of outputs that may have an offset each: more of them take more memory than their weights."""

MAX_EXACT_BITS = 40
"""Maximum width of an exact operand of a matrix product, in bits: its products are made of look-up tables."""


def operand_of_product(builder: Builder, node: Node, k: int = 0) -> Real:
    """Return the data of a product, with slopes other than 0 and without bounds.

    Raises:
        Obstacle: The data must be quantized, to at most ``MAX_OPERAND_BITS`` bits, or ``MAX_EXACT_BITS`` where they
            are exact.
    """
    name, real = node.inputs[k], builder.real(node, k).unclipped(builder, node)
    if real.is_clipped or 0 in real.slope or real.rounded:
        raise _not_quantized(name)
    integer = builder.integer_type(real)
    most = MAX_EXACT_BITS if name in builder.exact else MAX_OPERAND_BITS
    if integer.bits > most:
        raise Obstacle(
            "not-quantized",
            f"the data `{name}` must be quantized to at most {most} bits; its integers have {integer.bits}",
            needs=name,
        )
    return real


def dequantized(builder: Builder, node: Node, k: int = 0) -> Real:
    """Return the data with one scale and one zero point, which need not be one of its integers.

    Raises:
        Obstacle: The data must be quantized with one scale.
    """
    real = operand_of_product(builder, node, k)
    if real.zero is None or len(set(real.slope)) > 1:
        raise _not_quantized(node.inputs[k])
    return real


def _not_quantized(name: str) -> Obstacle:
    return Obstacle(
        "not-quantized",
        f"the data `{name}` must be quantized here; put QuantizeLinear and DequantizeLinear before the node",
        needs=name,
    )


def with_integer_for_zero(builder: Builder, node: Node, real: Real) -> Real:
    """Return the data on integers in whose type there is one that stands for 0.

    Raises:
        Obstacle: The integers would have too many bits.
    """
    dtype = builder.integer_type(real)
    if real.zero_point is not None and dtype.min <= real.zero_point <= dtype.max:
        return real
    return from_zero(builder, node, real, "from_zero", 0)


def from_zero(builder: Builder, node: Node, real: Real, name: str, k: int) -> Real:
    """Return the data on integers whose 0 stands for 0.

    Args:
        name: suffix of the hardware node's name, behind the product's name.
        k: number of the product's input.

    Raises:
        Obstacle: The integers would have too many bits.
    """
    centered = real.counted_from_zero(builder, node, f"{node.label}/{name}", MAX_OPERAND_BITS)
    if centered is None:
        raise _not_quantized(node.inputs[k])
    return centered


@dataclass(frozen=True)
class OperandColumns:
    """Lines of the data, one for all columns or one each, that the columns of a matrix of weights are multiplied by."""

    slope: tuple[Fraction, ...]
    offset: tuple[Fraction, ...]

    def repeated(self, times: int) -> OperandColumns:
        """Return all columns, repeated ``times`` times."""
        slope, offset = (numbers * (1 if len(numbers) == 1 else times) for numbers in (self.slope, self.offset))
        return OperandColumns(slope, offset)

    def product(
        self, node: Node, weights: QuantizedConstant, matrix: np.ndarray, bias: tuple[Fraction, ...]
    ) -> tuple[np.ndarray, tuple[Fraction, ...], tuple[Fraction, ...]]:
        """Return the matrix (outputs, columns) that multiplies the integers, and the slope and offset of every output.

        Args:
            weights: weights with the scales of the outputs.
            matrix: integers of the weights (outputs, columns), of any signed dtype.
            bias: exact bias of every output.

        Raises:
            Obstacle: The scales of the data have no common divisor, or make the weights too wide.
        """
        common, factors = commensurable(self.slope)
        if len(matrix) > MAX_LINES and {*self.offset, *bias} == {0} and len(weights.scale) == len(factors) == 1:
            return matrix, (common * weights.scale[0],), (Fraction(0),)
        scales = weights.scale * len(matrix) if len(weights.scale) == 1 else weights.scale
        scaled = matrix.astype(np.int64) * factors if len(factors) > 1 else matrix
        if len(factors) > 1 and np.abs(scaled).max(initial=0) >> (MAX_OPERAND_BITS - 1):
            raise _not_quantized(node.inputs[0])
        sums = [Fraction(0)] * len(matrix)
        for number in set(self.offset):
            chosen = [offset == number for offset in self.offset] if len(self.offset) > 1 else slice(None)
            totals = matrix[:, chosen].sum(axis=1)
            sums = [sum_ + number * int(total) for sum_, total in zip(sums, totals, strict=True)]
        offset = tuple(b + s * sum_ for b, s, sum_ in zip(bias, scales, sums, strict=True))
        return scaled, tuple(common * s for s in scales), offset


def columns_of(real: Real, order: np.ndarray | None = None) -> OperandColumns:
    """Return the columns of data on a stream: one per channel, or, with an ``order`` of elements, one per element."""

    def per_column(numbers: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        if len(numbers) == 1 or order is None:
            return numbers
        return tuple(numbers[channel] for channel in (real.where[order] % len(numbers)).tolist())

    return OperandColumns(per_column(real.slope), per_column(real.offset))
