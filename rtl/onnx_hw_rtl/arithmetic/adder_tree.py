"""Sum of many numbers, two by two, with a register behind every sum."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Shape, Signal, Value

from onnx_hw_rtl.streams.engine import delayed


def adder_tree(m: Module, terms: Sequence[Value], width: int, name: str) -> Value:
    """Return the sum of signed numbers, ``ceil(log2(len(terms)))`` cycles later.

    Args:
        width: of the sum of all; no sum of a few of them is wider.
        name: part of the registers' names.
    """
    terms = list(terms)
    while len(terms) > 1:
        level = []
        for k in range(0, len(terms) - 1, 2):
            pair = terms[k] + terms[k + 1]
            total = Signal(Shape(min(len(pair), width), pair.shape().signed), name=f"sum{name}", reset_less=True)
            m.d.sync += total.eq(pair)
            level.append(total)
        if len(terms) % 2:
            level.append(delayed(m, terms[-1], 1, f"rest{name}"))
        terms = level
    return terms[0]
