# amaranth: UnusedElaboratable=no
"""Multipliers, ROMs and memories as cells of every family, in the gate-level machine, against Python's integers.

So each model is compared with the behavioural twin that yosys maps on it, and the words of ROMs are decoded from
their parameters. ``test_gate_cells.py`` compares with yosys' own models, as far as it has some.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.runtime.build_folder import opened
from onnx_hw_rtl.arithmetic.multiplier import Multiplier
from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.target import Target
from onnx_hw_sim.circuit import Stream
from onnx_hw_sim.gates.native_gates import RUNS
from onnx_hw_sim.gates.netlist import flatten, read_netlist
from onnx_hw_sim.gates.read_only import ReadOnly
from onnx_hw_sim.gates.simulator import GateSimulator, Pattern, Start, StreamPlan
from onnx_hw_tools import tools

CYCLES = 400


class Ram(Component):
    """Memory that is written and read when its strobes say so; a word read while it is written may be anything."""

    LATENCY = 1

    def __init__(self, width: int, depth: int) -> None:
        self.width, self.depth = width, depth
        super().__init__(
            {"into": In(range(depth)), "word": In(width), "we": In(1), "at": In(range(depth)), "data": Out(width)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self.width, depth=self.depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [write.addr.eq(self.into), write.data.eq(self.word), write.en.eq(self.we)]
        m.d.comb += [read.addr.eq(self.at), self.data.eq(read.data)]
        return m


class Bench(Component):
    """Test bench: all inputs of several blocks from the stream ``x``, all outputs on ``y``, in every cycle."""

    def __init__(self, blocks: Sequence[Component]) -> None:
        self.blocks = blocks
        self.inputs = [[port for _, port in _ports(block, In)] for block in blocks]
        self.outputs = [port for block in blocks for _, port in _ports(block, Out)]
        into = {
            "x_payload": In(sum(len(p) for ports in self.inputs for p in ports)),
            "x_valid": In(1),
            "y_ready": In(1),
        }
        out = {"y_payload": Out(len(Cat(self.outputs))), "y_valid": Out(1), "x_ready": Out(1)}
        super().__init__(into | out)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, block in enumerate(self.blocks):
            m.submodules[f"block{k}"] = block
        m.d.comb += Cat(p for ports in self.inputs for p in ports).eq(self.x_payload)
        started = Signal()
        m.d.sync += started.eq(1)
        m.d.comb += [self.y_payload.eq(Cat(self.outputs)), self.x_ready.eq(1), self.y_valid.eq(1)]
        return m


def _ports(block: Component, direction: object) -> list[tuple[str, Signal]]:
    members = block.signature.members.items()
    return [(name, Value.cast(getattr(block, name))) for name, member in members if member.flow == direction]


BLOCKS: dict[str, list[Component]] = {
    "ecp5": [Ram(36, 500), Ram(18, 900), Ram(9, 1800), Ram(4, 3000), Ram(2, 6000), Ram(1, 9000), Ram(7, 16)],
    "up5k": [Ram(16, 200), Ram(8, 400), Ram(4, 900), Ram(2, 1800), Ram(21, 250)],
    "gw1n9c": [Ram(36, 500), Ram(18, 900), Ram(9, 1800), Ram(4, 3000), Ram(1, 9000), Ram(7, 16)],
    "gw5a25a": [
        *(Ram(36, 500), Ram(18, 900), Ram(9, 1800), Ram(4, 3000), Ram(1, 9000)),
        *(Multiplier(12, 12), Multiplier(11, 11, a_signed=False, b_signed=False), Multiplier(12, 8, a_signed=False)),
        *(Multiplier(18, 18), Multiplier(18, 17, a_signed=False, b_signed=False), Multiplier(7, 18, b_signed=False)),
        Multiplier(18, 18, a_signed=False, b_signed=False),
        *(
            Rom(w, np.random.default_rng(w).integers(0, 1 << w, d).tolist())
            for w, d in ((4, 3500), (2, 600), (17, 1900))
        ),
    ],
}
SHARED = [
    Multiplier(8, 8),
    Multiplier(16, 16, a_signed=False),
    Multiplier(9, 14, b_signed=False),
    *(Rom(w, np.random.default_rng(w).integers(0, 1 << w, d).tolist()) for w, d in ((36, 200), (9, 1100), (3, 900))),
]


@pytest.mark.parametrize(
    "board", ["ecp5", "gw5a25a", *(pytest.param(b, marks=pytest.mark.slow) for b in ("up5k", "gw1n9c"))]
)
def test_cells_do_what_their_twins_do(board: str, tmp_path: Path) -> None:
    for tool in ("yosys", "c++"):
        try:
            tools.find(tool)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    family, bench = find_board(board).family, Bench([*SHARED, *BLOCKS[board]])
    with opened(tmp_path / "build") as folder:
        made = synthesize(folder, to_rtlil(bench, Target(family.primitives())), family)
    rams = sum(isinstance(block, Ram) for block in bench.blocks)
    assert made.used.bram >= rams and made.used.dsp >= 1
    library = family.cell_library()
    flat = flatten(read_netlist(made.netlist), wires=library.wires)
    x, y = (Stream(name, len(port), 1, signed=False) for name, port in (("x", bench.x_payload), ("y", bench.y_payload)))
    values = drawn(bench, np.random.default_rng(5))
    simulator = GateSimulator(flat, library.models, [x], [y], 1)
    plan = StreamPlan(
        {"x": np.concatenate([in_bits(v, len(p)) for v, p in zip(values, flat_inputs(bench), strict=True)], axis=2)},
        [Pattern({"x": np.zeros(CYCLES, dtype=np.int64)}, {"y": np.ones(0, dtype=bool)})],
        [Start(None, 0, run) for run in range(RUNS)],
        CYCLES,
    )
    seen = np.stack([run["y"].values for run in simulator.run(plan)])
    checked = at = place = pin = 0
    contents = ReadOnly(simulator.parts)
    for block, ports in zip(bench.blocks, bench.inputs, strict=True):
        arguments = dict(zip((name for name, _ in _ports(block, In)), values[at:], strict=False))
        width = len(_ports(block, Out)[0][1])
        got = (seen[:, :, place : place + width].astype(object) << np.arange(width)).sum(axis=2)
        if isinstance(block, Rom):
            pins = flat.ports["x_payload"][pin:], flat.ports["y_payload"][place : place + width]
            bits, _ = contents.words(pins[0][: len(block.addr)], pins[1], len(block.words))
            assert [sum(int(bit) << k for k, bit in enumerate(word)) for word in bits] == list(block.words)
        at, place, pin = at + len(ports), place + width, pin + sum(map(len, ports))
        due, known = expected(block, arguments)
        later = slice(block.LATENCY, None), slice(None, CYCLES - block.LATENCY)
        wrong = (got[:, later[0]] != due[:, later[1]]) & known[:, later[1]]
        assert not wrong.any(), (block.signature, np.argwhere(wrong)[0])
        checked += int(known.sum())
    assert checked > 20 * RUNS * len(bench.blocks)


def flat_inputs(bench: Bench) -> list[Signal]:
    return [port for ports in bench.inputs for port in ports]


def drawn(bench: Bench, generator: np.random.Generator) -> list[np.ndarray]:
    """Draw for each input (runs, cycles): addresses of a memory from a few, at both ends and anywhere."""
    found = []
    for block, ports in zip(bench.blocks, bench.inputs, strict=True):
        depth = block.depth if isinstance(block, Ram) else len(block.words) if isinstance(block, Rom) else 0
        places = np.unique([0, 1, 2, 3, depth // 2, depth - 1, *generator.integers(0, max(1, depth), 12)])
        for (name, _), port in zip(_ports(block, In), ports, strict=True):
            if name in ("into", "at"):
                found.append(generator.choice(places, (RUNS, CYCLES)))
            elif name == "addr":
                found.append(generator.integers(0, depth, (RUNS, CYCLES)))
            else:
                found.append(generator.integers(0, 1 << len(port), (RUNS, CYCLES)))
    return found


def in_bits(values: np.ndarray, width: int) -> np.ndarray:
    return values[:, :, None] >> np.arange(width) & 1


def expected(block: Component, arguments: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return (runs, cycles) of the outputs some cycles later, and whether they are known."""
    if isinstance(block, Rom):
        words = np.array(block.words, dtype=object)
        return words[arguments["addr"]], np.ones((RUNS, CYCLES), dtype=bool)
    if isinstance(block, Multiplier):
        numbers = []
        for name in "ab":
            port = getattr(block, name)
            sign = (arguments[name] >> len(port) - 1 & 1) * port.shape().signed
            numbers.append(arguments[name] - (sign << len(port)))
        return numbers[0] * numbers[1] & (1 << len(block.p)) - 1, np.ones((RUNS, CYCLES), dtype=bool)
    memory, runs = np.full((RUNS, block.depth), -1, dtype=object), np.arange(RUNS)
    due, known = np.zeros((RUNS, CYCLES), dtype=object), np.zeros((RUNS, CYCLES), dtype=bool)
    for cycle in range(CYCLES):
        into, word, we, at = (arguments[name][:, cycle] for name in ("into", "word", "we", "at"))
        due[:, cycle] = memory[runs, at]
        known[:, cycle] = (memory[runs, at] != -1) & ~((we == 1) & (into == at))
        memory[runs[we == 1], into[we == 1]] = word[we == 1]
    return due, known
