"""TRELLIS_FF: one flip-flop without reset."""

from __future__ import annotations

from amaranth.hdl import ClockSignal, Instance, Value

__all__ = ["flip_flop"]


def flip_flop(d: Value, q: Value) -> Instance:
    """``q`` becomes ``d`` with each cycle of the domain ``sync``."""
    return Instance(
        "TRELLIS_FF",
        p_GSR="DISABLED",
        p_CEMUX="1",
        p_CLKMUX="CLK",
        p_LSRMUX="LSR",
        p_REGSET="RESET",
        i_CLK=ClockSignal("sync"),
        i_LSR=0,
        i_DI=d,
        o_Q=q,
    )
