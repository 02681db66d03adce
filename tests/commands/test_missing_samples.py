"""A float model without samples: what is said of it, where it stops, and what `--random-calibration` does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.cli_runner import call
from support.qdq_models import Sketch


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a product of float weights."""
    sketch = Sketch()
    weights = np.random.default_rng(3).normal(0, 1, (4, 3)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(4).normal(0, 1, (9, 4)).astype(np.float32))
    return sketch.write(tmp_path / "small.onnx", (1, 4), sketch.node("MatMul", "x", sketch.constant(weights)), rank=2)


def report_of(folder: Path) -> dict:
    return json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("until", ["assemble", "pack"])
def test_it_stops_behind_the_schedule(model: Path, tmp_path: Path, until: str) -> None:
    done = call("build", model, "--board", "ulx3s", "--out", tmp_path / "o", "--stop-after", until)
    assert done.exit_code == 1, done.output
    assert "error[calibration-missing]" in done.output and "It fits `ulx3s`" in done.output
    assert "cycles a frame" in done.output and 'np.savez("samples.npz", x=...)' in done.output
    assert "--random-calibration" in done.output
    report = report_of(tmp_path / "o")
    assert list(report["seconds"]) == ["read", "quantize", "schedule"] and report["design"]["lanes"]
    assert report["failure"]["stage"] == "schedule" and report["reference"]["float_model"] is None


def test_arithmetic_alone_needs_no_samples(model: Path, tmp_path: Path) -> None:
    done = call("build", model, "--out", tmp_path / "o", "--stop-after", "schedule")
    assert done.exit_code == 0 and "the scales are assumed" in done.output
    assert report_of(tmp_path / "o")["reference"]["float_model"] is None
    done = call("explore", model, "--multipliers", "1,2", "--stop-after", "schedule", "--out", tmp_path / "e")
    assert done.exit_code == 0 and "the scales are assumed" in done.output, done.output
    done = call("explore", model, "--multipliers", "1,2", "--out", tmp_path / "f")
    assert done.exit_code == 1 and "calibration-missing" in done.output


def test_random_numbers_have_no_fidelity(model: Path, tmp_path: Path) -> None:
    told = "build", model, "--stop-after", "assemble", "--out"
    done = call(*told, tmp_path / "o", "--random-calibration")
    assert done.exit_code == 0 and "the outputs mean nothing" in done.output and " dB" not in done.output
    report = report_of(tmp_path / "o")
    assert report["reference"]["float_model"] is None and report["asked"]["options"]["random_calibration"]
    assert all(tensor["seen"] is None and tensor["sqnr_db"] is None for tensor in report["quantization"]["tensors"])
    done = call(*told, tmp_path / "p", "--calibration", tmp_path / "x.npz")
    assert done.exit_code == 0 and " dB" in done.output, done.output


def test_what_random_numbers_cannot_do(model: Path, tmp_path: Path) -> None:
    done = call("build", model, "--random-calibration", "--sqnr", "30", "--out", tmp_path / "o")
    assert done.exit_code == 1 and "are judged by samples" in done.output
    done = call("build", model, "--random-calibration", "--calibration", tmp_path / "x.npz", "--out", tmp_path / "o")
    assert done.exit_code == 1 and "leave out --random-calibration" in done.output
