"""Delay line: a chain of registers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal, Value


def delayed(m: Module, value: Any, cycles: int, name: str = "delayed", *, strobe: bool = False) -> Any:
    """Delay a value by some cycles in a chain of registers. A reset clears them only if the value is a ``strobe``."""
    for stage in range(cycles):
        register = Signal.like(Value.cast(value), name=f"{name}_{stage + 1}", init=0, reset_less=not strobe)
        m.d.sync += register.eq(value)
        value = register
    return value
