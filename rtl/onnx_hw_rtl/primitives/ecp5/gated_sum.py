"""CCU2C: two bits of a carry chain. Each is a look-up table of four inputs whose output decides about the carry."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Instance, Module, Signal, Value

from onnx_hw_rtl.target import Gated

__all__ = ["gated_sum"]

ADD, SUBTRACT = 0x7888, 0x8777
"""Tables of AB ⊕ CD and its complement. Their low nibble, which C and D = 0 select, is the carry that a bit makes."""


def gated_sum(m: Module, name: str, kept: Gated, added: Gated, bits: int, negative: bool) -> Value:
    """``k·g + a·h``, or ``k·g − a·h``, in ``bits`` bits: a look-up table each; one more where their number is odd."""
    even = bits + bits % 2
    (k, g), (a, h) = ((_extended(value, even), gate) for value, gate in (kept, added))
    total = Signal(even, name=name)
    carry: Value = Const(int(negative), 1)
    for at in range(0, bits, 2):
        following = Signal(name=f"{name}_carry{at + 2}")
        pins: dict[str, object] = {}
        for place in range(2):
            bit = at + place
            pins |= {f"i_A{place}": a[bit], f"i_B{place}": h, f"i_C{place}": k[bit], f"i_D{place}": g}
            pins |= {f"o_S{place}": total[bit], f"p_INIT{place}": Const(SUBTRACT if negative else ADD, 16)}
            pins[f"p_INJECT1_{place}"] = "NO"
        m.submodules[f"{name}_{at}"] = Instance("CCU2C", i_CIN=carry, o_COUT=following, **pins)
        carry = following
    return total[:bits]


def _extended(value: Value, bits: int) -> Value:
    """By copies of the sign, or by zeros."""
    sign = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, sign.replicate(max(0, bits - len(value))))[:bits]
