"""iCE40: synthesis finds what it has in the behavioural twins, registers of multipliers and block RAMs included."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Instance, Module, Signal, Value
from amaranth.lib import io

from onnx_hw_rtl.target import PllSetting, Primitives


def pll(m: Module, pad: Any, setting: PllSetting) -> tuple[Value, Value]:
    """See ``Primitives.pll``. PLL usage guide FPGA-TN-02052.

    The output of the PLL leaves through the input of its pad: an oscillator there goes into the PLL and nowhere else.
    """
    clock, locked = Signal(), Signal()
    if setting.at_pad:
        source = {"io_PACKAGEPIN": pad.io}
    else:
        m.submodules.oscillator = oscillator = io.Buffer("i", pad)
        source = {"i_REFERENCECLK": oscillator.i}
    m.submodules.pll = Instance(
        "SB_PLL40_PAD" if setting.at_pad else "SB_PLL40_CORE",
        **{f"p_{name}": divider for name, divider in setting.dividers.items()},
        p_FEEDBACK_PATH="SIMPLE",
        p_PLLOUT_SELECT="GENCLK",
        **source,
        i_RESETB=1,
        i_BYPASS=0,
        o_PLLOUTGLOBAL=clock,
        o_LOCK=locked,
    )
    return clock, locked


PRIMITIVES = Primitives(distributed_memory=False, pll=pll)
