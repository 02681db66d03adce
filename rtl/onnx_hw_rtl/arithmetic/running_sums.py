"""Accumulators side by side, which begin anew together."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.target import primitives_of


class RunningSums:
    """Controls of accumulators: each has a copy of its own.

    Where the family has a carry chain with gates, a bit of an accumulator is one look-up table of it, which also does
    the choice between the sum so far and 0.

    Args:
        there: the addends are there, in this cycle.
        first: they are the first ones of their sums.
        count: number of accumulators.
    """

    def __init__(self, m: Module, platform: object, *, there: Value, first: Value, count: int) -> None:
        self._gated_sum = primitives_of(platform).gated_sum
        accumulate = Signal(2)
        m.d.comb += accumulate.eq(Cat(there, ~first if self._gated_sum else first))
        self._controls = copies(m, accumulate, count, "accumulate")

    def add(self, m: Module, place: int, result: Signal, addend: Value) -> None:
        """Add to the accumulator of a place, which is ``result``; its width holds every sum."""
        there, flag = self._controls[place]
        total: Value
        if self._gated_sum:
            total = self._gated_sum(m, f"{result.name}_sum", (addend, Const(1, 1)), (result, flag), len(result), False)
        else:
            total = Mux(flag, 0, result) + addend
        with m.If(there):
            m.d.sync += result.eq(total)
