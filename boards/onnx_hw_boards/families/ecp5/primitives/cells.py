"""Hard blocks and logic cells of the ECP5: multiplier, carry chain, flip-flop, PLL."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import io

from onnx_hw_rtl.target import Gated, PllSetting

OPERAND_BITS = 18
MULTIPLIER_LATENCY = 3  # input, pipeline and output registers


def multiplier(a: Value, b: Value, p: Value) -> Instance:
    """Return a multiplier: ``p``, of ``len(a) + len(b)`` bits, becomes ``a · b`` after ``MULTIPLIER_LATENCY`` cycles.

    MULT18X18D: the 18 × 18 bit hardware multiplier with all three of its registers, in the domain ``sync``.

    The operands sit at the *upper* end of their pins, hence the product at the upper end of its own. At the lower end
    every unused pin would need a copy of the sign bit, and that net limits the clock.
    """
    connections: dict[str, object] = {}
    for name, operand in (("A", a), ("B", b)):
        unused = OPERAND_BITS - len(operand)
        if unused < 0:
            raise ValueError(f"an operand must have at most {OPERAND_BITS} bits, not {len(operand)}")
        connections |= {f"i_{name}{pin}": operand[pin - unused] if pin >= unused else 0 for pin in range(OPERAND_BITS)}
        connections[f"i_SIGNED{name}"] = int(operand.shape().signed)
        connections[f"i_SOURCE{name}"] = 0  # from the pins, not from the neighbour's shift register
    unused = 2 * OPERAND_BITS - len(p)
    connections |= {f"o_P{pin}": p[pin - unused] for pin in range(unused, 2 * OPERAND_BITS)}
    for register in ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT"):
        connections[f"p_REG_{register}_CLK"] = "CLK0"
    return Instance("MULT18X18D", i_CLK0=ClockSignal("sync"), i_CE0=1, i_RST0=0, p_GSR="DISABLED", **connections)


def flip_flop(d: Value, q: Value) -> Instance:
    """Return a flip-flop without reset (TRELLIS_FF): ``q`` becomes ``d`` with each cycle of the domain ``sync``."""
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


def configuration_clock(clock: Value) -> Instance:
    """Return USRMCLK (sysCONFIG usage guide FPGA-TN-02039), which drives the clock of the configuration flash."""
    return Instance("USRMCLK", i_USRMCLKI=clock, i_USRMCLKTS=0)


ADD, SUBTRACT = 0x7888, 0x8777
"""Tables of AB ⊕ CD and its complement. Their low nibble, which C and D = 0 select, is the carry that a bit makes."""


def gated_sum(m: Module, name: str, kept: Gated, added: Gated, bits: int, negative: bool) -> Value:
    """Return ``k·g + a·h``, or ``k·g − a·h``, in ``bits`` bits: a look-up table each; one more where ``bits`` is odd.

    CCU2C: two bits of a carry chain. Each is a look-up table of four inputs whose output decides about the carry.
    """
    even = bits + bits % 2
    (k, g), (a, h) = ((_extended(value, even), gate) for value, gate in (kept, added))
    total = Signal(even, name=name)
    carry: Value = Const(int(negative), 1)
    for at in range(0, bits, 2):
        following = Signal(name=f"{name}_carry{at + 2}")
        pins: dict[str, object] = {}
        for half in range(2):
            bit = at + half
            pins |= {f"i_A{half}": a[bit], f"i_B{half}": h, f"i_C{half}": k[bit], f"i_D{half}": g}
            pins |= {f"o_S{half}": total[bit], f"p_INIT{half}": Const(SUBTRACT if negative else ADD, 16)}
            pins[f"p_INJECT1_{half}"] = "NO"
        m.submodules[f"{name}_{at}"] = Instance("CCU2C", i_CIN=carry, o_COUT=following, **pins)
        carry = following
    return total[:bits]


def _extended(value: Value, bits: int) -> Value:
    """Return the value with ``bits`` bits: extended by copies of the sign, or by zeros."""
    sign = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, sign.replicate(max(0, bits - len(value))))[:bits]


def pll(m: Module, pad: Any, setting: PllSetting) -> tuple[Value, Value]:
    """See ``Primitives.pll``. EHXPLLL (sysCLOCK usage guide FPGA-TN-02200): CLKOP is fed back, CLKOS is the clock."""
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
