"""A feedback register passes all numbers but one, and its circuit passes those that are foretold."""

from __future__ import annotations

from itertools import islice

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from onnx_hw_rtl.feedback_register import following, state_after, states, width_for


@pytest.mark.parametrize("width", range(2, 15))
def test_all_numbers_but_one_are_passed(width: int) -> None:
    round_ = list(islice(states(width), 2**width - 1))
    assert set(round_) == set(range(2**width - 1)) and state_after(2**width - 1, width) == 0
    assert width_for(2**width - 1) == width < width_for(2**width)


@pytest.mark.parametrize("width", [2, 8, 19, 32])
def test_the_circuit_passes_them_in_that_order(width: int) -> None:
    m, count, passed = Module(), Signal(width), []
    m.d.sync += count.eq(following(count))

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        for _ in range(50):
            passed.append(context.get(count))
            await context.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert passed == list(islice(states(width), 50))
