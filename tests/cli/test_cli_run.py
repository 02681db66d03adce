"""``onnx-hw run``: what it asks for, prints and writes."""

import re
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.runtime.options import Evaluator, RunOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.samples.outputs import Outputs
from support.cli_runner import Instead, call
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits" / "digits.onnx"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Commands may write into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("labels", "told"), [(None, ""), ([2, 2], "accuracy: 100.00% of 2 samples\n"), ([2, 0], "50.00% of 2 samples\n")]
)
def test_run(labels, told):
    outputs = Outputs({"y": np.arange(6, dtype=np.int8).reshape(2, 3)}, labels and np.array(labels))
    workshop = Instead(run=lambda options, progress: outputs)
    wanted = ("--multipliers", "4", "--fps", "25", "--clock", "50")
    done = call("run", "m.onnx", "--inputs", "x.npz", "--engine", "simulation", "--out", "y.npz", *wanted, by=workshop)
    assert done.exit_code == 0
    assert workshop.asked == [
        RunOptions(
            model=Path("m.onnx"),
            inputs=Path("x.npz"),
            engine=Evaluator.SIMULATION,
            scheduling=ScheduleRequest(multipliers=4, fps=25.0, clock_mhz=50.0),
        )
    ]
    assert done.stdout.startswith("y: int8[2, 3]\n[[0 1 2]\n [3 4 5]]\n") and done.stdout.endswith(f"{told}")
    assert ("accuracy" in done.stdout) == bool(told)
    with np.load("y.npz") as written:
        np.testing.assert_array_equal(written["y"], [[0, 1, 2], [3, 4, 5]])


def test_run_computes_golden_unless_told_otherwise():
    workshop = Instead(run=lambda options, progress: Outputs({}))
    assert call("run", "m.onnx", "--inputs", "x.npz", by=workshop).exit_code == 0
    assert [options.engine for options in workshop.asked] == [Evaluator.GOLDEN]


@pytest.mark.parametrize("engine", ["reference", "golden"])
def test_run_states_the_accuracy(engine):
    """As it is said beside the example."""
    done = call("run", DIGITS, "--inputs", EXAMPLES / "digits" / "digits_test.npz", "--engine", engine)
    assert done.exit_code == 0
    share, samples = re.search(r"accuracy: ([\d.]+)% of (\d+) samples", done.stdout).groups()
    assert int(samples) == 360 and 97.5 < float(share) < 98.5


def test_run_without_a_place_for_its_outputs():
    workshop = Instead(run=lambda options, progress: Outputs({"y": np.zeros(1)}))
    done = call(
        "run", "m.onnx", "--inputs", "x.npz", "--engine", "golden", "--out", "no/such/folder/y.npz", by=workshop
    )
    assert done.exit_code == 1
    assert "error[samples-write]" in done.stderr
