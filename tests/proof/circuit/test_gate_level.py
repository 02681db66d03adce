"""Link 4: a sound netlist agrees in every value and cycle, and faults that no simulated circuit shows are caught."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from design_bench import random_frames
from onnx_hw import flow
from onnx_hw.build_folder import opened
from onnx_hw.chip.netlist import Netlist
from onnx_hw.chip.synthesize import SynthesisResult, synthesize
from onnx_hw.design import Design
from onnx_hw.errors import ExitCode
from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul
from onnx_hw.proof.circuit import gate_level
from onnx_hw.proof.circuit.gate_level import GateLevel, NotSimulated
from onnx_hw.tensor import Tensor
from onnx_hw_tools import tools
from sketched_designs import alone

Modules = dict[str, Any]
Cell = dict[str, Any]


@dataclass
class Chip:
    """A product with its weights in a block RAM, and a deep FIFO behind it, as cells of a family."""

    design: Design
    netlist: Netlist
    synthesized: SynthesisResult
    frames: dict[str, np.ndarray]

    def simulate(self, folder: Path, fault: Callable[[Modules], None] = lambda modules: None) -> GateLevel:
        """With a netlist that ``fault`` has damaged."""
        damaged = copy.deepcopy(self.modules)
        fault(damaged)
        assert damaged != self.modules or fault.__name__ == "<lambda>"
        (folder / "netlist.json").write_text(json.dumps({"modules": damaged}))
        return gate_level.simulate(self.design, self.netlist, folder / "netlist.json", self.frames)

    @property
    def modules(self) -> Modules:
        """Those that are not the vendor's."""
        modules: Modules = json.loads(self.synthesized.netlist.read_text())["modules"]
        return {name: module for name, module in modules.items() if name.startswith("top")}


@pytest.fixture(scope="module", params=["ecp5"])
def chip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chip:
    for tool in ("yosys", "c++"):
        try:
            tools.find(tool)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    weights = np.random.default_rng(1).integers(-128, 128, (18, 18))
    design = alone(MatMul(Tensor((2, 2, 18), Int(8)), weights), (2, 1), 200)
    netlist = flow.assemble(design, request.param)
    with opened(tmp_path_factory.mktemp("chip") / "build") as folder:
        synthesized = synthesize(folder, netlist.rtlil, netlist.family)
    return Chip(design, netlist, synthesized, random_frames(design, 6, 1))


def cells(modules: Modules, kind: str) -> Iterator[Cell]:
    for name, module in modules.items():
        if name.startswith("top"):
            yield from (cell for _, cell in sorted(module["cells"].items()) if cell["type"] == kind)


def first(modules: Modules, kind: str, having: Callable[[Cell], bool] = lambda cell: True) -> Cell:
    return next(cell for cell in cells(modules, kind) if having(cell))


def is_rom(cell: Cell) -> bool:
    return all(cell["connections"][f"WE{port}"] == ["0"] for port in "AB")


def unsigned_operand(modules: Modules) -> None:
    first(modules, "MULT18X18D")["connections"]["SIGNEDA"] = ["0"]


def upper_half_without_address(modules: Modules) -> None:
    pins = first(modules, "DP16KD", is_rom)["connections"]
    highest = max(k for k in range(14) if pins[f"ADA{k}"] != ["0"])
    pins[f"ADA{highest}"] = ["0"]


def inverted_reset(modules: Modules) -> None:
    first(modules, "TRELLIS_FF", lambda cell: cell["connections"]["LSR"] != ["0"])["parameters"]["LSRMUX"] = "INV"


def flipped_payload(modules: Modules) -> None:
    """Behind all that a probe shows: at the pad."""
    top = modules["top"]
    name = next(name for name, port in top["ports"].items() if port["direction"] == "output" and "payload" in name)
    bits = top["ports"][name]["bits"]
    inverter = {
        "type": "LUT4",
        "parameters": {"INIT": "0101010101010101"},
        "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
        "connections": {"A": [bits[3]], **{pin: ["0"] for pin in "BCD"}, "Z": [10**6]},
        "attributes": {},
    }
    bits[3], top["cells"]["inverter"] = 10**6, inverter


def wrong_port(modules: Modules) -> None:
    """The written block is read through the port that writes it."""
    pins = first(modules, "DP16KD", lambda cell: not is_rom(cell))["connections"]
    for k in range(18):
        pins[f"DOA{k}"], pins[f"DOB{k}"] = pins[f"DOB{k}"], pins[f"DOA{k}"]


def swapped_bytes(modules: Modules) -> None:
    parameters = first(modules, "DP16KD", is_rom)["parameters"]
    for name in [name for name in parameters if name.startswith("INITVAL")]:
        words = [parameters[name][at : at + 20] for at in range(0, 320, 20)]
        parameters[name] = "".join(word[:2] + word[11:] + word[2:11] for word in words)


def flipped_weight(modules: Modules) -> None:
    parameters = first(modules, "DP16KD", is_rom)["parameters"]
    text = parameters["INITVAL_02"]
    parameters["INITVAL_02"] = text[:-3] + str(1 - int(text[-3])) + text[-2:]


def missing_register(modules: Modules) -> None:
    first(modules, "MULT18X18D")["parameters"]["REG_PIPELINE_CLK"] = "NONE"


def lost_enable(modules: Modules) -> None:
    """Of one register: all flip-flops that wait for one signal."""
    enabled = [cell for cell in cells(modules, "TRELLIS_FF") if cell["parameters"]["CEMUX"].strip() == "CE"]
    for cell in enabled:
        if cell["connections"]["CE"] == enabled[0]["connections"]["CE"]:
            cell["parameters"]["CEMUX"] = "1 "


FAULTS = {
    "ecp5": (
        unsigned_operand,
        upper_half_without_address,
        inverted_reset,
        flipped_payload,
        wrong_port,
        swapped_bytes,
        flipped_weight,
        missing_register,
        lost_enable,
    ),
}


def test_a_sound_netlist_agrees(chip: Chip, tmp_path: Path) -> None:
    found = chip.simulate(tmp_path)
    assert found.agrees, found.difference
    assert found.runs == 64 and found.frames >= 128
    assert found.values == found.frames * 72 and found.tokens >= found.values


def test_faults_are_caught(chip: Chip, tmp_path: Path) -> None:
    for fault in FAULTS[chip.netlist.family.primitives]:
        found = chip.simulate(tmp_path, fault)
        assert not found.agrees, fault.__name__
        assert found.difference is not None and found.difference.what.startswith("node.o["), found.difference


def test_only_agreement_is_remembered(chip: Chip, tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        arguments = (folder, chip.design, chip.netlist, chip.synthesized)
        first, again = (gate_level.prove(*arguments, chip.frames) for _ in range(2))
        assert first.agrees and not first.cached
        assert again.cached and again == GateLevel(**{**vars(first), "cached": True})
        wrong = {name: array[::-1].copy() for name, array in chip.frames.items()}
        assert not gate_level.prove(*arguments, wrong).cached


def test_a_difference_is_told_in_the_words_of_the_model(chip: Chip, tmp_path: Path) -> None:
    error = gate_level.difference_error(chip.simulate(tmp_path, FAULTS[chip.netlist.family.primitives][0]))
    assert error.exit_code is ExitCode.MISMATCH
    assert "golden" in error.problems[0].message and "netlist" in error.problems[0].message
    assert "cycle" in error.problems[0].message


def test_what_has_no_model_is_said(chip: Chip, tmp_path: Path) -> None:
    def unknown(modules: Modules) -> None:
        next(iter(modules["top"]["cells"].values()))["type"] = "FUSE"

    with pytest.raises(NotSimulated, match="FUSE"):
        chip.simulate(tmp_path, unknown)
