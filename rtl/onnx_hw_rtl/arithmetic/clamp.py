"""Clamping of integers to bounds, one cycle later."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value


def saturate(m: Module, name: str, x: Value, shape: Shape) -> Signal:
    """Clamp x to a shape, one cycle later. Only the bits beyond the shape decide."""
    saturated = Signal(shape, name=f"{name}_saturated", reset_less=True)
    inside = shape.width - shape.signed  # number of bits below the sign; every bit above them must equal the sign
    sign = x[-1] if x.shape().signed else Const(0, 1)
    x = Cat(x, sign.replicate(max(1, inside + 1 - len(x))))
    beyond = x[inside:]
    fits = ~(beyond ^ sign.replicate(len(beyond))).any() if shape.signed else ~beyond.any()
    bound = (~sign).replicate(inside)
    m.d.sync += saturated.eq(Mux(fits, x[: shape.width], Cat(bound, sign) if shape.signed else bound))
    return saturated


def clamp(m: Module, name: str, value: Value, low: int, high: int) -> Signal:
    """Clamp a value to a range, one cycle later. The range may exceed what the value's shape holds."""
    return clamp_within(m, name, value, low, high, Shape.cast(range(low, high + 1)))


def clamp_within(m: Module, name: str, value: Value, low: int | Value, high: int | Value, shape: Shape) -> Signal:
    """Clamp a value to bounds that a shape holds, one cycle later."""
    clamped = Signal(shape, name=f"{name}_clamped", reset_less=True)
    m.d.sync += clamped.eq(Mux(value < low, low, Mux(value > high, high, value)))
    return clamped
