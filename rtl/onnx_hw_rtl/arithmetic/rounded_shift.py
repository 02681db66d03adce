"""Shift of an integer to the right, rounded half to even."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value


def rounded_shift(m: Module, name: str, value: Value, bits: int, width: int) -> Signal:
    """Return the lowest ``width`` bits of ``value / 2^bits``, rounded half to even, one cycle later; signed.

    With a negative number of bits it is a multiple.
    """
    shifted = Signal(range(-(1 << width - 1), 1 << width - 1), name=f"{name}_shifted", reset_less=True)
    if bits <= 0:
        m.d.sync += shifted.eq(value << -bits)
        return shifted
    moved = (value + (1 << bits - 1)).as_signed()
    tie = ~moved[:bits].any()
    m.d.sync += shifted.eq(Cat(moved[bits] & ~tie, moved[bits + 1 :]).as_signed())
    return shifted
