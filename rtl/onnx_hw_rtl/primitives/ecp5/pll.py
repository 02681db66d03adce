"""The PLL: EHXPLLL (sysCLOCK usage guide FPGA-TN-02200), its output CLKOP fed back, CLKOS the clock."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Instance, Module, Signal, Value
from amaranth.lib import io

from onnx_hw_rtl.target import PllSetting

__all__ = ["pll"]


def pll(m: Module, pad: Any, setting: PllSetting) -> tuple[Value, Value]:
    """See ``Primitives.pll``."""
    m.submodules.oscillator = oscillator = io.Buffer("i", pad)
    fed_back, clock, locked = Signal(), Signal(), Signal()
    on = {f"p_{output}_ENABLE": "ENABLED" for output in ("CLKOP", "CLKOS")}
    # A phase of its divider less one shifts an output by nothing.
    phases = {f"p_{output}_CPHASE": setting.dividers[f"{output}_DIV"] - 1 for output in ("CLKOP", "CLKOS")}
    m.submodules.pll = Instance(
        "EHXPLLL",
        # What Lattice's tools choose for its analogue part, whatever the dividers.
        a_ICP_CURRENT="12",
        a_LPF_RESISTOR="8",
        a_MFG_ENABLE_FILTEROPAMP="1",
        a_MFG_GMCREF_SEL="2",
        **{f"p_{name}": divider for name, divider in setting.dividers.items()},
        **on,
        **phases,
        p_FEEDBK_PATH="CLKOP",
        i_CLKI=oscillator.i,
        i_CLKFB=fed_back,
        i_RST=0,
        i_STDBY=0,
        i_PHASESEL0=0,
        i_PHASESEL1=0,
        i_PHASEDIR=1,
        i_PHASESTEP=1,
        i_PHASELOADREG=1,
        i_PLLWAKESYNC=0,
        i_ENCLKOP=0,
        i_ENCLKOS=0,
        o_CLKOP=fed_back,
        o_CLKOS=clock,
        o_LOCK=locked,
    )
    return clock, locked
