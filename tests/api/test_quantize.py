"""``onnx_hw.quantize``: a function of arrays that computes what the circuit will compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import onnx
import onnx_hw
from onnx_hw import flow
from onnx_hw.ir import golden
from support.fixture_paths import EXAMPLES
from support.onnx_oracle import random_frames, write
from support.random_float_models import FloatDrawing
from support.tiny_float_model import IMAGES, tiny_float_model

MODEL = tiny_float_model()


@pytest.fixture(scope="module")
def network() -> onnx_hw.QuantizedModel:
    return onnx_hw.quantize(MODEL, {"image": IMAGES}, bits=8)


def by_onnxruntime(model: onnx.ModelProto, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What onnxruntime computes for every value of a model: (frames, *shape), by name."""
    known = {value.name for value in model.graph.output}
    inner = [name for node in model.graph.node for name in node.output if name not in known]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in inner)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    count = len(next(iter(frames.values())))
    each = [session.run(None, {name: array[k] for name, array in frames.items()}) for k in range(count)]
    names = [value.name for value in session.get_outputs()]
    return {name: np.stack(parts) for name, parts in zip(names, zip(*each, strict=True), strict=True)}


def test_outputs_have_names_dtypes_and_units_of_the_model(network: onnx_hw.QuantizedModel) -> None:
    outputs = network(IMAGES)
    assert isinstance(outputs, dict) and list(outputs) == ["probabilities"]
    assert outputs["probabilities"].dtype == np.float32
    wanted = by_onnxruntime(tiny_float_model(), {"image": IMAGES[:, np.newaxis]})["probabilities"]
    np.testing.assert_allclose(outputs["probabilities"], wanted[:, 0], atol=0.02)
    exact = golden.run(network.network, {"image": IMAGES[:, np.newaxis]})["probabilities"]
    np.testing.assert_array_equal(outputs["probabilities"], exact[:, 0])


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (IMAGES, (40, 3)),
        (IMAGES[:1], (1, 3)),
        (IMAGES[:, np.newaxis], (40, 1, 3)),
        (IMAGES[0], (3,)),
        ({"image": IMAGES}, (40, 3)),
        ({"image": IMAGES[0]}, (3,)),
    ],
)
def test_outputs_are_stacked_as_the_samples_are(network: onnx_hw.QuantizedModel, x: object, shape: object) -> None:
    assert network(x)["probabilities"].shape == shape


def test_samples_are_converted_with_a_note_or_refused(network: onnx_hw.QuantizedModel) -> None:
    expected = network(IMAGES)["probabilities"]
    for x in (IMAGES.astype(np.float64), IMAGES.tolist()):
        with pytest.warns(UserWarning, match="float32"):
            np.testing.assert_array_equal(network(x)["probabilities"], expected)
    with pytest.raises(onnx_hw.UserError, match="leaves open which ones"):
        network((IMAGES * 255).astype(np.uint8))
    with pytest.raises(onnx_hw.UserError, match=r"`image`, float \[1,1,4,4\]"):
        network({"picture": IMAGES})


def test_real_numbers_of_every_tensor(network: onnx_hw.QuantizedModel) -> None:
    """Values of the model have its names and its layout, and are near what onnxruntime computes for them."""
    traced = network.trace(IMAGES)
    assert next(iter(traced)) == "image" and list(traced)[-1] == "probabilities"
    for name, wanted in by_onnxruntime(tiny_float_model(), {"image": IMAGES[:, np.newaxis]}).items():
        assert traced[name].shape == wanted.shape
        np.testing.assert_allclose(traced[name], wanted, atol=0.05)
    assert 0 < np.abs(traced["image"][:, 0] - IMAGES).max() < 0.01  # on the grid of its integers
    np.testing.assert_array_equal(traced["probabilities"][:, 0], network(IMAGES)["probabilities"])


def test_a_trace_has_what_a_model_with_integers_of_its_own_computes() -> None:
    """Sums before a quantizer, pools and movements too; integers are returned as the numbers that they stand for."""
    path = EXAMPLES / "digits" / "digits.onnx"
    with np.load(EXAMPLES / "digits" / "digits_test.npz") as test:
        images = test["image"][:4]
    traced = onnx_hw.quantize(path).trace(images)
    wanted = by_onnxruntime(onnx.load(path), {"image": images})
    real = {name: array for name, array in wanted.items() if array.dtype == np.float32 and array.shape[1] == 1}
    assert {"conv1_sums", "conv1", "pool1", "features", "scores"} <= real.keys()
    for name, array in real.items():
        np.testing.assert_allclose(traced[name], array, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_traces_of_drawn_models(tmp_path: Path, seed: int) -> None:
    """Every value that an output depends on is traced, in its shape, unless a BatchNormalization absorbed it."""
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(4)
    path = write(drawing.sketch, tmp_path / "m.onnx", inputs, *outputs)
    frames = random_frames(flow.read(path), 6)
    traced, model = onnx_hw.quantize(path, frames, bits=12).trace(frames), onnx.load(path)
    needed, nodes = set(outputs), list(model.graph.node)
    for node in reversed(nodes):
        needed.update(node.input if needed & set(node.output) else ())
    absorbed = {node.input[0] for node in nodes if node.op_type == "BatchNormalization"}
    wanted = by_onnxruntime(model, frames)
    names = [name for name in wanted if name in needed - absorbed]
    assert names and all(traced[name].shape == wanted[name].shape for name in names)
    errors = {name: np.abs(traced[name] - wanted[name]).max() / max(1, np.abs(wanted[name]).max()) for name in names}
    assert max(errors.values()) < 0.05, errors


def test_integers_of_every_tensor(network: onnx_hw.QuantizedModel) -> None:
    traced, real = network.trace(IMAGES, integers=True), network.trace(IMAGES)
    assert len(traced) >= len(network.network.tensors)
    assert all(array.dtype == np.int64 and len(array) == len(IMAGES) for array in traced.values())
    grid = network.network.grids["image/int8"]
    stands_for = [[float(grid.real(int(number))) for number in image.reshape(-1)] for image in traced["image/int8"]]
    np.testing.assert_allclose(real["image"].reshape(len(IMAGES), -1), stands_for)


def test_a_model_with_integers_of_its_own_needs_no_samples() -> None:
    network = onnx_hw.quantize(EXAMPLES / "digits" / "digits.onnx")
    with np.load(EXAMPLES / "digits" / "digits_test.npz") as test:
        images, labels = test["image"][:60, 0], test["labels"][:60]
    outputs = network({"image": images, "labels": labels})
    assert outputs.labels is not None and (outputs["probabilities"].argmax(axis=1) == outputs.labels).mean() > 0.9
    with pytest.raises(onnx_hw.UserError, match="bits are chosen for a model that lacks integers"):
        onnx_hw.quantize(EXAMPLES / "digits" / "digits.onnx", bits=4)


@pytest.mark.parametrize("cut_at", ["logits", ["logits"], ("logits",), "features, logits"])
def test_a_part_of_a_model(cut_at: str | list[str]) -> None:
    """One text is one name, or names with commas; the part computes what the whole model does up to there."""
    part = onnx_hw.quantize(MODEL, IMAGES, cut_at=cut_at)
    outputs = part(IMAGES)
    assert list(outputs) == (["features", "logits"] if "," in cut_at else ["logits"])
    wanted = by_onnxruntime(tiny_float_model(), {"image": IMAGES[:, np.newaxis]})["logits"]
    np.testing.assert_allclose(outputs["logits"], wanted[:, 0], atol=0.05)
    with pytest.raises(onnx_hw.UserError, match="`cut_at` must be names of tensors"):
        onnx_hw.quantize(MODEL, IMAGES, cut_at=[1])  # type: ignore[list-item]


def test_fewer_bits_and_goals() -> None:
    narrow = onnx_hw.quantize(MODEL, IMAGES, bits={"weights": 3, "data": 4})
    assert "4 bits" in repr(narrow) and "image: float[1,1,4,4] → probabilities" in repr(narrow)
    assert "conv" in narrow._repr_html_()
    with pytest.raises(onnx_hw.UserError, match="2 to 16 bits, not 20"):
        onnx_hw.quantize(MODEL, IMAGES, bits=20)
    with pytest.raises(onnx_hw.UserError, match="calibration"):
        onnx_hw.quantize(MODEL)
