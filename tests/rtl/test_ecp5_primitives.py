# amaranth: UnusedElaboratable=no
"""Multipliers and ROMs give what they should, as hand-placed ECP5 primitives and as their behavioural twins.

Both elaborations of a block get the same stimulus and are compared with Python's integers in every cycle: with
``platform=None`` the twin, in Amaranth's simulator; with an ECP5 target the primitives, whose behaviour comes from our
Verilog models. Independently of those models, the contents of every block RAM are read back from the netlist that yosys
hands to nextpnr.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator

from onnx_hw_boards.families.ecp5.primitives import block_ram
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_rtl.arithmetic.multiplier import Multiplier, WideMultiplier
from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.target import Target
from onnx_hw_sim.circuit import Circuit, Stimulus, Stream
from onnx_hw_sim.compiled import CompiledSimulator
from onnx_hw_tools import tools

MODELS = Path(block_ram.__file__).parent
TARGET = Target(ECP5.primitives())

Rows = list[list[int]]  # for each cycle, one integer per port


class Bench(Component):
    """Test bench with all inputs of several blocks from the stream ``stimulus``, all their outputs on ``response``.

    The streams never wait: one token in every cycle, on the response from the second cycle on.
    """

    def __init__(self, blocks: Sequence[Component]) -> None:
        self.blocks = blocks
        self.inputs = [port for block in blocks for port in _ports(block, In)]
        self.outputs = [port for block in blocks for port in _ports(block, Out)]
        into = {"stimulus_payload": In(len(Cat(self.inputs))), "stimulus_valid": In(1), "response_ready": In(1)}
        out = {"response_payload": Out(len(Cat(self.outputs))), "response_valid": Out(1), "stimulus_ready": Out(1)}
        super().__init__(into | out)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, block in enumerate(self.blocks):
            m.submodules[f"block{k}"] = block
        m.d.comb += Cat(self.inputs).eq(self.stimulus_payload)
        m.d.comb += [self.response_payload.eq(Cat(self.outputs)), self.stimulus_ready.eq(1)]
        m.d.sync += self.response_valid.eq(1)
        return m


def _ports(block: Component, direction: object) -> list[Signal]:
    members = block.signature.members.items()
    return [Value.cast(getattr(block, name)) for name, member in members if member.flow == direction]


def run_twin(bench: Bench, stimulus: Rows, folder: Path) -> Rows:
    del folder
    rows: Rows = []

    async def drive(context: object) -> None:
        for row in stimulus:
            context.set(bench.stimulus_payload, sum(bit << k for k, bit in enumerate(_bits(row, bench.inputs))))
            rows.append([context.get(port.as_unsigned()) for port in bench.outputs])
            await context.tick()

    simulator = Simulator(bench)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return rows


def run_primitives(
    bench: Bench, stimulus: Rows, folder: Path, change: Callable[[str], str] = lambda netlist: netlist
) -> Rows:
    """Simulate the primitives. ``change`` may damage the netlist."""
    for name in ("yosys", "verilator", "c++"):
        try:
            tools.find(name)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    circuit = Circuit(
        with_models(change(rtlil.convert(bench, platform=TARGET, name="top")), folder),
        sources=(Stream("stimulus", len(bench.stimulus_payload), 1, signed=False),),
        sinks=(Stream("response", len(bench.response_payload), 1, signed=False),),
    )
    recording = CompiledSimulator.build(circuit, folder).run(
        Stimulus(
            tokens={"stimulus": np.array([_bits(row, bench.inputs) for row in stimulus])},
            offers={"stimulus": np.arange(len(stimulus))},
            ready={"response": np.ones(0, dtype=bool)},
            expected={"response": len(stimulus) - 1},
            cycles=len(stimulus) + 1,
        )
    )
    first: Rows = [[0] * len(bench.outputs)]
    return first + [_integers(row, bench.outputs) for row in recording.tokens["response"]]


def with_models(netlist: str, folder: Path) -> str:
    """Replace the primitives in the netlist by our models, and the flip-flop by yosys' own model."""
    (folder / "dut.il").write_text(netlist)
    for model in ("MULT18X18D.v", "DP16KD.v"):
        shutil.copy(MODELS / model, folder)
    script = "read_verilog -DNO_INCLUDES +/ecp5/cells_sim.v; read_verilog -overwrite MULT18X18D.v DP16KD.v"
    script += "; read_rtlil dut.il; hierarchy -check -top top; proc; opt_clean"
    script += "; write_rtlil whole.il"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=folder, log=folder / "models.log")
    return (folder / "whole.il").read_text()


def _bits(row: Sequence[int], ports: Sequence[Signal]) -> list[int]:
    return [value >> k & 1 for value, port in zip(row, ports, strict=True) for k in range(len(port))]


def _integers(bits: np.ndarray, ports: Sequence[Signal]) -> list[int]:
    parts = np.split(bits, np.cumsum([len(port) for port in ports])[:-1])
    return [sum(int(bit) << k for k, bit in enumerate(part)) for part in parts]


def wrong_blocks(bench: Bench, stimulus: Rows, response: Rows) -> list[int]:
    """Return the blocks that differ from Python's integers in any cycle."""
    assert len(response) == len(stimulus)
    found, column = [], 0
    for k, block in enumerate(bench.blocks):
        ports = _ports(block, In)
        arguments = [row[column : column + len(ports)] for row in stimulus]
        column += len(ports)
        expected = [_value(block, ports, row) for row in arguments[: -block.LATENCY]]
        if [row[k] for row in response[block.LATENCY :]] != expected:
            found.append(k)
    return found


def _value(block: Component, ports: list[Signal], row: list[int]) -> int:
    if isinstance(block, Rom):
        return block.words[row[0]]
    signed = [value - (value >> len(port) - 1 << len(port)) * port.shape().signed for value, port in zip(row, ports)]  # noqa: B905
    return signed[0] * signed[1] & ((1 << len(block.p)) - 1)


def near_the_edges(source: random.Random, width: int) -> int:
    """Draw a value, in half of the cases at the ends of the ranges, signed and unsigned."""
    edges = (0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1)
    return source.choice(edges) & ((1 << width) - 1) if source.random() < 0.5 else source.getrandbits(width)


def contents(width: int, depth: int) -> list[int]:
    return [random.Random(f"{width} {place}").getrandbits(width) for place in range(depth)]


both = pytest.mark.parametrize("run", [run_twin, run_primitives])


@both
def test_multipliers(run: Callable[..., Rows], tmp_path: Path) -> None:
    bench, source = (
        Bench(
            [
                Multiplier(8, 8),
                Multiplier(18, 18),
                Multiplier(18, 18, a_signed=False, b_signed=False),
                Multiplier(9, 17, b_signed=False),
                Multiplier(1, 18, a_signed=False),
                WideMultiplier(18, 34, b_signed=False),
                WideMultiplier(36, 36),
                WideMultiplier(36, 36, a_signed=False, b_signed=False),
                WideMultiplier(24, 19, a_signed=False),
                WideMultiplier(36, 8, b_signed=False),
                WideMultiplier(20, 20, b_signed=False),
            ]
        ),
        random.Random(1),
    )
    stimulus = [[near_the_edges(source, len(port)) for port in bench.inputs] for _ in range(1000)]
    assert wrong_blocks(bench, stimulus, run(bench, stimulus, tmp_path)) == []


def test_hardware_multipliers_are_counted() -> None:
    counts = {(a, b): WideMultiplier(a, b).dsp for a, b in ((18, 18), (18, 34), (19, 12), (36, 36))}
    assert counts == {(18, 18): 1, (18, 34): 2, (19, 12): 2, (36, 36): 4}
    assert [WideMultiplier(*shape).LATENCY for shape in counts] == [3, 4, 4, 5]


@pytest.mark.parametrize("bits", [0, 37])
def test_widths_out_of_range_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match=f"not {bits}"):
        WideMultiplier(8, bits)
    with pytest.raises(ValueError, match=f"not {bits}"):
        Multiplier(bits, 8)


SHAPES = [(36, 300), (18, 600), (9, 1100), (4, 2100), (2, 4200), (1, 8300), (40, 600), (77, 33)]
BANKED = (8, 4200)
IN_LOGIC = (30, 32)


@both
def test_roms(run: Callable[..., Rows], tmp_path: Path) -> None:
    shapes = [*SHAPES, BANKED, IN_LOGIC, (7, 1)]
    source = random.Random(2)
    bench = Bench([Rom(shape[0], contents(*shape)) for shape in shapes])
    stimulus = [[source.randrange(depth) for _, depth in shapes] for _ in range(1000)]
    assert wrong_blocks(bench, stimulus, run(bench, stimulus, tmp_path)) == []


def test_those_roms_are_of_every_kind() -> None:
    assert {block_ram.best_geometry(*shape)[0] for shape in SHAPES} == set(block_ram.GEOMETRIES)
    assert block_ram.best_geometry(*BANKED)[2] == 3
    netlists = [
        rtlil.convert(Rom(shape[0], contents(*shape)), platform=TARGET) for shape in (*SHAPES, BANKED, IN_LOGIC)
    ]
    blocks = [netlist.count(r"cell \DP16KD ") for netlist in netlists]
    assert blocks == [1, 1, 1, 1, 1, 1, 3, 3, 3, 0]


@pytest.mark.parametrize(
    ("words", "message"), [([], "0 words"), ([0, 256], "word 1 is 256"), ([-129], "word 0 is -129")]
)
def test_words_that_do_not_fit_are_refused(words: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rom(8, words)


def test_negative_words_are_twos_complement() -> None:
    assert Rom(8, [-1, -128, 255]).words == (255, 128, 255)


FAULTS: list[tuple[Component, str, str]] = [  # a block, a text in its netlist, what the fault makes of that text
    (Rom(36, contents(36, 100)), r"connect \OCEA 1'1", r"connect \OCEA 1'0"),
    (Rom(36, contents(36, 100)), r"connect \ADB13 1'1", r"connect \ADB13 1'0"),
    (Rom(18, contents(18, 600)), r"\DATA_WIDTH_A 18", r"\DATA_WIDTH_A 9"),
    (Multiplier(8, 8), r'\REG_PIPELINE_CLK "CLK0"', r'\REG_PIPELINE_CLK "NONE"'),
    (Multiplier(8, 8), r"connect \SIGNEDB 1'1", r"connect \SIGNEDB 1'0"),
    (Multiplier(8, 8), "", ""),
]


@pytest.mark.slow
def test_faults_are_seen(tmp_path: Path) -> None:
    """Check that a fault in every block but the last is found, and nothing else."""
    bench, source = Bench([block for block, _, _ in FAULTS]), random.Random(3)
    stimulus = [[source.randrange(100) for _ in bench.inputs] for _ in range(300)]
    stimulus += [[source.getrandbits(8) if len(port) == 8 else 0 for port in bench.inputs] for _ in range(300)]

    def break_blocks(netlist: str) -> str:
        for k, (_, right, wrong) in enumerate(FAULTS):
            before, name, after = netlist.partition(f"module \\top.block{k}\n")
            assert right in after
            netlist = before + name + after.replace(right, wrong, 1)
        return netlist

    response = run_primitives(bench, stimulus, tmp_path, break_blocks)
    assert wrong_blocks(bench, stimulus, response) == list(range(len(FAULTS) - 1))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_contents_read_back_from_the_netlist(shape: tuple[int, int], tmp_path: Path) -> None:
    """Compare pin by pin, as the memory usage guide numbers the pins, without our code that wrote the contents."""
    width, depth = shape
    words = contents(width, depth)
    rom = Rom(width, words)
    (tmp_path / "rom.il").write_text(rtlil.convert(rom, name="top", platform=TARGET))
    script = "read_rtlil rom.il; synth_ecp5 -top top -json rom.json"
    try:
        tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=tmp_path, log=tmp_path / "yosys.log")
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    module = json.loads((tmp_path / "rom.json").read_text())["modules"]["top"]
    address_nets = {net: k for k, net in enumerate(module["ports"]["addr"]["bits"])}
    data_nets = {net: k for k, net in enumerate(module["ports"]["data"]["bits"])}
    cells = [cell for cell in module["cells"].values() if cell["type"] == "DP16KD"]
    _, columns, banks = block_ram.best_geometry(width, depth)
    assert len(cells) == columns * banks

    addresses = np.arange(depth)
    read = np.zeros((depth, width), dtype=bool)
    driven = np.zeros(width, dtype=bool)
    for cell in cells:
        memory = _memory(cell["parameters"])
        for port in "AB":
            at = np.zeros(depth, dtype=np.int64)
            for k in range(14):
                (pin,) = cell["connections"].get(f"AD{port}{k}", ["0"])
                at += (addresses >> address_nets[pin] & 1 if pin in address_nets else int(pin == "1")) << k
            port_width = int(cell["parameters"][f"DATA_WIDTH_{port}"], 2)
            for k in range(18):
                for net in cell["connections"].get(f"DO{port}{k}", []):
                    if net in data_nets:
                        read[:, data_nets[net]] = memory[_first_bit(at, port_width) + k]
                        driven[data_nets[net]] = True
    assert driven.all()
    assert [sum(int(bit) << k for k, bit in enumerate(row)) for row in read] == words


def _memory(parameters: dict[str, str]) -> np.ndarray:
    """Return 1024 words of 18 bits in one row. JSON writes a parameter's highest bit first."""
    values = [parameters[f"INITVAL_{k:02X}"][::-1] for k in range(64)]
    words = [value[20 * k : 20 * k + 18] for value in values for k in range(16)]
    return np.array([bit == "1" for bit in "".join(words)])


def _first_bit(address: np.ndarray, port_width: int) -> np.ndarray:
    """Return the bit at which a port begins to read, from the 14 bits of its address pins."""
    if port_width == 18:
        return (address >> 4) * 18
    if port_width == 9:
        return (address >> 3) * 9
    return (address >> 3) * 9 + address % 8  # of the byte's nine bits, the lower eight
