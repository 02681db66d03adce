"""Toggles that the simulator of the netlist counts: of a counter, where they are known, and of a stalled register."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_hw_sim.circuit import Stream
from onnx_hw_sim.gates.cell_models import FlipFlop, Parts
from onnx_hw_sim.gates.native_gates import RUNS
from onnx_hw_sim.gates.netlist import ONE, ChipCell, FlatNetlist
from onnx_hw_sim.gates.simulator import GateSimulator, Pattern, Start, StreamPlan
from onnx_hw_sim.gates.toggles import ToggleCount
from onnx_hw_tools import tools

CLOCK, RESET, PAYLOAD, VALID, READY, OUT_PAYLOAD, OUT_VALID, OUT_READY = range(3, 11)
B0, B0_NEXT, B1, B1_NEXT, B2, B2_NEXT, CARRY, HELD, HELD_NEXT, BUFFER = range(11, 21)
TABLES = {
    "counter.not": ((B0,), 0b01, B0_NEXT),
    "counter.xor1": ((B0, B1), 0b0110, B1_NEXT),
    "counter.and": ((B0, B1), 0b1000, CARRY),
    "counter.xor2": ((CARRY, B2), 0b0110, B2_NEXT),
    "held.not": ((HELD,), 0b01, HELD_NEXT),
    "held.buffer": ((B0,), 0b10, BUFFER),
    "rest.ready": ((), 0b1, READY),
    "rest.valid": ((VALID,), 0b10, OUT_VALID),
    "rest.payload": ((PAYLOAD,), 0b10, OUT_PAYLOAD),
}
FLIP_FLOPS = {
    "counter.b0": FlipFlop(B0, B0_NEXT),
    "counter.b1": FlipFlop(B1, B1_NEXT),
    "counter.b2": FlipFlop(B2, B2_NEXT),
    "held.bit": FlipFlop(HELD, HELD_NEXT, enable=VALID),
}
TOKENS, SPARSE, CYCLES = 32, 4, 64
TOGGLES_OF_COUNTER = 1 + 1 + 0.5 + 0.5 + 0.5 + 0.25 + 0.25
"""Toggles in a cycle: of the bits of the counter, of what they become, and of the carry."""


def model(cell: ChipCell, parts: Parts) -> None:
    if cell.name in TABLES:
        ins, function, out = TABLES[cell.name]
        parts.table(ins, function, out)
    else:
        parts.flip_flops.append(FLIP_FLOPS[cell.name])


def plan() -> StreamPlan:
    """Half of the runs offer a token in every cycle, the others in one of four."""
    offers = [np.zeros(TOKENS, dtype=np.int64), np.arange(TOKENS) * SPARSE]
    ready = np.ones(CYCLES + 9, dtype=np.uint8)
    return StreamPlan(
        {"x": np.ones((1, TOKENS, 1), dtype=np.int64)},
        [Pattern({"x": each}, {"y": ready}) for each in offers],
        [Start(9 if k % 4 == 0 else None, k % 2, 0) for k in range(RUNS)],
        CYCLES + 8,
    )


@pytest.fixture(scope="module")
def simulator() -> GateSimulator:
    try:
        tools.find("c++")
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    cells = tuple(ChipCell(name, "cell", {}, {}) for name in (*TABLES, *FLIP_FLOPS))
    ports = {"clk": CLOCK, "rst": RESET, "x_payload": PAYLOAD, "x_valid": VALID, "x_ready": READY}
    ports |= {"y_payload": OUT_PAYLOAD, "y_valid": OUT_VALID, "y_ready": OUT_READY}
    inputs = frozenset(("clk", "rst", "x_payload", "x_valid", "y_ready"))
    netlist = FlatNetlist(BUFFER + 1, cells, {name: (net,) for name, net in ports.items()}, inputs)
    x, y = (Stream(name, 1, 1, False) for name in "xy")
    return GateSimulator(netlist, {"cell": model}, [x], [y], 1)


def counted(simulator: GateSimulator, pattern: int, gap: int = 1) -> ToggleCount:
    groups = simulator.cells.driven_nets(lambda cell: cell.partition(".")[0])
    count = ToggleCount(groups, pattern, CYCLES + 1, gap)
    simulator.run(plan(), count=count)
    return count


def test_nets_belong_to_the_cell_that_drives_them(simulator: GateSimulator) -> None:
    groups = simulator.cells.driven_nets(lambda cell: cell.partition(".")[0])
    assert {name: sorted(nets) for name, nets in groups.items()} == {
        "counter": [B0, B0_NEXT, B1, B1_NEXT, B2, B2_NEXT, CARRY],
        "held": [HELD, HELD_NEXT],  # what is behind a buffer is the same net as before it
    }
    assert simulator.program.place[READY] == ONE


def test_toggles_of_a_counter_are_those_of_arithmetic(simulator: GateSimulator) -> None:
    for pattern in (0, 1):
        count = counted(simulator, pattern)
        assert count.pairs == RUNS // 2 * CYCLES
        assert count.toggles["counter"] == count.pairs * TOGGLES_OF_COUNTER


def test_a_stalled_register_toggles_less(simulator: GateSimulator) -> None:
    busy, stalled = (counted(simulator, pattern).toggles["held"] for pattern in (0, 1))
    assert busy == RUNS // 2 * 2 * TOKENS
    assert stalled == RUNS // 2 * 2 * CYCLES // SPARSE


def test_a_sample_of_cycles_is_close(simulator: GateSimulator) -> None:
    """A counter has all periods that a fixed distance of samples would fall in step with."""
    count = counted(simulator, 0, gap=3)
    assert 0.2 < count.pairs / (RUNS // 2 * CYCLES) < 0.5
    assert abs(count.toggles["counter"] / count.pairs / TOGGLES_OF_COUNTER - 1) < 0.15
