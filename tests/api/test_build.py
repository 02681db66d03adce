"""``onnx_hw.build``: every form of a model and of samples, what is returned, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onnx
import onnx_hw
from onnx_hw.messages.errors import ExitCode
from onnx_hw.report.read import read_report
from onnx_hw.runtime.progress import Silent
from support.sample_report import FULL
from support.tiny_float_model import IMAGES, tiny_float_model

MODEL = tiny_float_model()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore:.*compiles itself for this machine")  # of a tool that runs for the first time
def test_a_model_and_arrays_become_a_build() -> None:
    labels = onnx_hw.quantize(MODEL, IMAGES)(IMAGES)["probabilities"].argmax(axis=1)
    build = onnx_hw.build(
        MODEL,
        board="ecp5",
        calibration={"image": IMAGES},
        inputs={"image": IMAGES[:2], "labels": labels[:2]},
        multipliers=4,
        stop_after="simulate",
    )
    assert build.folder == Path("tiny-ecp5")
    assert build.report.accuracy is not None and build.report.accuracy.golden == 1
    assert build.report.accuracy.circuit_samples == 2
    assert build.design is not None and build.network is not None and build.bitstream is None
    assert build.design.resources().mac_lanes <= 4
    assert "tiny for ecp5 in tiny-ecp5" in repr(build)
    assert "accuracy: 100.00% of 2 samples" in repr(build.report)
    for value in (build, build.report, build.design, build.network):
        assert "tiny" in value._repr_html_()
    # What was in memory stands in the folder, for the commands that come after.
    asked = read_report(build.folder).asked
    assert asked is not None
    for name, file in (("model", "tiny.onnx"), ("calibration", "calibration.npz"), ("inputs", "inputs.npz")):
        assert asked.options[name] == str(Path("tiny-ecp5", file).absolute())
        assert (build.folder / file).is_file()
    assert onnx.load(build.folder / "tiny.onnx") == MODEL


def test_a_build_of_files_leaves_them_where_they_are() -> None:
    onnx.save(MODEL, "m.onnx")
    np.savez("c.npz", image=IMAGES)
    build = onnx_hw.build("m.onnx", calibration="c.npz", stop_after="schedule", out="here")
    assert build.folder == Path("here") and build.report.model.name == "m"
    assert not {"m.onnx", "calibration.npz", "inputs.npz"} & {path.name for path in build.folder.iterdir()}


def test_bytes_and_quantized_models() -> None:
    """A quantized model is built with its own samples and bits."""
    network = onnx_hw.quantize(MODEL.SerializeToString(), IMAGES, bits={"weights": 5, "data": 6})
    build = onnx_hw.build(network, stop_after="schedule")
    assert build.network is not None
    assert repr(build.network) == repr(network.network)
    with pytest.raises(onnx_hw.UserError, match="as it was quantized"):
        onnx_hw.build(network, bits=8)
    with pytest.raises(onnx_hw.UserError, match="as it was quantized"):
        onnx_hw.build(network, calibration=IMAGES)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"calibration": {"imag": IMAGES}}, r"the graph input `image`, float \[1,1,4,4\]"),
        ({"calibration": IMAGES.astype(np.uint8)}, "leaves open which ones"),
        ({"inputs": IMAGES[:, :, 1:]}, r"not \[40,1,3,4\]"),
        ({"calibration": "nowhere.npz"}, "no such file"),
        ({"board": "nope"}, "not `nope`"),
        ({"stop_after": "end"}, "must be one of read"),
        ({"bits": "8"}, "whole number"),
        ({"bits": {"weight": 8}}, "`weights` and `data`"),
        ({"bits": 8, "sqnr": 20.0}, "each of bits and sqnr"),
        ({"output_kind": "x"}, "must be one of accumulators, int8"),
        ({"fps": -1.0}, "must be positive"),
        ({"example_inputs": IMAGES}, "for a torch module"),
        ({"model": 5}, "a torch.nn.Module, not int"),
        ({"model": b"nothing"}, "must hold an ONNX model"),
        ({"model": "m.onxx"}, "the model file must exist"),
    ],
)
def test_what_is_refused_leaves_no_folder(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(onnx_hw.UserError, match=says):
        onnx_hw.build(**{"model": MODEL, "calibration": IMAGES, "stop_after": "schedule", **wrong})
    assert not list(Path().iterdir())


def test_a_stage_that_fails_leaves_its_report() -> None:
    with (
        pytest.warns(UserWarning, match="too large for `ecp5`"),
        pytest.raises(onnx_hw.UserError, match=r"`multipliers=2` fits") as raised,
    ):
        onnx_hw.build(MODEL, calibration=IMAGES, stop_after="schedule", multipliers=1)
    assert raised.value.exit_code is ExitCode.USAGE or raised.value.exit_code is ExitCode.DOES_NOT_FIT
    assert (Path("tiny-ecp5") / "report.json").is_file()


def test_a_program_that_is_missing_is_an_error_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOSYS", "/nowhere/yosys")
    with pytest.raises(onnx_hw.UserError, match="yosys") as raised:
        onnx_hw.build(MODEL, calibration=IMAGES)
    assert raised.value.exit_code is ExitCode.TOOL_FAILED


def test_a_clock_that_is_missed_is_an_error_with_what_to_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was asked for; ``report.json`` stays, and its place is said."""
    assert FULL.synthesis is not None
    slow = replace(FULL, synthesis=replace(FULL.synthesis, fmax_mhz=71.2, target_mhz=80.0, timing_met=False))
    for code in (ExitCode.OK, ExitCode.DOES_NOT_FIT):
        made = onnx_hw.Build(Path("here"), slow, code)
        monkeypatch.setattr("onnx_hw.api.build.build_in_folder", lambda options, progress, made=made: made)
        if code is ExitCode.OK:
            assert onnx_hw.build(MODEL, calibration=IMAGES) is made
            continue
        with pytest.raises(onnx_hw.UserError, match=r"must reach 80 MHz, and reaches 71\.2 MHz") as raised:
            onnx_hw.build(MODEL, calibration=IMAGES, clock_mhz=80)
        assert raised.value.exit_code is ExitCode.DOES_NOT_FIT and "clock_mhz=71" in str(raised.value)
        assert str(Path("here", "report.json")) in str(raised.value)


def test_progress_is_heard_or_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is printed by default; warnings are Python's, at the line of the caller."""
    heard = Silent()
    onnx_hw.build(MODEL, calibration=IMAGES, stop_after="quantize", progress=heard)
    assert [stage.stage for stage in heard.stages] == ["read", "quantize"]
    with pytest.warns(UserWarning, match="the scales come from the samples of inputs") as warned:
        onnx_hw.build(MODEL, inputs=IMAGES, stop_after="quantize")
    assert warned[0].filename == __file__
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    onnx_hw.build(MODEL, calibration=IMAGES, stop_after="quantize", progress=True)
    captured = capsys.readouterr()
    assert captured.out == "" and "1/2  read" in captured.err


@pytest.mark.filterwarnings("ignore:.*saturation")
def test_a_float_model_without_samples() -> None:
    """It says what is missing; random scales are asked for by name."""
    with pytest.raises(onnx_hw.UserError, match="calibration") as raised:
        onnx_hw.build(MODEL)
    assert "--" not in str(raised.value)
    with pytest.warns(UserWarning, match="random numbers"):
        build = onnx_hw.build(MODEL, random_calibration=True, stop_after="quantize")
    assert build.network is not None
