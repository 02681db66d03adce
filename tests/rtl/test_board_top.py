"""Reset of a circuit on a board: how long it lasts, and that a button starts it again."""

from __future__ import annotations

import pytest
from amaranth.hdl import ClockDomain, Module, ResetSignal, Signal
from amaranth.sim import Simulator

from onnx_hw_rtl.shells.board_top import hold_reset


def resets(cycles: int, pressed: list[int]) -> list[int]:
    """Return the reset in every cycle, from power-up.

    Args:
        pressed: for each cycle, whether something holds the circuit asleep.
    """
    m, asleep, reset, levels = Module(), Signal(), Signal(), list[int]()
    m.domains += ClockDomain("sync"), ClockDomain("board", reset_less=True)
    hold_reset(m, asleep, cycles)
    m.d.comb += reset.eq(ResetSignal("sync"))

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        for now in pressed:
            context.set(asleep, now)
            levels.append(context.get(reset))
            await context.tick("board")

    simulator = Simulator(m)
    simulator.add_clock(1e-6, domain="board")
    simulator.add_testbench(bench)
    simulator.run()
    return levels


@pytest.mark.parametrize("cycles", [1, 2, 7, 30])
def test_reset_lasts_some_cycles_after_everything_is_awake(cycles: int) -> None:
    after_power_up = resets(cycles, [0] * (cycles + 20))
    length = after_power_up.index(0)
    assert cycles <= length <= cycles + 5 and not any(after_power_up[length:])
    late = resets(cycles, [1] * 40 + [0] * (cycles + 20))  # a PLL that locks late
    assert all(late[:40]) and cycles <= late.index(0) - 40 <= cycles + 5 and not any(late[late.index(0) :])


def test_a_button_starts_the_reset_again() -> None:
    levels = resets(9, [0] * 30 + [1] * 3 + [0] * 30)
    pressed = levels.index(1, 30)
    assert not any(levels[20:30]) and 30 < pressed <= 34
    again = levels.index(0, pressed)
    assert all(levels[pressed:again]) and 9 <= again - 33 <= 9 + 5 and not any(levels[again:])
