"""``--resize`` and the keyword ``resize``: images of another size, in every command and function that takes samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image

import onnx
import onnx_hw
from onnx_hw.cli.cli import main
from onnx_hw.commands import infer, verify
from onnx_hw.commands.explore.grid import ChoiceGrid, command
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.onnx.graph.model import Value
from onnx_hw.report.follow_up_commands import follow_up_commands
from onnx_hw.runtime.options import BuildOptions, Resize, VerifyOptions
from onnx_hw.samples.frames import SampleTypes
from onnx_hw.samples.read_samples import read_samples
from onnx_hw.samples.single_input_files import WITHOUT_IMAGES
from onnx_hw_link.host_model import Argument
from support.cli_runner import call
from support.tiny_float_model import tiny_float_model

SCALE = 1 / 255
INPUT = Value("image", "float", (1, 1, 4, 4))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve images of 8 × 16 pixels, twice as large as the input and twice as wide."""
    images = tmp_path / "images"
    images.mkdir()
    for k in range(12):
        pixels = np.random.default_rng(k).integers(0, 256, (8, 16), dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"{k:02}.png")
    (images / "samples.toml").write_text(f"scale = {SCALE}\n")
    return images


def wanted(folder: Path, resize: Resize) -> np.ndarray:
    """The images in the size of the input, by Pillow, (12, 1, 1, 4, 4): the middle part is 8 × 8 of 8 × 16."""
    box = (4, 0, 12, 8) if resize is Resize.CROP else (0, 0, 16, 8)
    paths = sorted(folder.glob("*.png"))
    pixels = [np.asarray(Image.open(path).resize((4, 4), Image.Resampling.BILINEAR, box)) for path in paths]
    return (np.stack(pixels) * SCALE).astype(np.float32).reshape(-1, 1, 1, 4, 4)


def refused(*_: Any, **__: Any) -> Any:
    raise user_error("no-port", "far enough")


@pytest.mark.parametrize("resize", Resize)
@pytest.mark.parametrize("stated", ["", *Resize])
def test_the_option_decides_whatever_the_file_says(folder: Path, resize: Resize, stated: str) -> None:
    if stated:
        (folder / "samples.toml").write_text(f'scale = {SCALE}\nresize = "{stated}"\n')
    np.testing.assert_array_equal(read_samples(folder, [INPUT], resize=resize).arrays["image"], wanted(folder, resize))
    one = read_samples(folder / "03.png", [INPUT], resize=resize).arrays["image"]
    np.testing.assert_array_equal(one[0], wanted(folder, resize)[3])
    assert not np.array_equal(wanted(folder, Resize.CROP), wanted(folder, Resize.STRETCH))


def test_where_there_are_no_images_the_option_is_not_ignored_silently(tmp_path: Path) -> None:
    """A warning says that it changes nothing; images in one of two sources are reason enough for it."""
    array = np.zeros((2, 1, 1, 4, 4), np.float32)
    np.savez(tmp_path / "x.npz", image=array)
    np.save(tmp_path / "x.npy", array)
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "a.npy", array)
    types = SampleTypes((INPUT,), 1, None)
    for given in (tmp_path / "x.npz", tmp_path / "x.npy", tmp_path / "arrays", array):
        assert types.samples(given, "inputs", Resize.CROP).notes == (WITHOUT_IMAGES,)
        assert types.samples(given, "inputs").notes == ()


def test_both_sources_of_a_build(folder: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    model = tmp_path / "tiny.onnx"
    onnx.save(tiny_float_model(), model)
    arrays = wanted(folder, Resize.CROP)
    grids = onnx_hw.quantize(model, arrays).network.grids
    assert onnx_hw.quantize(model, folder, resize="crop").network.grids == grids
    assert onnx_hw.quantize(model, wanted(folder, Resize.STRETCH)).network.grids != grids
    build = onnx_hw.build(
        model, calibration=folder, inputs=arrays[:2], resize="crop", stop_after="quantize", out=tmp_path / "out"
    )
    assert build.network is not None and build.network.grids == grids
    quantized = onnx_hw.quantize(model, folder, resize="crop")
    build = onnx_hw.build(quantized, stop_after="quantize", out=tmp_path / "again")
    assert build.network is not None and build.network.grids == grids
    assert not [warned for warned in recwarn if "resize is for images" in str(warned.message)]
    with pytest.warns(UserWarning, match="resize is for images"):
        onnx_hw.quantize(model, arrays, resize="crop")
    with pytest.raises(UserError, match="one of stretch, crop, not 'shrink'"):
        onnx_hw.quantize(model, folder, resize="shrink")


@pytest.mark.parametrize("function", [onnx_hw.build, onnx_hw.infer, onnx_hw.quantize])
def test_the_keyword_is_described(function: Callable[..., Any]) -> None:
    assert '``"stretch"``, or ``"crop"`` for their middle part' in str(function.__doc__)


def test_run_and_the_commands_of_a_build(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``run``, ``build``, and ``verify``, which resizes the build's own images as the build did."""
    monkeypatch.chdir(tmp_path)
    onnx.save(tiny_float_model(), "tiny.onnx")
    np.savez("cropped.npz", image=wanted(folder, Resize.CROP))
    for name, given in (("a", (folder, "--resize", "crop")), ("b", ("cropped.npz",))):
        done = call("run", "tiny.onnx", "--engine", "reference", "--inputs", *given, "--out", f"{name}.npz")
        assert done.exit_code == 0, done.output
    with np.load("a.npz") as a, np.load("b.npz") as b:
        np.testing.assert_array_equal(a["probabilities"], b["probabilities"])
    done = call("run", "tiny.onnx", "--engine", "reference", "--inputs", folder)
    assert done.exit_code == 1 and "`--resize stretch` or `--resize crop` changes height and width" in " ".join(
        done.output.split()
    )
    options = ("--calibration", folder, "--inputs", folder, "--resize", "crop", "--stop-after", "schedule")
    done = call("build", "tiny.onnx", "--out", "out", *options)
    assert done.exit_code == 0, done.output
    frames: list[Any] = []
    monkeypatch.setattr(verify, "_proven", lambda design, digest, given, *others: frames.append(given["image"]))
    for more in ({}, {"inputs": folder, "resize": "stretch"}):
        verify.verify(VerifyOptions(folder=Path("out"), **more))
    np.testing.assert_array_equal(frames[0], wanted(folder, Resize.CROP))
    np.testing.assert_array_equal(frames[1], wanted(folder, Resize.STRETCH))


def test_infer(folder: Path) -> None:
    model: Any = SimpleNamespace(batch=1, inputs=(Argument("image", np.dtype(np.float32), (1, 1, 4, 4)),))
    for given, resize in (("crop", Resize.CROP), ("stretch", Resize.STRETCH)):
        options = infer.InferOptions(folder=Path(), inputs=folder, resize=given)  # type: ignore[arg-type]
        samples = infer._samples(options, model)
        np.testing.assert_array_equal(samples.arrays["image"], wanted(folder, resize))
        with patch("onnx_hw.commands.infer.infer", side_effect=refused) as asked:
            assert call("infer", "out", "--inputs", folder, "--resize", given).exit_code != 0
        assert asked.call_args.args[0] == infer.InferOptions(folder=Path("out"), inputs=folder, resize=resize)
    assert infer._samples(infer.InferOptions(folder=Path(), inputs=wanted(folder, resize), resize=resize), model).notes


def test_commands_that_are_shown_resize_too(folder: Path, tmp_path: Path) -> None:
    like = BuildOptions(model=Path("m.onnx"), calibration=folder, resize=Resize.CROP)
    (choice,) = ChoiceGrid(boards=("ecp5",)).choices()
    assert "--resize crop" in command(like.model, like, choice)
    report: Any = SimpleNamespace(
        asked=SimpleNamespace(options={"model": "m.onnx", "out": "o", "inputs": "images", "resize": "crop"}),
        simulation=1, serial=1, files={"bitstream": "b"}, board=SimpleNamespace(name="icebreaker"),
    )  # fmt: skip
    assert "infer o --inputs images --resize crop --check" in str(follow_up_commands(report))


def test_every_command_that_takes_samples_has_it() -> None:
    named = {name: {option for each in one.params for option in each.opts} for name, one in main.commands.items()}
    takes = {name for name, options in named.items() if options & {"--inputs", "--calibration"}}
    assert takes == {name for name, options in named.items() if "--resize" in options}
    assert {"build", "run", "verify", "infer", "explore"} <= takes
