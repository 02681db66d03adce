"""The simulation stage: which simulator there is, and what is shown when the circuit is not what was promised."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from onnx_hw.cli.cli import main
from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit import prove as simulation
from onnx_hw.prove.circuit.waves import CYCLES_SHOWN_AFTER, CYCLES_SHOWN_BEFORE
from onnx_hw_sim.compiled import CompiledSimulator
from onnx_hw_sim.lockstep.netlist import UnsupportedCircuit
from onnx_hw_sim.lockstep.simulator import LockstepSimulator
from onnx_hw_sim.waves import CYCLE_NS
from onnx_hw_tools import tools
from support.hand_built_designs import alone
from support.small_model import small_model


@pytest.fixture
def one_wrong_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The circuit of every product computes with one weight that golden does not know."""
    right = MatMul.core

    def wrong(self: MatMul, folding: Folding, depths: dict[str, int]) -> object:
        weights = self.weights.copy()
        weights[-1, -1] += 1 if weights[-1, -1] < 0 else -1
        return right(replace(self, weights=weights), folding, depths)

    monkeypatch.setattr(MatMul, "core", wrong)


def test_a_difference_comes_with_its_waveform(one_wrong_weight: None, tmp_path: Path) -> None:
    out = tmp_path / "out"
    model = small_model(tmp_path / "small.onnx")
    command = ["build", str(model), "--out", str(out), "--multipliers", "12", "--stop-after", "simulate"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 4
    (told, *others) = done.stderr.split("error[circuit-differs]: ")[1:]
    place = re.match(r"(\S+)\[\d+, \d+, \d+, \d+\]: golden -?\d+, circuit -?\d+, cycle (\d+) \(", told)
    assert place is not None, told
    waves = out / "difference.vcd"
    at = int(place[2]) * CYCLE_NS
    save = waves.with_suffix(".gtkw")
    assert f"  where  {waves}, at {at} ns: `gtkwave {waves} {save}`\n" in told
    assert f"*-6.0 {at} -1" in save.read_text()
    _names_in(save.read_text(), waves.read_text())
    assert len(others) == 2 and not any("where" in other for other in others)  # with stalls: the same fault
    times = [int(time) for time in re.findall(r"^#(\d+)$", waves.read_text(), re.MULTILINE)]
    assert min(times) <= at <= max(times)
    assert len(times) <= 2 * (CYCLES_SHOWN_BEFORE + CYCLES_SHOWN_AFTER + 1)
    assert '"waves": "difference.vcd"' in (out / "report.json").read_text()


def _names_in(save: str, vcd: str) -> None:
    """Everything listed is in the file, in the scope of its node."""
    listed = [row.split("[")[0] for row in save.splitlines() if row[0] not in "[*@-"]
    scopes = re.findall(r"^\$scope module (\S+) \$end\n((?:\$var wire \d+ =.*\n)+)", vcd, re.MULTILINE)
    declared = {f"{scope}.{name}" for scope, body in scopes for name in re.findall(r"=\S+ (\S+)", body)}
    assert len(listed) > 10 and set(listed) <= declared


def test_without_tools_the_difference_is_told_all_the_same(
    one_wrong_weight: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "c++")
    design = alone(MatMul(Tensor((1, 2, 3), Int(8)), np.ones((2, 3), dtype=np.int64)), (3, 2), 4)
    golden = {"i": np.arange(12).reshape(2, 1, 2, 3)}
    golden |= {"node.o": golden["i"].sum(axis=-1, keepdims=True).repeat(2, axis=-1)}
    simulator, names = simulation.compile_simulator(design, tmp_path)
    plan = simulation.plan_runs(design, {"i": golden["i"]}, simulator.name)
    proof = simulation.prove(design, simulator, names, plan)
    assert not proof.agrees
    assert simulation.write_waves(design, proof, golden, tmp_path) is None
    error = simulation.difference_error(proof)
    assert "node.o[0, 0, 0, 1]: golden 3, circuit 1" in error.problems[0].message
    assert not error.problems[0].where


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As on a machine that has all tools but those."""
    find = tools.find

    def found(name: str) -> tools.Tool:
        if name in names:
            raise tools.ToolMissing(name, ("PATH",), tools.CATALOGUE[name].variable)
        return find(name)

    monkeypatch.setattr(tools, "find", found)
    for name in names:
        monkeypatch.delenv(tools.CATALOGUE[name].variable, raising=False)


SMALL = alone(MatMul(Tensor((1, 1, 2), Int(8)), np.ones((2, 2), dtype=np.int64)), (1, 1), 4)


def modelled_by_nobody(*_: object, **__: object) -> object:
    raise UnsupportedCircuit("a cell $div")


@pytest.mark.parametrize(
    ("missing", "told"), [("c++", "no C++ compiler was found"), ("verilator", "no Verilator was found")]
)
def test_a_slow_simulator_takes_over(missing: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, missing)
    monkeypatch.setattr(LockstepSimulator, "build", LockstepSimulator.build if missing == "c++" else modelled_by_nobody)
    warnings: list[tuple[str, str]] = []
    simulator, names = simulation.compile_simulator(SMALL, tmp_path, warn=lambda *said: warnings.append(said))
    assert simulator.name == "interpreted"
    ((message, hint),) = warnings
    assert message.startswith(told) and "fewer frames" in message and "pip install" in hint
    plan = simulation.plan_runs(SMALL, {"i": np.arange(12).reshape(6, 1, 1, 2)}, simulator.name)
    proof = simulation.prove(SMALL, simulator, names, plan)
    assert proof.agrees and proof.frames == 2 and len(proof.runs) == 3


def test_what_is_not_modelled_in_lockstep_goes_to_verilator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = {"i": np.arange(12).reshape(6, 1, 1, 2)}
    seen = []
    for _ in range(2):
        simulator, names = simulation.compile_simulator(SMALL, tmp_path)
        proof = simulation.prove(SMALL, simulator, names, simulation.plan_runs(SMALL, frames, simulator.name))
        assert proof.agrees and proof.frames == 6
        seen.append((type(simulator), proof.outputs["node.o"], [run.cycles for run in proof.runs]))
        monkeypatch.setattr(LockstepSimulator, "build", modelled_by_nobody)
    (one, outputs, cycles), (other, same_outputs, same_cycles) = seen
    assert (one, other) == (LockstepSimulator, CompiledSimulator)
    assert np.array_equal(outputs, same_outputs) and cycles == same_cycles
    assert np.array_equal(outputs[..., 0], frames["i"].sum(axis=-1))


@pytest.mark.parametrize("frames", range(1, 60))
def test_any_two_neighbouring_frames_are_streamed_back_to_back(frames: int) -> None:
    pieces = simulation.split_frames(frames)
    assert [frame for k, piece in enumerate(pieces) for frame in piece[k > 0 :]] == list(range(frames))
    assert all(piece.start == before.stop - 1 for before, piece in itertools.pairwise(pieces))
    assert len(pieces) <= simulation.MAX_PIECES
    assert min(map(len, pieces)) >= min(frames, simulation.FULL_RATE_FRAMES)
    assert simulation.split_frames(frames, 1) == [range(frames)]


def test_no_other_tool_is_taken_for_one_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(tools.ToolMissing, match="no such program"):
        simulation.compile_simulator(SMALL, tmp_path)


def test_without_yosys_no_build_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "yosys")
    with pytest.raises(tools.ToolMissing):
        simulation.compile_simulator(SMALL, tmp_path)
