"""What stands for the real numbers of one tensor becomes integers of a scale."""

from __future__ import annotations

from fractions import Fraction

from onnx_hw.exact.integers import Int
from onnx_hw.exact.steps import round_half_even
from onnx_hw.onnx.model import Node
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantize.builder import Builder
from onnx_hw.quantize.lower.functions import quantize_function
from onnx_hw.quantize.values import Clipped, Function, Integers, Real


def clipped(value: Clipped, step: Fraction, zero_point: int, bounds: tuple[int, int]) -> tuple[int, int]:
    """The bounds of a value as integers within ``bounds``.

    A clip commutes with rounding, which is monotone: the bound is rounded like everything else.
    """

    def rounded(bound: Fraction | None, otherwise: int) -> int:
        if bound is None:
            return otherwise
        return min(max(round_half_even(bound / step) + zero_point, bounds[0]), bounds[1])

    return rounded(value.low, bounds[0]), rounded(value.high, bounds[1])


def quantize_tensor(
    builder: Builder,
    node: Node,
    value: Real | Function,
    step: Fraction,
    zero_point: int,
    bounds: tuple[int, int],
    dtype: Int,
    *,
    name: str,
    output: str = "",
) -> Integers:
    """Integers of a tensor: those it has, if they stand for the same numbers, or others.

    Args:
        node: the QuantizeLinear.
        name, output: of the hardware node and its tensor.
    """
    if value.partial:
        whole = value.whole(builder.tensors[value.tensor].size)
        integers = quantize_tensor(builder, node, whole, step, zero_point, bounds, dtype, name=name, output=output)
        return builder.moved(integers, value.where, value.shape, node)
    if isinstance(value, Function):
        return quantize_function(builder, node, value, step, zero_point, bounds, dtype, name=name, output=output)
    if (
        set(value.slope) == {step}
        and set(value.offset) == {-step * zero_point}
        and builder.integer_type(value) == dtype
    ):
        low, high = builder.settled(value).range if value.clipped else (dtype.min, dtype.max)
        if bounds[0] <= low and high <= bounds[1]:
            return Integers(value.tensor, value.shape, value.where)
    operator = Requantize(
        builder.settled(value),
        tuple(slope / step for slope in value.slope),
        tuple(offset / step for offset in value.offset),
        *bounds,
        zero_point,
        dtype,
    )
    tensor = builder.add(name, operator, [value.tensor], node, output=output)
    return Integers(tensor, value.shape, builder.positions(value))
