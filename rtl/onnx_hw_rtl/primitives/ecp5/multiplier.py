"""MULT18X18D: the 18 × 18 bit hardware multiplier with all three of its registers."""

from __future__ import annotations

from amaranth.hdl import ClockSignal, Instance, Value

__all__ = ["LATENCY", "WIDTH", "multiplier"]

WIDTH = 18  # bits of each operand
LATENCY = 3  # input, pipeline and output registers


def multiplier(a: Value, b: Value, p: Value) -> Instance:
    """``p``, of ``len(a) + len(b)`` bits, becomes ``a · b`` after ``LATENCY`` cycles of the domain ``sync``.

    The operands sit at the *upper* end of their pins, hence the product at the upper end of its own. At the lower end
    every unused pin would need a copy of the sign bit, and that net limits the clock.
    """
    connections: dict[str, object] = {}
    for name, operand in (("A", a), ("B", b)):
        unused = WIDTH - len(operand)
        if unused < 0:
            raise ValueError(f"an operand must have at most {WIDTH} bits, not {len(operand)}")
        connections |= {f"i_{name}{pin}": operand[pin - unused] if pin >= unused else 0 for pin in range(WIDTH)}
        connections[f"i_SIGNED{name}"] = int(operand.shape().signed)
        connections[f"i_SOURCE{name}"] = 0  # from the pins, not from the neighbour's shift register
    unused = 2 * WIDTH - len(p)
    connections |= {f"o_P{pin}": p[pin - unused] for pin in range(unused, 2 * WIDTH)}
    for register in ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT"):
        connections[f"p_REG_{register}_CLK"] = "CLK0"
    return Instance("MULT18X18D", i_CLK0=ClockSignal("sync"), i_CE0=1, i_RST0=0, p_GSR="DISABLED", **connections)
