"""What a tensor loses at the outputs: in turn, and by golden of a network that is nearly exact elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.onnx.evaluate import reference
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.samples.sqnr import NoiseStatistics
from support.cli_runner import call
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits"
WIDE = Scheme(data=replace(Scheme().data, bits=14), weights=replace(Scheme().weights, bits=14))


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model without its Softmax."""
    model = onnx.load(DIGITS / "digits_float.onnx")
    last = model.graph.node.pop()
    model.graph.output[0].name = last.input[0]
    path = tmp_path_factory.mktemp("scores") / "scores.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("kind", "name", "scheme"),
    [
        ("data", "conv1", replace(WIDE, data_overrides={"conv1": replace(WIDE.data, bits=5)})),
        (
            "weights",
            "conv2_sums/Conv",
            replace(WIDE, weight_overrides={"conv2_sums/Conv": replace(WIDE.weights, bits=4)}),
        ),
    ],
)
def test_one_tensor_of_few_bits_makes_the_noise(scores: Path, kind: str, name: str, scheme: Scheme) -> None:
    model = flow.read(scores)
    with np.load(DIGITS / "digits_calibration.npz") as stored:
        images = stored["image"][:8]
    made = flow.quantized(model, SampleRanges({"image": images}), scheme)
    worst, *others = made.tensor_losses()
    (found,) = golden.run(made.network, {"image": images}).values()
    (wanted,) = zip(*(reference.run(model, {"image": image}).values() for image in images), strict=True)
    measured = NoiseStatistics().with_values(found, np.stack(wanted)).sqnr_db
    assert (worst.tensor.kind, worst.tensor.name) == (kind, name) and worst.share > 0.9 and measured is not None
    total = -10 * np.log10(sum(one.noise for one in made.tensor_losses()))
    assert total == pytest.approx(measured, abs=0.02)
    assert name in worst.advice and not any(one.advice for one in others)
    assert [one.noise for one in others] == sorted((one.noise for one in others), reverse=True)


def test_a_build_says_it_and_its_advice_helps(scores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "few.npz"
    with np.load(DIGITS / "digits_calibration.npz") as stored:
        images = stored["image"][:8]
    np.savez(given, image=images)
    told = ["build", scores, "--calibration", given, "--stop-after", "quantize", "--bits", "weights=8,data=5", "--out"]
    first = call(*told, tmp_path / "first")
    report = json.loads((tmp_path / "first/report.json").read_text())
    float_model = report["reference"]["float_model"]
    worst = float_model["losses"][0]
    assert worst["kind"] == "data" and worst["advice"] and "noise" in first.output and worst["name"] in first.output
    assert worst["advice"].split(" = ")[0].strip('"') in (tmp_path / "first/report.html").read_text()
    (tmp_path / "bits.toml").write_text(f"[data]\n{worst['advice'].split(' under')[0]}\n")
    call(*told, tmp_path / "second", "--precision", tmp_path / "bits.toml")
    better = json.loads((tmp_path / "second/report.json").read_text())["reference"]["float_model"]
    (same,) = (loss for loss in better["losses"] if (loss["kind"], loss["name"]) == ("data", worst["name"]))
    assert same["bits"] == 7 and same["sqnr_db"] > worst["sqnr_db"] + 6
    monkeypatch.setattr("onnx_hw.quantization.mixed_precision.sqnr_by_tensor.MAX_MACS", 1000)
    model = flow.read(scores)
    made = flow.quantized(model, SampleRanges({"image": images[:2]}))
    assert made.tensor_losses() == ()  # too large to be told
