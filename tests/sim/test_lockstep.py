"""Runs in lockstep: each agrees with other simulators, whatever the other runs do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw_sim.circuit import run_together, runs_at_once
from onnx_hw_sim.compiled import CompiledSimulator
from onnx_hw_sim.interpreted import InterpretedSimulator
from onnx_hw_sim.lockstep import library
from onnx_hw_sim.lockstep.levelize import order
from onnx_hw_sim.lockstep.library import RUNS, vectors_of
from onnx_hw_sim.lockstep.netlist import UnsupportedCircuit
from onnx_hw_sim.lockstep.simulator import LockstepSimulator
from onnx_hw_sim.lockstep.steps import Step
from onnx_hw_tools.tools import ToolFailed
from support.random_circuits import Drawn, Exchanges, Expressions, words
from support.simulated_circuits import DEAD, RING, Adder, assert_same, stimulus


@pytest.mark.parametrize("drawn", [Expressions, Exchanges])
@pytest.mark.parametrize("seed", range(4))
def test_drawn_circuits_do_what_others_say(drawn: type[Drawn], seed: int, compiled_in: Path) -> None:
    """Compare drawn circuits with Verilator.

    So they agree with Amaranth, too, except for a few corners: parts of a word beyond its end, and what is read in a
    reset.
    """
    circuit = drawn(seed).circuit()
    given = [words(circuit, RUNS * seed + k) for k in range(RUNS)]
    together = LockstepSimulator.build(circuit, compiled_in).run_together(given)
    witness, other = CompiledSimulator.build(circuit, compiled_in), InterpretedSimulator(circuit, drawn(seed))
    for one, seen in zip(given, together, strict=True):
        assert_same(seen, witness.run(one))
        assert np.mean(seen.tokens["y"] == other.run(one).tokens["y"]) > 0.9


def test_runs_of_unlike_lengths_and_fates(compiled_in: Path) -> None:
    """Run one with a false start, one that hangs, one without tokens, one cut off, and more than fit at once."""
    simulator = LockstepSimulator.build(DEAD.circuit(), compiled_in)
    cases = [
        stimulus(DEAD, 7, seed=1, false_start=3, patience=20),
        stimulus(DEAD, 9, seed=2, patience=50),
        stimulus(DEAD, 0, seed=3, tail=4),
        stimulus(DEAD, 6, seed=4, cycles=3),
        stimulus(DEAD, 5, seed=5, tail=1),
        stimulus(DEAD, 2, seed=6),
    ]
    assert runs_at_once(simulator) == RUNS < len(cases)
    slow = InterpretedSimulator(DEAD.circuit(), DEAD)
    for case, seen in zip(cases, run_together(simulator, cases), strict=True):
        assert_same(seen, slow.run(case))
    assert [r.deadlocked for r in run_together(simulator, cases)] == [True, True, False, False, False, False]


def test_more_runs_than_there_is_room_for_are_refused(compiled_in: Path) -> None:
    simulator = LockstepSimulator.build(DEAD.circuit(), compiled_in)
    with pytest.raises(ValueError, match=f"at most {RUNS} runs at once, not {RUNS + 1}"):
        simulator.run_together([stimulus(DEAD, 1)] * (RUNS + 1))


def test_what_waits_for_itself_is_not_modelled(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCircuit, match="wait for each other"):
        LockstepSimulator.build(RING, tmp_path)


def test_a_cell_that_nobody_knows_is_not_modelled(tmp_path: Path) -> None:
    divided = RING.rtlil.replace(r"$and $2", r"$div $2").replace(
        r"\not_valid" + "\n    connect \\Y", r"\b__c_ready" + "\n    connect \\Y"
    )
    assert "$div" in divided
    with pytest.raises(UnsupportedCircuit, match=r"a cell \$div"):
        LockstepSimulator.build(replace(RING, rtlil=divided), tmp_path)


def test_registers_that_exchange_are_set_last() -> None:
    def step(reads: set[int], out: int, keeps: bool = True) -> Step:
        return Step(frozenset(reads), lambda names: [], out, keeps)

    chain = [step({0}, 1), step({1}, 2), step({2}, 3)]  # 3 takes 2 before 2 takes 1
    assert list(order(chain).steps) == [2, 1, 0] and not order(chain).late
    ring = [step({2}, 1), step({1}, 2)]
    assert len(order(ring).late) == 1
    with pytest.raises(UnsupportedCircuit):
        order([step({2}, 1, keeps=False), step({1}, 2, keeps=False)])


def test_the_same_circuit_is_compiled_once(compiled_in: Path) -> None:
    first = LockstepSimulator.build(DEAD.circuit(), compiled_in).library
    before = first.stat().st_mtime_ns
    assert LockstepSimulator.build(DEAD.circuit(), compiled_in).library == first
    assert first.stat().st_mtime_ns == before


def test_a_failed_compiler_leaves_a_log_and_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "CIRCUIT_FLAGS", ["-no-such-flag"])
    with pytest.raises(ToolFailed) as caught:
        LockstepSimulator.build(Adder(lanes=1, bits=2).circuit(), tmp_path)
    assert caught.value.tool == "c++" and caught.value.log.is_file()
    assert not list(tmp_path.rglob("simulation.so"))


def test_processors_without_vector_instructions_get_no_flags() -> None:
    assert vectors_of("fpu sse2 avx2 bmi2") == ["-mavx2"]
    assert vectors_of("fpu asimd") == []
