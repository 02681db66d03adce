"""Sum of several numbers in a tree, with a register behind each level."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value

from onnx_hw_rtl.parts.delay_line import delayed


def sum_tree(m: Module, parts: Sequence[Value], name: str = "part") -> Value:
    """Return the sum of some numbers, ceil(log2(their number)) cycles later."""
    level = 0
    while len(parts) > 1:
        following: list[Value] = []
        for k in range(0, len(parts), 2):
            pair = parts[k : k + 2]
            if len(pair) == 1:
                following.append(delayed(m, pair[0], 1, f"{name}{level}_{k}"))
                continue
            total = Signal((pair[0] + pair[1]).shape(), name=f"{name}{level}_{k}", reset_less=True)
            m.d.sync += total.eq(pair[0] + pair[1])
            following.append(total)
        parts, level = following, level + 1
    return parts[0]
