"""All engines see the same circuit do the same things, and the right ones."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw_sim import shared_library, stalls
from onnx_hw_sim.circuit import Recording, Simulator, Stimulus, Stream, WindowedSimulator
from onnx_hw_sim.cocotb_engine import CocotbSimulator
from onnx_hw_sim.compiled import CompiledSimulator, SimulationError
from onnx_hw_sim.interpreted import InterpretedSimulator
from onnx_hw_sim.lockstep.simulator import LockstepSimulator
from onnx_hw_sim.shared_library import LIBRARY
from onnx_hw_tools.tools import ToolFailed
from support.simulated_circuits import DEAD, RING, Adder, Lookup, assert_same, stimulus

ADDER = Adder(lanes=3, bits=8, depth=4)
WIDE = Adder(lanes=64, bits=47, depth=2)  # 3008 bits in, 3072 bits out, lanes across the words of the machine


@pytest.fixture(scope="module")
def engines(compiled_in: Path):
    """Return a function from a circuit to its simulators: (Verilator, lockstep, interpreted)."""

    @cache
    def of(adder: Adder | Lookup) -> tuple[CompiledSimulator, LockstepSimulator, InterpretedSimulator]:
        circuit = adder.circuit()
        compiled = CompiledSimulator.build(circuit, compiled_in), LockstepSimulator.build(circuit, compiled_in)
        return *compiled, InterpretedSimulator(circuit, adder)

    return of


def test_records_every_transfer_and_every_firing(engines) -> None:
    given_ = stimulus(ADDER, 50, tail=5)
    for simulator in engines(ADDER):
        seen = simulator.run(given_)
        total = given_.tokens["a"] + given_.tokens["b"]
        assert seen.finished
        assert not seen.deadlocked
        for name, expected in {**given_.tokens, "inner": total, "sum": total}.items():
            assert np.array_equal(seen.tokens[name], expected), name
        # The queue is one cycle: a token enters in cycle t and leaves in t + 1.
        assert np.array_equal(seen.fires["add"], np.arange(50))
        assert np.array_equal(seen.fires["out"], np.arange(1, 51))
        assert np.array_equal(seen.cycles_of["a"], seen.fires["add"])
        assert np.array_equal(seen.cycles_of["inner"], seen.fires["add"])
        assert np.array_equal(seen.cycles_of["sum"], seen.fires["out"])
        assert seen.cycles == 51 + 5
        assert seen.valid == {"a": False, "b": False, "sum": False, "inner": False}
        assert seen.ready["sum"]


@given(
    seed=st.integers(0, 10**6), tokens=st.integers(0, 25), p=st.sampled_from([0.2, 0.6, 1.0]), tail=st.integers(0, 9)
)
def test_all_engines_agree_under_stalls(engines, seed: int, tokens: int, p: float, tail: int) -> None:
    given_ = stimulus(
        ADDER,
        tokens,
        seed,
        offers={"a": stalls.random_offers(tokens, p, seed), "b": stalls.burst_offers(tokens, 5, 5, seed)},
        ready={"sum": stalls.random_ready(3 * tokens, p, seed + 1)},
        tail=tail,
        false_start=seed % 7,
    )
    compiled, *others = (simulator.run(given_) for simulator in engines(ADDER))
    assert compiled.finished
    assert np.array_equal(compiled.tokens["sum"], given_.tokens["a"] + given_.tokens["b"])
    assert (compiled.cycles_of["a"] >= given_.offers["a"]).all()
    taken = compiled.cycles_of["sum"]
    assert given_.ready["sum"][taken[taken < 3 * tokens]].all()
    assert_same(compiled, *others)


def test_payloads_of_thousands_of_bits(engines) -> None:
    given_ = stimulus(WIDE, 20)
    seen = [simulator.run(given_) for simulator in engines(WIDE)]
    assert np.array_equal(seen[0].tokens["sum"], given_.tokens["a"] + given_.tokens["b"])
    assert_same(*seen)


@pytest.mark.parametrize("seed", [1, 2])
def test_memories_begin_with_what_the_circuit_says(engines, seed: int) -> None:
    lookup = Lookup(seed)
    given_ = lookup_stimulus(seed)
    golden = lookup_golden(lookup, given_)
    seen = [simulator.run(given_) for simulator in engines(lookup)]
    assert seen[0].tokens["y"].tolist() == golden
    assert_same(*seen)
    # All were recognised: otherwise large memories would compile for minutes, and nothing else would show it.
    assert "initial begin" not in (engines(lookup)[0].library.parent / "circuit.v").read_text()


def test_circuits_in_one_process_keep_their_own_memories(compiled_in: Path) -> None:
    # Both are compiled and loaded before the first one runs; they differ in the contents of memories of the same names.
    lookups = [Lookup(seed) for seed in (1, 2)]
    kinds = CompiledSimulator, LockstepSimulator
    simulators = [kind.build(lookup.circuit(), compiled_in) for kind in kinds for lookup in lookups]
    for lookup, simulator in zip(lookups * 4, simulators * 2, strict=True):
        given_ = lookup_stimulus(seed=3)
        assert simulator.run(given_).tokens["y"].tolist() == lookup_golden(lookup, given_)


def lookup_stimulus(seed: int) -> Stimulus:
    addresses = np.random.default_rng(seed).integers(0, 37, (200, 1))
    return Stimulus({"a": addresses}, {"a": stalls.at_once(200)}, {"y": stalls.always()}, {"y": 200}, cycles=2000)


def lookup_golden(lookup: Lookup, given_: Stimulus) -> list[list[int]]:
    """Return the 72 bits of a token as two lanes of 36."""
    return [[value & (1 << 36) - 1, value >> 36] for value in lookup.golden(given_.tokens["a"][:, 0].tolist())]


def test_a_deadlock_differs_from_a_slow_environment(engines) -> None:
    # Seven sums, then it hangs; in between the source waits 400 cycles and the sink 300, which is not a deadlock.
    offers = {"a": np.array([0, 0, 400, 400, 400, 400, 400, 400, 400]), "b": stalls.at_once(9)}
    given_ = stimulus(DEAD, 9, offers=offers, ready={"sum": np.arange(1200) % 301 == 300}, cycles=5000, patience=50)
    for simulator in engines(DEAD):
        seen = simulator.run(given_)
        assert not seen.finished
        assert seen.deadlocked
        assert len(seen.tokens["sum"]) == 7
        assert seen.valid == {"a": True, "b": True, "sum": False, "inner": True}
        assert seen.ready == {"a": False, "b": False, "sum": True, "inner": False}
    assert_same(*(simulator.run(given_) for simulator in engines(DEAD)))


def test_quiet_cycles_are_counted_exactly(engines) -> None:
    for simulator in engines(DEAD):
        seen = simulator.run(stimulus(DEAD, 9, patience=50))
        assert seen.cycles == int(seen.fires["out"][-1]) + 1 + 50


def test_the_limit_of_cycles_is_no_deadlock(engines) -> None:
    for simulator in engines(ADDER):
        seen = simulator.run(stimulus(ADDER, 50, cycles=20))
        assert seen.cycles == 20
        assert not seen.finished
        assert not seen.deadlocked
        assert len(seen.tokens["sum"]) == 19


def test_surplus_tokens_are_seen_in_the_tail(engines) -> None:
    for simulator in engines(ADDER):
        seen = simulator.run(stimulus(ADDER, 50, expected={"sum": 10}, tail=3))
        assert seen.finished
        assert len(seen.tokens["sum"]) == 13


def test_a_false_start_shows_what_reset_forgets(engines) -> None:
    # The queue is emptied by reset, the count of sums is not: after three sums only four are to come.
    for simulator in engines(DEAD):
        assert simulator.run(stimulus(DEAD, 7)).finished
        seen = simulator.run(stimulus(DEAD, 7, false_start=3, patience=20))
        assert seen.deadlocked
        assert np.array_equal(seen.fires["add"], np.arange(4))


def test_runs_in_threads_do_not_meet(engines) -> None:
    cases = [stimulus(ADDER, 3000, seed) for seed in range(8)]
    for simulator in engines(ADDER)[:2]:
        with ThreadPoolExecutor(4) as pool:
            for case, seen in zip(cases, pool.map(simulator.run, cases), strict=True):
                assert np.array_equal(seen.tokens["sum"], case.tokens["a"] + case.tokens["b"])


def test_progress_counts_cycles(engines) -> None:
    for simulator, tokens in zip(engines(ADDER)[::2], (120_000, 2500), strict=True):
        calls: list[int] = []
        cycles = simulator.run(stimulus(ADDER, tokens), progress=calls.append).cycles
        assert calls == sorted(calls)
        assert len(calls) >= 2
        assert 0 < calls[0] <= calls[-1] <= cycles


def test_an_equal_circuit_is_not_compiled_again(engines, compiled_in: Path) -> None:
    library = engines(ADDER)[0].library
    before = library.stat().st_mtime_ns
    again = CompiledSimulator.build(Adder(lanes=3, bits=8, depth=4).circuit(), compiled_in)
    assert again.library == library
    assert library.stat().st_mtime_ns == before
    assert library.name == LIBRARY


def test_two_builds_of_one_circuit_at_once_do_the_work_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = Adder(lanes=1, bits=2).circuit()
    linked: list[Path] = []
    link = shared_library._link

    def counted(place: Path, *rest: object) -> None:
        linked.append(place)
        link(place, *rest)

    monkeypatch.setattr(shared_library, "_link", counted)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: CompiledSimulator.build(circuit, tmp_path), range(2))
    assert one.library == other.library
    assert linked == [one.library.parent]


def test_a_failed_tool_leaves_a_log_and_no_library(tmp_path: Path) -> None:
    good = Adder(lanes=1, bits=2).circuit()
    broken = replace(good, rtlil=good.rtlil.replace("module \\top\n", "module \\other\n"))
    with pytest.raises(ToolFailed) as caught:
        CompiledSimulator.build(broken, tmp_path)
    assert caught.value.tool == "verilator"
    assert caught.value.log.is_file()
    assert any("top" in line for line in caught.value.last_lines)
    assert not list(tmp_path.rglob(LIBRARY))


@pytest.mark.skipif(
    "ONNX_HW_TEST_ZIG" not in os.environ,
    reason="zig compiles its C++ library first, a minute or two: ask with ONNX_HW_TEST_ZIG=1; "
    "where there is no other compiler, every simulation asks",
)
def test_ziglang_is_a_compiler_too(compiled_in: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    zig = tmp_path / "zig"
    zig.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang c++ "$@"\n')
    zig.chmod(0o755)
    monkeypatch.setenv("CXX", str(zig))
    lookup = Lookup()
    given_ = Stimulus({"a": np.arange(37)[:, None]}, {"a": np.zeros(37)}, {"y": np.ones(0)}, {"y": 37}, cycles=200)
    seen = [kind.build(lookup.circuit(), compiled_in).run(given_) for kind in (CompiledSimulator, LockstepSimulator)]
    assert_same(InterpretedSimulator(lookup.circuit(), lookup).run(given_), *seen)


def test_a_combinational_loop_is_an_error_and_not_the_end_of_the_process(compiled_in: Path) -> None:
    simulator = CompiledSimulator.build(RING, compiled_in)
    with pytest.raises(SimulationError, match="did not converge"):
        simulator.run(
            Stimulus(
                {"a": np.array([[1]])}, {"a": stalls.at_once(1)}, {"b__c": stalls.always()}, {"b__c": 1}, cycles=10
            )
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": {"a": np.zeros((5, 3), np.int64)}}, r"`tokens` must be given for exactly \['a', 'b'\]"),
        ({"tokens": {"a": np.zeros((5, 3), np.int64), "b": np.zeros((5, 2), np.int64)}}, r"must be \(tokens, 3\)"),
        ({"tokens": dict.fromkeys("ab", np.full((5, 3), 128))}, "must lie in -128..127"),
        ({"offers": dict.fromkeys("ab", np.zeros(4, np.int64))}, r"offers of `a` must be \(5,\)"),
        ({"offers": dict.fromkeys("ab", np.array([0, 1, 3, 2, 4]))}, "offers of `a` must ascend"),
        ({"ready": {}}, "`ready` must be given for exactly"),
        ({"expected": {"sum": 1, "other": 2}}, "`expected` must be given for exactly"),
    ],
)
def test_a_stimulus_that_does_not_fit_is_refused(engines, changes: dict[str, object], message: str) -> None:
    for simulator in engines(ADDER):
        with pytest.raises(ValueError, match=message):
            simulator.run(replace(stimulus(ADDER, 5), **changes))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("a b", 1, 8), "plain identifier"), (("a", 0, 8), "at least one lane"), (("a", 1, 63), "1 to 62 bits")],
)
def test_a_stream_that_cannot_be_is_refused(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(*arguments)


def test_engines_are_simulators(engines) -> None:
    simulators: tuple[Simulator, ...] = engines(ADDER)
    assert [simulator.name for simulator in simulators] == ["compiled", "compiled", "interpreted"]


def test_a_trace_that_begins_again(engines) -> None:
    """Every engine reads it round after round, and is ready when all rounds have ended."""
    trace = stalls.random_ready(8, 0.3, 6)
    for rounds in (1, 3, 20):
        given_ = stimulus(ADDER, 20, seed=1, ready={"sum": np.broadcast_to(trace, (rounds, 8))})
        whole = replace(given_, ready={"sum": np.tile(trace, rounds)})
        for simulator in engines(ADDER):
            seen = simulator.run(given_)
            assert_same(seen, simulator.run(whole))
            taken = seen.cycles_of["sum"]
            assert np.isin(taken % 8, np.flatnonzero(trace))[taken < 8 * rounds].all()


@pytest.mark.parametrize("cycles", [1, 7, 20])
def test_windows_hold_what_a_whole_recording_holds(engines, cycles: int) -> None:
    """Record runs that end, hang, and are cut off at another cycle than they began with, some cycles at a time."""
    cases = [
        (ADDER, stimulus(ADDER, 20, seed=1, tail=5, ready={"sum": stalls.random_ready(30, 0.5, 2)}), None),
        (ADDER, stimulus(ADDER, 9, seed=2, expected={"sum": 4}, tail=1 << 40, cycles=1 << 40), 23),
        (DEAD, stimulus(DEAD, 12, seed=3, patience=20), None),
    ]
    for adder, given_, limit in cases:
        whole = replace(given_, cycles=limit or given_.cycles)
        for simulator in engines(adder):
            assert isinstance(simulator, WindowedSimulator)
            assert_same(in_windows(simulator, given_, cycles, limit), simulator.run(whole))


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")
def test_windows_come_out_of_another_process(compiled_in: Path) -> None:
    icarus, given_ = CocotbSimulator.build("icarus", ADDER.circuit(), compiled_in), stimulus(ADDER, 9, seed=4)
    assert_same(
        in_windows(icarus, replace(given_, tail=1 << 40), 5, 23), icarus.run(replace(given_, tail=1 << 40, cycles=23))
    )
    assert_same(icarus.run(given_), InterpretedSimulator(ADDER.circuit(), ADDER).run(given_))


def in_windows(simulator: WindowedSimulator, given_: Stimulus, cycles: int, limit: int | None) -> Recording:
    """Return the windows of a run end to end; none has more than its cycles."""
    pieces, more = list[Recording](), True
    with simulator.windows([given_]) as windows:
        while more:
            if limit is not None and len(pieces) == 1:
                windows.limit(0, limit)
            more = windows.advance(cycles)
            pieces.append(windows.recording(0))
    ends = [piece.cycles for piece in pieces]
    for first, piece in zip([0, *ends], pieces, strict=False):
        assert piece.cycles - first <= cycles
        for times in (*piece.fires.values(), *piece.cycles_of.values()):
            assert np.all((times >= first) & (times < piece.cycles))

    def end_to_end(field: str) -> dict[str, np.ndarray]:
        return {name: np.concatenate([getattr(p, field)[name] for p in pieces]) for name in getattr(pieces[0], field)}

    parts = {field: end_to_end(field) for field in ("fires", "cycles_of", "tokens")}
    return replace(pieces[-1], **parts)
