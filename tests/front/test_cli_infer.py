"""``onnx-hw infer``: a build behind a simulated port, compared with golden; and what it says where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import call
from material_folders import EXAMPLES
from onnx_hw import flow
from onnx_hw.chip.host_model import host_model
from onnx_hw.chip.link import link_of

DIGITS = EXAMPLES / "digits"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Three images with their labels."""
    with np.load(DIGITS / "digits_test.npz") as stored:
        np.savez(tmp_path / "x.npz", image=stored["image"][:3], labels=stored["labels"][:3])
    return tmp_path / "x.npz"


@pytest.mark.slow
def test_digits_through_the_pins(inputs: Path, tmp_path: Path) -> None:
    out, results = tmp_path / "out", tmp_path / "y.npz"
    model = DIGITS / "digits.onnx"
    done = call("build", model, "--board", "icebreaker", "--stop-after", "assemble", "--out", out)
    assert done.exit_code == 0, done.output
    done = call("infer", out, "--inputs", inputs, "--port", "sim", "--check", "--out", results)
    assert done.exit_code == 0, done.output
    assert "3 frames, each as golden has it" in done.output
    assert "accuracy: 100.00% of 3 samples" in done.output
    with np.load(results) as written:
        assert written["probabilities"].shape == (3, 1, 10)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ``model.json`` of a build."""
    design = flow.schedule(flow.quantize(flow.read(DIGITS / "digits.onnx")), multipliers=3)
    folder = tmp_path_factory.mktemp("built")
    (folder / "model.json").write_text(host_model(design, link_of(design, 24), 10**6))
    return folder


def test_no_board(built: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_hw_link.chip.ports", list)
    for port, said in (
        ("/dev/nowhere", "the port /dev/nowhere must be there and free"),
        ("auto", "this machine has none: name it with --port"),
    ):
        done = call("infer", built, "--inputs", inputs, "--port", port)
        assert done.exit_code == 3
        assert said in " ".join(done.output.split())


def test_no_build_and_another_format(inputs: Path, tmp_path: Path) -> None:
    done = call("infer", tmp_path, "--inputs", inputs)
    assert done.exit_code == 3
    assert "must hold model.json" in " ".join(done.output.split())
    (tmp_path / "model.json").write_text(json.dumps({"format": 0}))
    done = call("infer", tmp_path, "--inputs", inputs)
    assert "must be of format 1, not 0" in " ".join(done.output.split())
