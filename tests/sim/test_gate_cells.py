"""Models of cells against yosys' own models, as far as it has some: every table entry, every mode, drawn inputs.

yosys decomposes its models into gates of two inputs and flip-flops. Those run in the same machine as ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from onnx_hw_sim.circuit import Stream
from onnx_hw_sim.gates.cell_models import FlipFlop, Model, Parts
from onnx_hw_sim.gates.native_gates import RUNS
from onnx_hw_sim.gates.netlist import ONE, ChipCell, flatten, read_netlist
from onnx_hw_sim.gates.simulator import GateSimulator, Pattern, Start, StreamPlan
from onnx_hw_tools import tools

CYCLES, WARM = 700, 500
INPUTS = 96
LIBRARY = {"ecp5": "+/ecp5/cells_sim.v", "ice40": "+/ice40/cells_sim.v", "gowin": "+/gowin/cells_sim.v"}

GATES = {
    "$_NOT_": 0b01,
    "$_BUF_": 0b10,
    "$_AND_": 0b1000,
    "$_NAND_": 0b0111,
    "$_OR_": 0b1110,
    "$_NOR_": 0b0001,
    "$_XOR_": 0b0110,
    "$_XNOR_": 0b1001,
    "$_ANDNOT_": 0b0010,
    "$_ORNOT_": 0b1011,
}


def gate(cell: ChipCell, parts: Parts) -> None:
    parts.table(tuple(cell.pin(name) for name in "AB" if name in cell.pins), GATES[cell.kind], cell.pin("Y"))


def mux(cell: ChipCell, parts: Parts) -> None:
    parts.table((cell.pin("A"), cell.pin("B"), cell.pin("S")), 0b11001010, cell.pin("Y"))


def dff(cell: ChipCell, parts: Parts) -> None:
    parts.flip_flops.append(FlipFlop(cell.pin("Q"), cell.pin("D"), cell.tied("E", ONE)))


THEIRS: dict[str, Model] = {
    **dict.fromkeys(GATES, gate),
    "$_MUX_": mux,
    "$_DFF_P_": dff,
    "$_DFFE_PP_": dff,
}


def instances(
    family: str, generator: np.random.Generator
) -> Iterator[tuple[str, dict[str, str], dict[str, int], dict[str, int]]]:
    """Yield (kind, parameters, widths of inputs, widths of outputs)."""

    def bits(width: int) -> str:
        return f"{width}'b" + "".join(generator.choice(["0", "1"], width))

    def some(*texts: str) -> str:
        return f'"{generator.choice(texts)}"'

    if family == "ecp5":
        for _ in range(12):
            yield "LUT4", {"INIT": bits(16)}, dict.fromkeys("ABCD", 1), {"Z": 1}
            tables = {f"INIT{k}": bits(16) for k in "01"} | {f"INJECT1_{k}": some("YES", "NO") for k in "01"}
            pins = dict.fromkeys([f"{name}{k}" for name in "ABCD" for k in "01"], 1)
            yield "CCU2C", tables, {**pins, "CIN": 1}, {"S0": 1, "S1": 1, "COUT": 1}
            yield (
                "TRELLIS_FF",
                {
                    "CEMUX": some("1", "0", "CE", "INV"),
                    "LSRMUX": some("LSR", "INV"),
                    "SRMODE": '"LSR_OVER_CE"',
                    "REGSET": some("SET", "RESET"),
                },
                {"LSR": 1, "CE": 1, "DI": 1},
                {"Q": 1},
            )
        yield "PFUMX", {}, {"ALUT": 1, "BLUT": 1, "C0": 1}, {"Z": 1}
        yield "L6MUX21", {}, {"D0": 1, "D1": 1, "SD": 1}, {"Z": 1}
        yield "TRELLIS_DPR16X4", {}, {"DI": 4, "WAD": 4, "WRE": 1, "RAD": 4}, {"DO": 4}
    elif family == "ice40":
        for _ in range(8):
            yield "SB_LUT4", {"LUT_INIT": bits(16)}, {f"I{k}": 1 for k in range(4)}, {"O": 1}
        yield "SB_CARRY", {}, {"I0": 1, "I1": 1, "CI": 1}, {"CO": 1}
        for enable in ("", "E"):
            for reset in ("", "SR", "SS"):
                pins = {"D": 1} | ({"E": 1} if enable else {}) | ({reset[-1]: 1} if reset else {})
                yield f"SB_DFF{enable}{reset}", {}, pins, {"Q": 1}
    else:
        for inputs in (1, 2, 3, 4):
            for _ in range(4):
                yield f"LUT{inputs}", {"INIT": bits(1 << inputs)}, {f"I{k}": 1 for k in range(inputs)}, {"F": 1}
        for mode in range(10):
            yield "ALU", {"ALU_MODE": str(mode)}, dict.fromkeys(("I0", "I1", "I3", "CIN"), 1), {"SUM": 1, "COUT": 1}
        for inputs in (5, 6, 7, 8):
            yield f"MUX2_LUT{inputs}", {}, {"I0": 1, "I1": 1, "S0": 1}, {"O": 1}
        for reset, pin in (("", ""), ("S", "SET"), ("R", "RESET")):
            for enable in ("", "E"):
                pins = {"D": 1} | ({"CE": 1} if enable else {}) | ({pin: 1} if pin else {})
                yield f"DFF{reset}{enable}", {}, pins, {"Q": 1}
        yield "RAM16SDP4", {}, {"DI": 4, "WAD": 4, "WRE": 1, "RAD": 4}, {"DO": 4}


CLOCKS = {"TRELLIS_FF": "CLK", "TRELLIS_DPR16X4": "WCK", "RAM16SDP4": "CLK"}


def verilog(family: str) -> tuple[str, int]:
    """Return a netlist of many cells, each on inputs drawn from ``x``, and the width of ``y``."""
    generator = np.random.default_rng(7)
    lines, width = [], 0
    for number, (kind, parameters, ins, outs) in enumerate(instances(family, generator)):
        pins = []
        for name, bits in ins.items():
            chosen = generator.choice(INPUTS, bits, replace=False)
            pins.append(f".{name}({{{', '.join(f'x_payload[{k}]' for k in chosen)}}})")
        for name, bits in outs.items():
            pins.append(f".{name}(y_payload[{width + bits - 1}:{width}])")
            width += bits
        clock = CLOCKS.get(kind, ("C" if kind.startswith("SB_DFF") else "CLK" if kind.startswith("DFF") else ""))
        pins += [f".{clock}(clk)"] if clock else []
        given = ", ".join(f".{name}({value})" for name, value in parameters.items())
        lines.append(f"  {kind} #({given}) c{number} ({', '.join(pins)});")
    head = f"""module top(input clk, rst, x_valid, y_ready, output x_ready, y_valid, input [{INPUTS - 1}:0] x_payload,
    output [{width - 1}:0] y_payload);
  assign x_ready = 1, y_valid = 1;
"""
    return head + "\n".join(lines) + "\nendmodule\n", width


@pytest.mark.parametrize("family", LIBRARY)
def test_models_are_as_those_of_yosys(family: str, tmp_path: Path) -> None:
    for tool in ("yosys", "c++"):
        try:
            tools.find(tool)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    text, width = verilog(family)
    (tmp_path / "top.v").write_text(text)
    library = f"read_verilog {{}} -DNO_INCLUDES -DBLACKBOX {LIBRARY[family]}; read_verilog top.v; hierarchy -top top; "
    ours = library.format("-lib") + "select top; proc; write_json -selected ours.json; design -reset; "
    theirs = library.format("") + "proc; flatten; memory_map; opt; techmap; opt; simplemap; "
    theirs += "dfflegalize -cell $_DFF_P_ 01 -cell $_DFFE_PP_ 01; simplemap; opt_clean; write_json theirs.json"
    tools.run(tools.find("yosys"), ["-q", "-p", ours + theirs], cwd=tmp_path, log=tmp_path / "yosys.log")
    models = import_module(f"onnx_hw_boards.families.{family}.cell_models").LIBRARY.models
    seen = [run(tmp_path / f"{name}.json", known, width) for name, known in (("ours", models), ("theirs", THEIRS))]
    differ = np.flatnonzero((seen[0] != seen[1]).any(axis=(0, 1)))
    assert not len(differ), f"bits {differ.tolist()} of {text}"
    assert (np.ptp(seen[0], axis=(0, 1)) > 0).mean() > 0.8  # their outputs change


def run(netlist: Path, models: dict[str, Model], width: int) -> np.ndarray:
    """Return the outputs, (runs, cycles, bits), from the time at which all registers and memories have been written."""
    x, y = Stream("x", INPUTS, 1, signed=False), Stream("y", width, 1, signed=False)
    simulator = GateSimulator(flatten(read_netlist(netlist)), models, [x], [y], 1)
    plan = StreamPlan(
        {"x": np.random.default_rng(3).integers(0, 2, (RUNS, CYCLES, INPUTS))},
        [Pattern({"x": np.zeros(CYCLES, dtype=np.int64)}, {"y": np.ones(0, dtype=bool)})],
        [Start(None, 0, k) for k in range(RUNS)],
        CYCLES,
    )
    return np.stack([found["y"].values for found in simulator.run(plan)])[:, WARM:]
