"""Link 4: a sound netlist agrees in every value and cycle, and faults that no simulated circuit shows are caught."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.exact.integers import Int
from onnx_hw.implement.synthesize import SynthesisResult, synthesize
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit import gate_level
from onnx_hw.prove.circuit.gate_level import GateLevel, NotSimulated
from onnx_hw.report.collect.sections import describe_activity
from onnx_hw.runtime.build_folder import opened
from onnx_hw_tools import tools
from support.design_bench import random_frames
from support.hand_built_designs import alone
from support.injected_netlist_faults import FAULTS, Modules
from support.targets import on_board

WEIGHT = re.compile(r"weight 0 of word \d+ of node: golden -?\d+, netlist -?\d+, in design\.n0_node\.core\.weights0")


@dataclass
class Chip:
    """A product with its weights in a block RAM, and a deep FIFO behind it, as cells of a family."""

    design: Design
    netlist: Netlist
    synthesized: SynthesisResult
    frames: dict[str, np.ndarray]
    text: str

    def simulate(self, folder: Path, fault: Callable[[Modules], None] = lambda modules: None) -> GateLevel:
        """With a netlist that ``fault`` has damaged."""
        modules: Modules = json.loads(self.text)
        fault(modules)
        damaged = json.dumps(modules)
        assert damaged != self.text or fault.__name__ == "<lambda>"
        (folder / "netlist.json").write_text(f'{{"modules": {damaged}}}')
        return gate_level.simulate(self.design, self.netlist, folder / "netlist.json", self.frames)


@pytest.fixture(scope="module", params=["ecp5", "up5k", "gw1n9c", "gw5ast138c"])
def chip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chip:
    for tool in ("yosys", "c++"):
        try:
            tools.find(tool)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    weights = np.random.default_rng(1).integers(-128, 128, (18, 18))
    design = alone(MatMul(Tensor((2, 2, 18), Int(6)), weights), (1, 1), 200)
    netlist = flow.assemble(on_board(design, find_board(request.param)))
    with opened(tmp_path_factory.mktemp("chip") / "build") as folder:
        synthesized = synthesize(folder, netlist.rtlil, netlist.family)
    modules = json.loads(synthesized.netlist.read_text())["modules"]
    ours = {name: module for name, module in modules.items() if name.startswith("top")}  # others are the vendor's
    return Chip(design, netlist, synthesized, random_frames(design, 6, 1), json.dumps(ours))


def test_a_sound_netlist_agrees(chip: Chip, tmp_path: Path) -> None:
    found = chip.simulate(tmp_path)
    assert found.agrees, found.difference
    assert found.runs == 64 and found.frames >= 128
    assert found.values == found.frames * 72 and found.tokens >= found.values
    assert (found.blocks, found.of_blocks, found.weights) == (1, 1, 18 * 18)
    core = found.activity["node"]
    assert 50 < core.toggles < core.nets / 2
    assert describe_activity(replace(found, activity={}), chip.design) is None
    activity = describe_activity(found, chip.design)
    assert activity is not None and [each.name for each in activity.cores] == ["node"]
    assert activity.cores[0].share == pytest.approx(core.toggles / sum(a.toggles for a in found.activity.values()))


def test_faults_are_caught(chip: Chip, tmp_path: Path) -> None:
    for fault in FAULTS[chip.netlist.family.folder]:
        found = chip.simulate(tmp_path, fault)
        assert not found.agrees, fault.__name__
        assert "node.o[" in found.difference, (fault.__name__, found.difference)
        of_rom = fault.__name__ in ("swapped_bytes", "flipped_weight")
        assert bool(WEIGHT.match(found.difference)) >= of_rom, (fault.__name__, found.difference)


@pytest.mark.parametrize("chip", ["ecp5"], indirect=True)
def test_only_agreement_is_remembered(chip: Chip, tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        arguments = (folder, chip.design, chip.netlist, chip.synthesized)
        first, again = (gate_level.prove(*arguments, chip.frames) for _ in range(2))
        assert first.agrees and not first.cached
        assert again.cached and again == GateLevel(**{**vars(first), "cached": True})
        wrong = {name: array[::-1].copy() for name, array in chip.frames.items()}
        assert not gate_level.prove(*arguments, wrong).cached


@pytest.mark.parametrize("chip", ["ecp5"], indirect=True)
def test_a_difference_is_told_in_the_words_of_the_model(chip: Chip, tmp_path: Path) -> None:
    error = gate_level.difference_error(chip.simulate(tmp_path, FAULTS[chip.netlist.family.folder][0]))
    assert error.exit_code is ExitCode.MISMATCH
    assert "golden" in error.problems[0].message and "netlist" in error.problems[0].message
    assert "cycle" in error.problems[0].message


@pytest.mark.parametrize("chip", ["ecp5"], indirect=True)
def test_what_has_no_model_is_said(chip: Chip, tmp_path: Path) -> None:
    def unknown(modules: Modules) -> None:
        next(iter(modules["top"]["cells"].values()))["type"] = "FUSE"

    with pytest.raises(NotSimulated, match="FUSE"):
        chip.simulate(tmp_path, unknown)
