"""``onnx_hw.infer``: arrays through the simulated chip of a build, as the model has them; and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_hw
from onnx_hw.ir import golden
from onnx_hw.messages.errors import ExitCode
from onnx_hw.timing.link_times import LinkTimesCheck
from support.tiny_float_model import IMAGES, tiny_float_model

BATCH = 2


def batched() -> Any:
    """The tiny model for two images at once."""
    model = tiny_float_model()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = BATCH
    return model


class Builds(dict[int, onnx_hw.Build]):
    """Builds with a netlist, made when asked for: of the model for one image and of that for two; by that number."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.factory = factory

    def __missing__(self, batch: int) -> onnx_hw.Build:
        self[batch] = onnx_hw.build(
            tiny_float_model() if batch == 1 else batched(),
            board="icebreaker",
            calibration={"image": IMAGES if batch == 1 else IMAGES.reshape(-1, batch, 1, 4, 4)},
            out=self.factory.mktemp("build"),
            stop_after="assemble",
        )
        return self[batch]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[int, onnx_hw.Build]:
    return Builds(tmp_path_factory)


def test_outputs_are_those_of_the_integer_network(builds: dict[int, onnx_hw.Build]) -> None:
    """In the model's dtype and units, stacked as the samples are, with the labels that came with them."""
    network = onnx_hw.quantize(tiny_float_model(), IMAGES)
    x = {"image": IMAGES[:3], "labels": np.array([0, 1, 2])}
    outputs = onnx_hw.infer(builds[1], x, port="sim", check=True)
    wanted = network(IMAGES[:3])
    assert list(outputs) == ["probabilities"] and outputs["probabilities"].dtype == np.float32
    np.testing.assert_array_equal(outputs["probabilities"], wanted["probabilities"])
    assert outputs.labels is not None and outputs.labels.tolist() == [0, 1, 2]


def test_the_simulated_chip_has_the_digest_of_its_netlist(builds: dict[int, onnx_hw.Build], tmp_path: Path) -> None:
    """A ``model.json`` of another build is refused, as by a board."""
    folder = shutil.copytree(builds[1].folder, tmp_path / "build")
    model = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**model, "digest": "ab" * 16}))
    with pytest.raises(onnx_hw.UserError, match="link-other-design"):
        onnx_hw.infer(folder, IMAGES[:1], port="sim")


def test_a_sample_of_several_frames(builds: dict[int, onnx_hw.Build], tmp_path: Path) -> None:
    """The samples of a model for two images at once have two images."""
    pairs = IMAGES[:4].reshape(2, BATCH, 1, 4, 4)
    wanted = onnx_hw.quantize(batched(), IMAGES.reshape(-1, BATCH, 1, 4, 4))(pairs)["probabilities"]
    assert wanted.shape == (2, BATCH, 3)
    np.savez(tmp_path / "pairs.npz", image=pairs, labels=np.array([0, 1, 2, 0]))
    outputs = onnx_hw.infer(builds[BATCH], tmp_path / "pairs.npz", port="sim", check=True)
    np.testing.assert_array_equal(outputs["probabilities"], wanted)
    assert outputs.labels is not None and len(outputs.labels) == 4
    with pytest.raises(onnx_hw.UserError, match=r"\[2,1,4,4\]"):
        onnx_hw.infer(builds[BATCH], IMAGES[0], port="sim")


def test_outputs_that_differ_are_an_error(builds: dict[int, onnx_hw.Build], monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is the integer network that is wrong, in the second of two frames."""
    usual = golden.run

    def wrong(*arguments: Any) -> dict[str, np.ndarray]:
        outputs = usual(*arguments)
        outputs["probabilities"][1] += 1
        return outputs

    monkeypatch.setattr(golden, "run", wrong)
    with pytest.raises(onnx_hw.UserError, match="`probabilities` differs in 1 of 2 frames") as raised:
        onnx_hw.infer(builds[1], IMAGES[:2], port="sim", check=True)
    assert raised.value.exit_code is ExitCode.MISMATCH


def test_cycles_that_differ_are_an_error(builds: dict[int, onnx_hw.Build], monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is the firing law that predicts a cycle too few."""
    usual = LinkTimesCheck.__init__

    def late(check: LinkTimesCheck, frames: int, exact: int, latency: int, wrong: Any) -> None:
        usual(check, frames, exact, latency, ((1, 1),))

    monkeypatch.setattr(LinkTimesCheck, "__init__", late)
    with pytest.raises(
        onnx_hw.UserError, match=r"1 of the first 2 frames are NOT as predicted; frame 1 ended 1 cycles later"
    ) as raised:
        onnx_hw.infer(builds[1], IMAGES[:2], port="sim", check=True)
    assert raised.value.exit_code is ExitCode.MISMATCH and raised.value.problems[0].code == "cycles-differ"
    assert len(onnx_hw.infer(builds[1], IMAGES[:2], port="sim")["probabilities"]) == 2, "said, but not asked for"


def test_samples_are_converted_with_a_note_or_refused(builds: dict[int, onnx_hw.Build]) -> None:
    with pytest.warns(UserWarning, match="float32") as warned, pytest.raises(onnx_hw.UserError):
        onnx_hw.infer(builds[1], IMAGES.astype(np.float64), port="/dev/nowhere")
    assert warned[0].filename == __file__
    with pytest.raises(onnx_hw.UserError, match=r"`image`, float \[1,1,4,4\]"):
        onnx_hw.infer(builds[1], {"picture": IMAGES})
    with pytest.raises(onnx_hw.UserError, match="leaves open which ones"):
        onnx_hw.infer(builds[1], (IMAGES * 255).astype(np.uint8))


def test_what_is_refused_names_keywords(builds: dict[int, onnx_hw.Build], tmp_path: Path) -> None:
    with pytest.raises(onnx_hw.UserError, match=r'`port="sim"` simulates the whole chip') as raised:
        onnx_hw.infer(builds[1], IMAGES, port="/dev/nowhere")
    assert raised.value.exit_code is ExitCode.TOOL_FAILED
    with pytest.raises(onnx_hw.UserError, match="the folder must be that of a build"):
        onnx_hw.infer(tmp_path, IMAGES)
    early = onnx_hw.build(tiny_float_model(), calibration=IMAGES, out=tmp_path / "early", stop_after="quantize")
    with pytest.raises(onnx_hw.UserError, match="for a board with a serial port; `ecp5` has none"):
        onnx_hw.infer(early, IMAGES)
