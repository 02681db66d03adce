"""Choice of the multiplier for one product per cycle."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Shape, Value

from onnx_hw_rtl.arithmetic.constant_multiplier import ConstantMultiplier
from onnx_hw_rtl.arithmetic.multiplier import Multiplier
from onnx_hw_rtl.arithmetic.soft_multiplier import SoftMultiplier, latency_of
from onnx_hw_rtl.parts.delay_line import delayed

HARD_LATENCY = Multiplier.LATENCY + 1
"""Latency of a product in a hardware multiplier, with a register in fabric behind it."""


def product_latency(a: Shape, b: Shape, *, in_logic: bool) -> int:
    """Return the latency that a product should have, in cycles."""
    return latency_of(a.width, b.width) if in_logic else HARD_LATENCY


def product(
    m: Module, name: str, a: Value, b: Value, shapes: tuple[Shape, Shape], *, latency: int, in_logic: bool
) -> Value:
    """Return ``a · b``, ``latency`` cycles later.

    Args:
        shapes: shapes of a and b; they say whether the bits are signed.
        latency: cycles; for a hardware multiplier not fewer than it has, further registers make up the difference.
        in_logic: whether the product is made of look-up tables. Then b may be a ``Const``, and the cost of the product
            depends on its value.
    """
    (a_bits, a_signed), (b_bits, b_signed) = ((shape.width, shape.signed) for shape in shapes)
    if not in_logic:
        more = latency - Multiplier.LATENCY
        hard = Multiplier(a_bits, b_bits, a_signed=a_signed, b_signed=b_signed, delayed=more > 0)
        m.submodules[f"lane{name}"] = hard
        m.d.comb += [hard.a.eq(a), hard.b.eq(b)]
        return delayed(m, hard.p, more, f"product{name}")
    if isinstance(b, Const):
        if b.value == 0:
            return Const(0, 1)
        fixed = ConstantMultiplier(a_bits, b.value, signed=a_signed, latency=latency)
        m.submodules[f"lane{name}"] = fixed
        m.d.comb += fixed.a.eq(a)
        return fixed.p
    soft = SoftMultiplier(a_bits, b_bits, a_signed=a_signed, b_signed=b_signed, latency=latency)
    m.submodules[f"lane{name}"] = soft
    m.d.comb += [soft.a.eq(a), soft.b.eq(b)]
    return soft.p
