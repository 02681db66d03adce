"""Inverse square root of an integer, one bit in each step: r = 2^f / √w, rounded.

w lies in [4^(half − 1), 4^half), and f = bits − 1 + half, so that 2^(bits − 1) ≤ r ≤ 2^bits. The remainder
R = 4^f' − r²·w of the bits so far is never negative, and A = r·w goes along with it; this invariant is the proof. A
step tries 4·R − (4·A + w). After ``bits`` + 1 steps one more trial tells whether r is rounded up. There are no ties.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from onnx_hw_rtl.parts.fanout import spread


def root_in_steps(m: Module, w: Value, half: int, bits: int, *, first: Value, strobe: Value) -> Signal:
    """Return r, bits + 1 wide, two cycles after the last of ``bits`` + 2 steps.

    Args:
        w: 2·half bits, the same in all steps.
        first: the step in the next cycle is the first one.
        strobe: there is a step in the next cycle.
    """
    remainder = Signal(2 * half + bits + 2, name="root_remainder", reset_less=True)
    multiple = Signal(2 * half + bits + 1, name="root_multiple", reset_less=True)
    found = Signal(bits + 2, name="root_bits", reset_less=True)
    begin = Const(1 << 2 * half - 4, len(remainder))
    controls = spread(m, Cat(first, strobe), len(remainder), "root_step")
    before = Cat(Mux(control[0], begin[part], remainder[part]) for part, control in controls)
    times = Cat(Mux(control[0], 0, multiple[part]) for part, control in controls)[: len(multiple)]
    shifted = Cat(Const(0, 2), before)
    trial = shifted - (Cat(Const(0, 2), times) + w)  # signed
    fits = ~trial[-1]
    after = Mux(fits, trial[: len(remainder)], shifted[: len(remainder)])
    product = Cat(Const(0, 1), times) + (w & fits.replicate(len(w)))
    for part, control in controls:
        with m.If(control[1]):
            m.d.sync += remainder[part].eq(after[part])
            m.d.sync += multiple[part].eq(product[part])
    with m.If(controls[-1][1][1]):
        m.d.sync += found.eq(Cat(fits, Mux(controls[-1][1][0], 0, found)))
    root = Signal(bits + 1, name="root", reset_less=True)
    m.d.sync += root.eq(found[1:] + found[0])
    return root
