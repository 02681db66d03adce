"""Saturation, for every integer of every pair of small shapes."""

from __future__ import annotations

from typing import Any

import pytest
from amaranth.hdl import Module, Shape, Signal
from amaranth.sim import Simulator

from onnx_hw.exact.integers import Int
from onnx_hw_rtl.arithmetic.clamp import clamp, saturate

SHAPES = [Int(bits, signed) for bits in range(1, 7) for signed in (False, True)]


def run(m: Module, x: Signal, arguments: range, results: list[Signal]) -> list[list[int]]:
    """Return the results one cycle after each argument."""
    rows: list[list[int]] = []

    async def bench(context: Any) -> None:
        for value in arguments:
            context.set(x, value)
            await context.tick()
            rows.append([context.get(result) for result in results])

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return rows


@pytest.mark.parametrize("dtype", [Int(5), Int(5, False), Int(1), Int(1, False)])
def test_saturate(dtype: Int) -> None:
    m, x, arguments = Module(), Signal(Shape(dtype.bits, dtype.signed)), range(dtype.min, dtype.max + 1)
    results = [saturate(m, f"x{k}", x, Shape(shape.bits, shape.signed)) for k, shape in enumerate(SHAPES)]
    assert run(m, x, arguments, results) == [[min(max(v, s.min), s.max) for s in SHAPES] for v in arguments]


@pytest.mark.parametrize("dtype", [Int(5), Int(5, False)])
def test_clamp(dtype: Int) -> None:
    m, x, arguments = Module(), Signal(Shape(dtype.bits, dtype.signed)), range(dtype.min, dtype.max + 1)
    bounds = [(-3, 2), (0, 0), (-16, 31), (3, 15), (-9, -4), (-100, 100)]
    results = [clamp(m, f"x{k}", x, low, high) for k, (low, high) in enumerate(bounds)]
    assert run(m, x, arguments, results) == [[min(max(v, low), high) for low, high in bounds] for v in arguments]
