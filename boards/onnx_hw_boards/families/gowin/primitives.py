"""Gowin: synthesis finds what it has in the behavioural twins."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Instance, Module, Signal, Value
from amaranth.lib import io

from onnx_hw_rtl.target import PllSetting, Primitives


def pll(m: Module, pad: Any, setting: PllSetting) -> tuple[Value, Value]:
    """See ``Primitives.pll``. Clock resources, UG286: rPLL, fed back inside."""
    m.submodules.oscillator = oscillator = io.Buffer("i", pad)
    clock, locked = Signal(), Signal()
    m.submodules.pll = Instance(
        "rPLL",
        p_FCLKIN=f"{setting.input_mhz:g}",
        **{f"p_{name}": divider for name, divider in setting.dividers.items()},
        **{f"p_DYN_{name}": "false" for name in setting.dividers},
        p_CLKFB_SEL="internal",
        i_CLKIN=oscillator.i,
        i_CLKFB=0,
        i_RESET=0,
        i_RESET_P=0,
        **{f"i_{name}": Const(0, 6) for name in ("FBDSEL", "IDSEL", "ODSEL")},
        **{f"i_{name}": Const(0, 4) for name in ("PSDA", "DUTYDA", "FDLY")},
        o_CLKOUT=clock,
        o_LOCK=locked,
    )
    return clock, locked


PRIMITIVES = Primitives(pll=pll)
