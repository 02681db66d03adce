# amaranth: UnusedElaboratable=no
"""Model of an SDRAM by itself: each spacing of commands, one cycle too short and just long enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import pytest
from amaranth.sim import Simulator

from onnx_hw_rtl.memory.sdr_sdram import ACTIVATE, ALL_BANKS, IDLE, PRECHARGE, READ, REFRESH, SET_MODE, WRITE
from onnx_hw_rtl.memory.sdram_model import MODE_CYCLES, PARTS, SdramFault, SdramModel

SLACK = 40
"""Cycles that are enough for anything but a refresh interval."""

MODE = 2 << 4


def play(name: str, clock_mhz: float, commands: Sequence[tuple[int, int, int]]) -> SdramFault:
    """Return the fault after some commands, each with its address and the cycles before the next one.

    A write drives the pins; power-up takes no time.
    """
    part = replace(PARTS[name], power_up_us=0, period_ns=((2, 0.0), (3, 0.0)))
    model, faults = SdramModel(part, clock_mhz, words=64), list[int]()

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        context.set(model.cke, 1)
        for command, address, cycles in commands:
            context.set(model.command, command)
            context.set(model.a, address)
            context.set(model.dq_oe, command == WRITE)
            await context.tick()
            context.set(model.command, IDLE)
            context.set(model.dq_oe, 0)
            for _ in range(cycles - 1):
                await context.tick()
        faults.append(int(context.get(model.fault)))

    simulator = Simulator(model)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return SdramFault(faults[0])


PREPARED = [(PRECHARGE, ALL_BANKS, SLACK), (REFRESH, 0, SLACK), (REFRESH, 0, SLACK), (SET_MODE, MODE, SLACK)]

CLOSED = (PRECHARGE, ALL_BANKS)
SPACINGS = {
    "tRCD, read": (["activate_ns"], [(ACTIVATE, 1)], [(READ, 0)], SdramFault.ACCESS_TOO_SOON),
    "tRCD, write": (["activate_ns"], [(ACTIVATE, 1)], [(WRITE, 0)], SdramFault.ACCESS_TOO_SOON),
    "tRAS": (["open_ns"], [(ACTIVATE, 1)], [CLOSED], SdramFault.PRECHARGE_TOO_SOON),
    "tWR": (["write_ns"], [(WRITE, 0)], [CLOSED], SdramFault.PRECHARGE_TOO_SOON),
    "tRP, activate": (["precharge_ns"], [CLOSED], [(ACTIVATE, 1)], SdramFault.ACTIVATE_TOO_SOON),
    "tRP, refresh": (["precharge_ns"], [CLOSED], [(REFRESH, 0)], SdramFault.REFRESH_TOO_SOON),
    "tRFC, activate": (["refresh_ns"], [(REFRESH, 0)], [(ACTIVATE, 1)], SdramFault.COMMAND_TOO_SOON),
    "tRFC, refresh": (["refresh_ns"], [(REFRESH, 0)], [(REFRESH, 0)], SdramFault.COMMAND_TOO_SOON),
}
"""Names of the times of a part; commands with their addresses, with which the spacing begins and ends; the fault."""


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("clock_mhz", [60, 133])
@pytest.mark.parametrize("what", SPACINGS)
def test_each_spacing_is_seen(what: str, clock_mhz: float, name: str) -> None:
    times, begins, ends, fault = SPACINGS[what]
    least = ceil(sum(getattr(PARTS[name], time) for time in times) * clock_mhz / 1e3)
    (first,), (then,) = begins, ends
    opened = [(ACTIVATE, 1, SLACK)] * (first[0] in (WRITE, PRECHARGE))
    for cycles, expected in ((least, SdramFault.NONE), (least - 1, fault)):
        if cycles:
            commands = [*PREPARED, *opened, (*first, cycles), (*then, SLACK)]
            assert play(name, clock_mhz, commands) is expected, cycles


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("clock_mhz", [60, 133])
def test_the_cycle_of_a_row_is_seen(clock_mhz: float, name: str) -> None:
    """A row that is closed soon enough may still be opened again too soon: tRC is tRAS and tRP, rounded together."""
    part = PARTS[name]
    opened, closed = (ceil(time * clock_mhz / 1e3) for time in (part.open_ns, part.precharge_ns))
    row = ceil((part.open_ns + part.precharge_ns) * clock_mhz / 1e3)
    for cycles, expected in ((row, SdramFault.NONE), (row - 1, SdramFault.ACTIVATE_TOO_SOON)):
        commands = [(ACTIVATE, 1, opened), (*CLOSED, cycles - opened), (ACTIVATE, 1, SLACK)]
        if cycles - opened >= 1:
            assert play(name, clock_mhz, [*PREPARED, *commands]) in (
                (expected,) if cycles - opened >= closed else (SdramFault.ACTIVATE_TOO_SOON,)
            )


def test_the_mode_takes_its_time() -> None:
    for cycles, expected in ((MODE_CYCLES, SdramFault.NONE), (MODE_CYCLES - 1, SdramFault.COMMAND_TOO_SOON)):
        commands = [*PREPARED[:-1], (SET_MODE, MODE, cycles), (ACTIVATE, 0, SLACK)]
        assert play("MT48LC16M16", 100, commands) is expected


@pytest.mark.parametrize(
    ("commands", "fault"),
    [
        (PREPARED[:3] + [(ACTIVATE, 0, SLACK)], SdramFault.NOT_PREPARED),
        (PREPARED[:2] + PREPARED[3:], SdramFault.NOT_PREPARED),
        (PREPARED[1:], SdramFault.NOT_PREPARED),
        ([*PREPARED, (ACTIVATE, 0, SLACK), (ACTIVATE, 1, SLACK)], SdramFault.BANK_IS_OPEN),
        ([*PREPARED, (ACTIVATE, 0, SLACK), (REFRESH, 0, SLACK)], SdramFault.BANK_IS_OPEN),
        ([*PREPARED, (READ, 0, SLACK)], SdramFault.BANK_IS_CLOSED),
        ([*PREPARED, (ACTIVATE, 0, SLACK), (READ, ALL_BANKS, SLACK)], SdramFault.UNKNOWN_COMMAND),
        ([*PREPARED, (ACTIVATE, 0, SLACK), (READ, 0, 2), (WRITE, 0, SLACK)], SdramFault.BOTH_DRIVE),
        ([*PREPARED, (0b011, 0, SLACK)], SdramFault.UNKNOWN_COMMAND),
    ],
)
def test_each_wrong_command_is_seen(commands: list[tuple[int, int, int]], fault: SdramFault) -> None:
    assert play("MT48LC16M16", 100, commands) is fault


def test_a_row_that_is_open_for_too_long_is_seen() -> None:
    for cycles, expected in ((9_999, SdramFault.NONE), (10_010, SdramFault.OPEN_TOO_LONG)):
        assert play("AS4C4M16", 100, [*PREPARED, (ACTIVATE, 0, cycles)]) is expected


@pytest.mark.parametrize("name", PARTS)
def test_refreshes_that_are_too_rare_are_seen(name: str) -> None:
    """A hundredth rarer than on average; and exactly as often."""
    interval = int(PARTS[name].interval_ns / 10)  # at 100 MHz
    for cycles, expected in ((interval, SdramFault.NONE), (interval * 21 // 10, SdramFault.REFRESH_TOO_LATE)):
        assert play(name, 100, [*PREPARED, *[(REFRESH, 0, cycles)] * 10]) is expected
