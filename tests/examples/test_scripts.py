"""The scripts and the notebook of the examples: they run, and compute what their READMEs say."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_hw
from onnx_hw_tools import tools
from support.cli_runner import call
from support.fixture_paths import CHECKOUT, EXAMPLES
from support.optional_software import needs_brevitas, needs_torch
from support.small_model import small_model

TORCH, KEYWORDS, BREVITAS = (EXAMPLES / name for name in ("torch_cnn", "keywords", "brevitas_qat"))


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


@pytest.mark.parametrize("sounds", [20, pytest.param(120, marks=pytest.mark.slow)])
def test_keywords(sounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of WAV files are samples and labels; the stored network hears the words that the script makes."""
    run(KEYWORDS / "sounds.py", monkeypatch=monkeypatch)["main"](Path(), sounds)
    samples = ("--calibration", "calibration", "--inputs", "test")
    done = call("run", KEYWORDS / "keywords.onnx", *samples, "--engine", "golden")
    assert done.exit_code == 0, done.stderr
    assert "0 `down`, 1 `left`, 2 `other`, 3 `right`, 4 `stop`" in done.stderr
    percent, count = re.search(r"accuracy: ([\d.]+)% of (\d+)", done.stdout).groups()  # type: ignore[union-attr]
    assert int(count) == 5 * (sounds // 4) and float(percent) > 80
    if sounds == 120:
        right = round(float(percent) * int(count) / 100)
        assert f"Of {count} test sounds, 140 are right by PyTorch and {right} by the integers" in readme("keywords")


@pytest.mark.slow
@needs_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_training_of_keywords(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(KEYWORDS / "sounds.py", monkeypatch=monkeypatch)["main"](Path(), 40)
    run(KEYWORDS / "train.py", monkeypatch=monkeypatch)
    right = re.search(r"(\d+) of 50 test sounds are right", capsys.readouterr().out)
    assert right is not None and int(right[1]) > 35 and Path("keywords.onnx").exists()


def test_brevitas(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The integers of the file give the scores that Brevitas computed, but for the rounding of its floats."""
    made = run(BREVITAS / "build.py", "icebreaker", "quantize", monkeypatch=monkeypatch)
    scores, by_brevitas = made["scores"], made["by_brevitas"]
    assert scores.shape == by_brevitas.shape == (360, 10)
    assert np.abs(scores - by_brevitas).max() < made["step"] / 100
    right = re.findall(r"(\d+) of 360 test images are right", capsys.readouterr().out)
    assert "Of the 360 test images {} are right in Brevitas and {} by the integers".format(*right) in readme(
        "brevitas_qat"
    )


@pytest.mark.slow
@needs_torch
@needs_brevitas
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_training_with_brevitas(monkeypatch: pytest.MonkeyPatch) -> None:
    run(BREVITAS / "train.py", monkeypatch=monkeypatch)
    network = onnx_hw.quantize("digits_4_bits.onnx")
    with np.load("test.npz") as test, np.load("brevitas.npz") as brevitas:
        scores = network(test["image"])["scores"]
        np.testing.assert_allclose(scores, brevitas["scores"], atol=1e-4)
        assert (scores.argmax(axis=1) == test["labels"]).mean() > 0.85


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


@pytest.mark.slow
def test_the_commands_for_a_board_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed, with a smaller model: built, computed by the simulated chip, and ready to be programmed."""
    try:
        tools.find("nextpnr-ice40")
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    here = shutil.copytree(EXAMPLES / "own_board", tmp_path / "own_board")
    (tmp_path / "digits").mkdir()
    small_model(tmp_path / "digits" / "digits.onnx")
    samples = np.random.default_rng(1).normal(size=(3, 1, 8)).astype(np.float32)
    np.savez(tmp_path / "digits" / "digits_test.npz", x=samples)
    monkeypatch.chdir(here)
    commands = re.findall(r"^    onnx-hw (.+)$", (here / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["build", "infer", "program"]
    for command in commands:
        done = call(*shlex.split(command), *(["--dry-run"] if command.startswith("program") else []))
        assert done.exit_code == 0, done.stderr
