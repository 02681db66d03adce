"""One product per cycle, of one kind of multiplier or the other."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Shape, Value

from onnx_hw_rtl.arithmetic.constant_multiplier import ConstantMultiplier
from onnx_hw_rtl.arithmetic.multiplier import Multiplier
from onnx_hw_rtl.arithmetic.soft_multiplier import SoftMultiplier
from onnx_hw_rtl.parts.delay_line import delayed

__all__ = ["product"]


def product(
    m: Module, name: str, a: Value, b: Value, shapes: tuple[Shape, Shape], *, latency: int, in_logic: bool
) -> Value:
    """``a · b``, ``latency`` cycles later, no less than a hardware multiplier has; registers fill it up.

    Args:
        shapes: what the bits of a and of b mean.
        in_logic: of look-up tables; b may then be a ``Const``, and the product costs what its value does.
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
