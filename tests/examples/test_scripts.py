"""The scripts and the notebook of the examples: they run, and compute what their READMEs say."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_hw
from support.cli_runner import call
from support.fixture_paths import CHECKOUT, EXAMPLES
from support.optional_software import needs_torch
from support.small_model import small_model

TORCH = EXAMPLES / "torch_cnn"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(script: Path, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the variables of a script after it ran."""
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    return runpy.run_path(str(script))


def readme(folder: str) -> str:
    return " ".join((EXAMPLES / folder / "README.md").read_text(encoding="utf-8").split())


def test_torch_cnn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = run(TORCH / "build.py", "icebreaker", "quantize", monkeypatch=monkeypatch)
    right = re.search(r"(\d+) of 360 test images are right", capsys.readouterr().out)
    assert right is not None and f"{right[1]} by the integers of 8 bits" in readme("torch_cnn")
    assert made["build"].folder == Path("digits_cnn-icebreaker")
    assert made["build"].network is not None


def cells(*without: str) -> list[str]:
    """Return the code of the notebook's cells, but for those with a tag."""
    notebook = json.loads((TORCH / "torch_to_board.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code)
    return ["".join(cell["source"]) for cell in code if not set(without) & set(cell["metadata"].get("tags", ()))]


def test_notebook_without_torch(capsys: pytest.CaptureFixture[str]) -> None:
    """The stored file takes the place of the module."""
    names: dict[str, Any] = {"onnx_hw": onnx_hw}
    first, *others = cells("torch", "minutes")
    exec(first, names)
    names["network"] = onnx_hw.quantize(TORCH / "digits_cnn.onnx", {"image": names["train"][:200]})
    for code in others:
        exec(code, names)
    shown = capsys.readouterr().out
    assert "93.89% of the test images are right" in shown and re.search(r"scores +\(1, 1, 10\)", shown)
    assert names["plan"].design is not None


@pytest.mark.slow(minutes=4)
@needs_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_notebook_with_torch(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for code in cells():
        exec(code, names)
    assert names["build"].report.accuracy.circuit > 0.9 and names["build"].bitstream is not None
    assert float(re.search(r"([\d.]+)% of the test images", capsys.readouterr().out)[1]) > 90  # type: ignore[index]


def test_the_first_page_has_the_script() -> None:
    page = (CHECKOUT / "docs" / "index.md").read_text(encoding="utf-8")
    script = (TORCH / "train.py").read_text(encoding="utf-8")
    code = script.split('"""\n', 1)[1].strip()
    assert f"```python\n{code}\n```" in page


@pytest.mark.slow
@needs_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_training(monkeypatch: pytest.MonkeyPatch) -> None:
    run(TORCH / "train.py", monkeypatch=monkeypatch)
    with np.load("test.npz") as test, np.load("calibration.npz") as calibration:
        network = onnx_hw.quantize("digits_cnn.onnx", {"image": calibration["image"]})
        assert (network(test["image"])["scores"].argmax(axis=1) == test["labels"]).mean() > 0.9


def test_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(EXAMPLES / "scikit_learn" / "mlp.py", "icebreaker", "quantize", monkeypatch=monkeypatch)
    by_software = made["mlp"].predict(made["test"])
    assert (by_software == made["labels"]).mean() > 0.85
    assert (made["by_integers"] == by_software).mean() > 0.98
    assert made["build"].network is not None and "322 by the integers" in readme("scikit_learn")


def test_anomaly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(EXAMPLES / "anomaly" / "anomaly.py", "icebreaker", "quantize", monkeypatch=monkeypatch)
    software, integers = (float(text) for text in re.findall(r"ROC curve ([\d.]+)", capsys.readouterr().out))
    assert software > 0.95 and abs(integers - software) < 0.02
    assert "0.986 by the integers" in readme("anomaly")


def test_a_core_in_a_design_of_ones_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(EXAMPLES / "own_design" / "peak_finder.py", monkeypatch=monkeypatch)
    text = (EXAMPLES / "own_design" / "README.md").read_text(encoding="utf-8")
    for line in capsys.readouterr().out.splitlines():
        assert f"    {line}\n" in text
    assert "attribute" in Path("peak_finder.il").read_text(encoding="utf-8")


def test_a_board_of_ones_own() -> None:
    board = EXAMPLES / "own_board" / "sensor_node.py"
    model = small_model(Path("small.onnx"))
    done = call("build", model, "--board", board, "--out", "out", "--stop-after", "assemble")
    assert done.exit_code == 0, done.stderr
    assert "1,000,000 bit/s" in done.stdout
