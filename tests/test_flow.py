"""The whole pipeline on the bundled digits: proven, repeatable, and the same as a library."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.commands.build import Build, build
from onnx_hw.commands.run import run
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.report.model import Report
from onnx_hw.runtime.options import BuildOptions, Evaluator, RunOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from onnx_hw.schedule.schedule_network import schedule_network
from support.fixture_paths import CHECKOUT, EXAMPLES
from support.small_model import small_model
from support.targets import ecp5_at

DIGITS = EXAMPLES / "digits"
SCHEMA = json.loads((CHECKOUT / "docs" / "report.schema.json").read_text())


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Digits, all its test images through the circuit; shared by the tests that only look."""
    out = tmp_path_factory.mktemp("digits") / "out"
    options = BuildOptions(
        model=DIGITS / "digits.onnx",
        out=out,
        inputs=DIGITS / "digits_test.npz",
        stop_after=Stage.SIMULATE,
        scheduling=ScheduleRequest(multipliers=40),
    )
    return build(options)


def test_every_value_and_every_firing_agree(simulated: Build) -> None:
    proof = simulated.report.simulation
    assert proof is not None
    assert proof.mismatches == proof.firing_mismatches == 0
    assert proof.frames >= 300 and proof.stalls >= 2
    assert proof.values_compared > 1_000_000 and proof.firings_compared > 200_000
    design = simulated.report.design
    assert design is not None
    assert proof.edges_compared == len(design.fifos) + 1  # and the input
    assert (proof.interval_cycles, proof.latency_cycles) == (design.interval_cycles, design.latency_cycles)


def test_the_circuit_classifies_as_golden_does(simulated: Build) -> None:
    accuracy = simulated.report.accuracy
    assert accuracy is not None
    assert accuracy.samples >= 300 and accuracy.circuit_samples == accuracy.samples
    assert accuracy.circuit == accuracy.golden
    assert accuracy.golden >= 0.97 and accuracy.reference >= 0.97


def test_report_is_what_the_schema_says(simulated: Build) -> None:
    written = json.loads((simulated.folder / "report.json").read_text())
    jsonschema.validate(written, SCHEMA)
    assert written["io"][0]["lanes"] >= 1
    assert written["design"]["host"]["macs_in_hardware"] == 1.0
    assert all(fifo["max_fill"] <= fifo["depth"] for fifo in written["design"]["fifos"])
    assert all(fifo["live_depth"] <= fifo["rate_depth"] <= fifo["depth"] for fifo in written["design"]["fifos"])


def test_written_folding_gives_the_same_design(simulated: Build, tmp_path: Path) -> None:
    text = (simulated.folder / "folding.toml").read_text()
    place = tmp_path / "folding.toml"
    place.write_text(text)
    options = BuildOptions(model=DIGITS / "digits.onnx", out=tmp_path / "out", folding=place, stop_after=Stage.SCHEDULE)
    assert build(options).report.design.interval_cycles == simulated.report.design.interval_cycles  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("find", "replacement", "told"),
    [
        (r"\[folding\]", "[foldings]", "must have a table"),
        (r'^"(.*)Conv" =', r'"\1Comv" =', "there is no core"),
        (r"in_lanes = \d+", "in_lanes = 0", "in_lanes must be"),
        (r"\{ in_lanes = \d+, out_lanes = \d+ \}", "4", r"must be \{ in_lanes = N, out_lanes = N \}.*, not 4"),
        (r"\{ lanes = \d+", "{ in = 1", r"must be \{ lanes = N \}(, optionally with .*)?, not"),
        (r"\{ lanes = (\d+)", r"{ lanes = \1, pixies = 1", "this folding must be"),
        (r"\{", "{{", "must be TOML"),
    ],
)
def test_a_wrong_folding_file(simulated: Build, tmp_path: Path, find: str, replacement: str, told: str) -> None:
    text = re.sub(find, replacement, (simulated.folder / "folding.toml").read_text(), count=1, flags=re.MULTILINE)
    place = tmp_path / "folding.toml"
    place.write_text(text)
    with pytest.raises(UserError, match=told):
        build(
            BuildOptions(model=DIGITS / "digits.onnx", out=tmp_path / "out", folding=place, stop_after=Stage.SCHEDULE)
        )


def test_float_model_is_calibrated_and_proven(tmp_path: Path) -> None:
    options = BuildOptions(
        model=DIGITS / "digits_float.onnx",
        out=tmp_path / "out",
        calibration=DIGITS / "digits_calibration.npz",
        inputs=DIGITS / "digits_test.npz",
        stop_after=Stage.SIMULATE,
        scheduling=ScheduleRequest(multipliers=20),
    )
    made = build(options)
    assert made.report.simulation.mismatches == 0  # type: ignore[union-attr]
    assert made.report.accuracy.circuit >= 0.97  # type: ignore[union-attr, operator]


def test_run_engines_agree(tmp_path: Path) -> None:
    with np.load(DIGITS / "digits_test.npz") as stored:
        np.savez(tmp_path / "few.npz", **{name: stored[name][:12] for name in stored})
    outputs = {
        engine: run(
            RunOptions(
                model=DIGITS / "digits.onnx",
                inputs=tmp_path / "few.npz",
                engine=engine,
                scheduling=ScheduleRequest(multipliers=20),
            )
        )
        for engine in (Evaluator.REFERENCE, Evaluator.GOLDEN, Evaluator.SIMULATION)
    }
    (name,) = outputs[Evaluator.GOLDEN]
    golden, circuit, reference = (
        outputs[e][name] for e in (Evaluator.GOLDEN, Evaluator.SIMULATION, Evaluator.REFERENCE)
    )
    assert golden.shape == reference.shape == circuit.shape and len(golden) == 12
    assert golden.dtype == reference.dtype
    assert np.array_equal(golden, circuit)
    assert np.array_equal(golden.reshape(12, -1).argmax(1), reference.reshape(12, -1).argmax(1))


def test_one_sample_is_enough(tmp_path: Path) -> None:
    """The circuit is shown it twice, since state must not leak; what is asked for is told once."""
    model = small_model(tmp_path / "small.onnx")
    asked = {"inputs": tmp_path / "one.npz", "scheduling": ScheduleRequest(multipliers=8)}
    np.savez(tmp_path / "one.npz", x=np.ones((1, 8), np.float32), labels=np.array([1]))
    outputs = run(RunOptions(model=model, engine=Evaluator.SIMULATION, **asked))
    assert [len(array) for array in outputs.values()] == [1] and len(outputs.labels) == 1  # type: ignore[arg-type]
    options = BuildOptions(model=model, out=tmp_path / "out", stop_after=Stage.SIMULATE, **asked)
    accuracy = build(options).report.accuracy
    assert accuracy is not None and accuracy.samples == accuracy.circuit_samples == 1
    assert accuracy.circuit == accuracy.golden


def test_what_does_not_fit_is_refused_with_numbers() -> None:
    from onnx_hw.schedule.budget import Budget

    network = flow.quantize(flow.read(DIGITS / "digits.onnx"))
    with pytest.raises(UserError, match="even the slowest design needs") as caught:
        schedule_network(network, Budget(mac_lanes=1, dsp=2, lut=500, bram=0), target=ecp5_at(80))
    assert caught.value.exit_code is ExitCode.DOES_NOT_FIT


def test_an_unknown_board() -> None:
    with pytest.raises(UserError, match="ecp6") as caught:
        build(BuildOptions(model=DIGITS / "digits.onnx", board="ecp6"))
    assert "did you mean `ecp5`" in str(caught.value)


@pytest.mark.slow(minutes=1)
def test_a_bitstream_at_100_mhz_and_again(tmp_path: Path) -> None:
    """All stages, at 100 MHz; a second build is cached. Larger networks: ``benchmarks/build_models.py``."""
    options = BuildOptions(
        model=small_model(tmp_path / "small.onnx"),
        out=tmp_path / "out",
        scheduling=ScheduleRequest(multipliers=12, clock_mhz=100.0),
    )
    first = build(options).report
    design, proof, synthesis = first.design, first.simulation, first.synthesis
    assert proof is not None and design is not None and synthesis is not None
    assert proof.mismatches == proof.firing_mismatches == 0 and proof.interval_cycles == design.bottleneck.cycles
    assert 8 <= design.lanes <= 12 and synthesis.dsp == design.multipliers.dsp
    assert synthesis.timing_met and synthesis.target_mhz == design.clock_mhz == 100
    netlist = first.links.circuit_netlist
    assert netlist.state == "proven" and netlist.runs == 64 and netlist.values > 1000
    unpacked = first.links.netlist_bitstream
    assert unpacked.state == "proven" and unpacked.values == netlist.values, unpacked.compared
    bitstream = (options.folder / "small.bit").read_bytes()
    assert len(bitstream) > 100_000
    again = build(options).report
    assert {"synthesize", "gates", "route", "pack", "unpack"} <= set(again.cached) and again.digest == first.digest
    assert (options.folder / "small.bit").read_bytes() == bitstream
    jsonschema.validate(json.loads((options.folder / "report.json").read_text()), SCHEMA)


def test_two_processes_in_one_folder(tmp_path: Path) -> None:
    """They wait for each other; both end well."""
    command = [
        sys.executable,
        "-c",
        (
            "from pathlib import Path; from onnx_hw.commands.build import build;"
            "from onnx_hw.runtime.options import BuildOptions, Stage;"
            "from onnx_hw.runtime.schedule_request import ScheduleRequest;"
            f"build(BuildOptions(model=Path({str(small_model(tmp_path / 'small.onnx'))!r}),"
            f" out=Path({str(tmp_path / 'out')!r}), stop_after=Stage.SIMULATE,"
            " scheduling=ScheduleRequest(multipliers=8)))"
        ),
    ]
    environment = {**__import__("os").environ, "PYTHONPATH": ":".join(sys.path)}
    running = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [process.wait(300) for process in running] == [0, 0]
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert written["simulation"]["mismatches"] == 0


def test_stages_are_told_in_order(tmp_path: Path) -> None:
    progress = Silent()
    build(BuildOptions(model=DIGITS / "digits.onnx", out=tmp_path / "out", stop_after=Stage.ASSEMBLE), progress)
    assert [running.stage for running in progress.stages] == list(Stage)[:4]
    assert all(running.fact for running in progress.stages)
    assert isinstance(Report, type)


def test_designs_in_one_process_keep_their_own_weights() -> None:
    """Compiled circuits are loaded side by side; what is called the same in two of them must not be shared.

    With 11 multipliers, lanes are ragged everywhere.
    """
    network = flow.quantize(flow.read(DIGITS / "digits.onnx"))
    for multipliers in (6, 11):
        proof = flow.simulate(flow.schedule(network, multipliers=multipliers))
        assert proof.agrees, proof.runs[0].difference
