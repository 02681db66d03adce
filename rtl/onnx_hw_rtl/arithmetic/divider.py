"""Restoring division with rounding half to even: one subtraction for each bit of the quotient.

For a numerator n and a denominator d > 0 with n < d · 2^bits, the remainder r of each step satisfies 0 ≤ r < d; this
invariant is the proof. At the end 2·r against d decides the rounding: up where 2·r + (the lowest bit of the quotient)
exceeds d. Where n ≥ d · 2^bits the quotient is 2^bits. A comparison finds that out, unless n ≤ d · 2^bits is known:
then n = d · 2^bits leaves r = d in every step and bits of 1 alone, which are rounded up to 2^bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from onnx_hw_rtl.parts.delay_line import delayed


@dataclass(frozen=True)
class Division:
    """State of a division between two steps.

    Attributes:
        remainder: as wide as the denominator.
        left: bits of the numerator that follow, the next one on top.
        quotient: bits so far, the first one on top; None before the first.
        overflow: the numerator is 2^bits times the denominator or more; 0 where it is known not to be more.
    """

    remainder: Value
    left: Value
    quotient: Value | None
    overflow: Value


def begin(numerator: Value, denominator: Value, bits: int, *, saturates: bool = True) -> Division:
    """Return the state before the first step; ``bits`` are those of the quotient. It is combinational.

    Args:
        saturates: whether the numerator may be more than 2^bits times the denominator.
    """
    whole = Cat(numerator, Const(0, max(0, bits + len(denominator) - len(numerator))))
    high = whole[bits:]
    overflow = ~(high < denominator) if saturates else Const(0, 1)
    return Division(high[: len(denominator)], whole[:bits], None, overflow)


def step(state: Division, denominator: Value) -> Division:
    """Return the state after one step. It is combinational."""
    doubled = Cat(state.left[-1], state.remainder)
    difference = doubled - denominator  # a bit wider than ``doubled``, and signed
    fits = ~difference[len(doubled)]
    remainder = Mux(fits, difference[: len(denominator)], doubled[: len(denominator)])
    quotient = fits if state.quotient is None else Cat(fits, state.quotient)
    return Division(remainder, state.left[:-1], quotient, state.overflow)


def rounded(m: Module, state: Division, denominator: Value, name: str) -> Signal:
    """Return the quotient, rounded half to even, one cycle later and a bit wider; 2^bits after an overflow."""
    assert state.quotient is not None
    up = denominator < Cat(state.quotient[0], state.remainder)
    bits = len(state.quotient)
    result = Signal(bits + 1, name=f"{name}_rounded", reset_less=True)
    m.d.sync += result.eq(Mux(state.overflow, 1 << bits, state.quotient + up))
    return result


def _registered(m: Module, state: Division, name: str) -> Division:
    quotient = None if state.quotient is None else delayed(m, state.quotient, 1, f"{name}_quotient")
    left = delayed(m, state.left, 1, f"{name}_left") if len(state.left) else state.left
    remainder = delayed(m, state.remainder, 1, f"{name}_remainder")
    overflow = state.overflow
    if not isinstance(overflow, Const):
        overflow = delayed(m, overflow, 1, f"{name}_overflow")
    return Division(remainder, left, quotient, overflow)


def delayed_denominators(m: Module, denominator: Value, bits: int) -> list[Value]:
    """Return a denominator in the stages of ``divide_in_pipeline``, several of which may share it."""
    stages = [denominator]
    for stage in range(bits + 1):
        stages.append(delayed(m, stages[-1], 1, f"denominator{stage}"))
    return stages


def divide_in_pipeline(
    m: Module, name: str, numerator: Value, denominators: Sequence[Value], bits: int, *, saturates: bool = True
) -> Signal:
    """Return the rounded quotient, ``bits`` + 2 cycles later; a division may begin in every cycle.

    Args:
        denominators: what ``delayed_denominators`` gives.
        saturates: see ``begin``.
    """
    state = _registered(m, begin(numerator, denominators[0], bits, saturates=saturates), f"{name}_begin")
    for stage in range(bits):
        state = _registered(m, step(state, denominators[1 + stage]), f"{name}_step{stage}")
    return rounded(m, state, denominators[1 + bits], name)


def divide_in_steps(
    m: Module,
    name: str,
    numerator: Value,
    denominators: tuple[Value, Value],
    bits: int,
    *,
    first: Value,
    strobe: Value,
    saturates: bool = True,
) -> Signal:
    """Return the rounded quotient, 2 cycles after the last of ``bits`` steps.

    Args:
        numerator: counts in the first step alone.
        denominators: that of every step, and the same a cycle later.
        first: the step in this cycle is the first one of a division.
        strobe: there is a step in this cycle; steps need not follow one another without a pause.
        saturates: see ``begin``.
    """
    denominator, last_denominator = denominators
    begun = begin(numerator, denominator, bits, saturates=saturates)
    remainder = Signal(len(denominator), name=f"{name}_remainder", reset_less=True)
    left = Signal(bits, name=f"{name}_left", reset_less=True)
    quotient = Signal(bits, name=f"{name}_quotient", reset_less=True)
    overflow: Value = begun.overflow
    if saturates:
        overflow = Signal(name=f"{name}_overflow", reset_less=True)
        with m.If(strobe & first):
            m.d.sync += overflow.eq(begun.overflow)
    now = Division(Mux(first, begun.remainder, remainder), Mux(first, begun.left, left), quotient, overflow)
    after = step(now, denominator)
    assert after.quotient is not None
    with m.If(strobe):
        m.d.sync += [
            remainder.eq(after.remainder),
            left.eq(Cat(Const(0, 1), after.left)),
            quotient.eq(after.quotient),
        ]
    return rounded(m, Division(remainder, left, quotient, overflow), last_denominator, name)
