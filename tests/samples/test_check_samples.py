"""Samples from Python: what is taken, what is said about a conversion, and what is refused with a next step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples import check_samples as checks
from onnx_hw.samples.check_samples import check_samples
from onnx_hw.samples.frames import input_data
from support.fixture_paths import EXAMPLES

IMAGE, MASK = Value("image", "float", (1, 1, 8, 8)), Value("mask", "int8", (5,))


def refusal(arrays: Any, *inputs: Value, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        check_samples(arrays, inputs or (IMAGE,), **options)
    text = str(caught.value)
    assert text.count("  hint   ") == text.count("error["), text
    return text


@pytest.mark.parametrize("batch", [1, "N", None])
@pytest.mark.parametrize(
    ("shape", "count"), [((1, 2, 3), 1), ((2, 3), 1), ((4, 1, 2, 3), 4), ((4, 2, 3), 4), ((1, 1, 2, 3), 1)]
)
def test_shapes(batch: int | str | None, shape: tuple[int, ...], count: int) -> None:
    """With or without the batch of 1, stacked or not."""
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    samples = check_samples(array, [Value("x", "float", (batch, 2, 3))])
    assert samples.count == count and samples.notes == ()
    assert np.array_equal(samples.arrays["x"], array.reshape(count, 1, 2, 3))


def test_without_a_batch_the_first_axis_stays() -> None:
    for shape, count in (((2, 3), 1), ((4, 2, 3), 4)):
        assert check_samples(np.zeros(shape, np.float32), [Value("x", "float", (2, 3))]).count == count
    assert "must be [2,3], or [n,2,3]" in refusal(np.zeros(3, np.float32), Value("x", "float", (2, 3)))


@pytest.mark.parametrize(
    ("given", "kind", "wanted", "note"),
    [
        (
            np.array([0.1, 2.0]),
            "float",
            np.array([0.1, 2.0], np.float32),
            "came as float64, and was rounded to float32",
        ),
        ([0.1, 2], "float", np.array([0.1, 2.0], np.float32), "came as a list"),
        ([1, 2], "float", np.array([1.0, 2.0], np.float32), "came as a list"),
        (np.array([0.5, 2.0], np.float16), "float", np.array([0.5, 2.0], np.float32), None),
        (np.array([0.5, 2.0], ">f4"), "float", np.array([0.5, 2.0], np.float32), None),
        (np.array([0.5, 2.0], np.float32), "double", np.array([0.5, 2.0]), None),
        ([-128, 127], "int8", np.array([-128, 127], np.int8), None),
        (np.array([0, 255]), "uint8", np.array([0, 255], np.uint8), None),
        (np.array([-8, 7], np.int8), "int4", np.array([-8, 7], np.int8), None),
        (np.array([True, False]), "int64", np.array([1, 0]), None),
    ],
)
def test_dtypes(given: Any, kind: str, wanted: np.ndarray, note: str | None) -> None:
    samples = check_samples(given, [Value("x", kind, (2,))])
    assert samples.arrays["x"].dtype == wanted.dtype and np.array_equal(samples.arrays["x"][0], wanted)
    assert len(samples.notes) == (note is not None)
    assert note is None or note in samples.notes[0][0]


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        (np.array([0, 255], np.uint8), "float", "leaves open which ones its 0 .. 255 stand for"),
        ([np.array([0, 255], np.uint8)] * 3, "float", "array.astype(np.float32) / 255"),
        (np.array([0.5, 1.0]), "int8", "divided by their scale and rounded"),
        ([0, 128], "int8", "takes int8, -128 .. 127, not 128"),
        (np.array([-9, 0], np.int8), "int4", "takes int4, -8 .. 7, not -9"),
        ([1, 0], "bool", "the dtype must be bool"),
        (np.array([1e300, 0.0]), "float", "must be a finite float32, not 1e+300 as at [0, 0]"),
        (np.array([1j, 0]), "float", "the dtype must be float32"),
        (["a", "b"], "float", "the dtype must be float32"),
        ([[1.0, 2.0], [3.0]], "float", "rows of a list must be equally long"),
        ([], "float", "at least one sample"),
        (object(), "float", "the dtype must be float32"),
        (np.zeros((3, 4), np.float32), "float", "array.reshape(-1, 2)"),
    ],
)
def test_refused(given: Any, kind: str, told: str) -> None:
    assert told in refusal(given, Value("x", kind, (2,)))


def test_type_and_shape_are_told_at_once() -> None:
    text = refusal({"image": np.zeros((2, 8, 8, 1), np.uint8), "mask": np.zeros(5, np.int8)}, IMAGE, MASK)
    assert text.count("error[") == 2 and "array.transpose(0, 3, 1, 2)" in text and "/ 255" in text
    moved = np.zeros((2, 8, 8, 1), np.float32).transpose(0, 3, 1, 2)
    assert check_samples(moved, [IMAGE]).count == 2


def test_names() -> None:
    image, mask = np.zeros((2, 1, 8, 8), np.float32), np.zeros((2, 5), np.int8)
    text = refusal({"imgae": image})
    assert "`image`, float [1,1,8,8]" in text and "`imgae`; name it as the input" in text
    text = refusal({"image": image, "mask": mask, "maks": mask}, IMAGE, MASK)
    assert "leave it out: the graph has `image`, `mask`" in text
    text = refusal(image, IMAGE, MASK, source="calibration")
    assert "`image` float [1,1,8,8], `mask` int8 [5]" in text and "where  calibration" in text
    assert '{"image": ..., "mask": ...}' in text
    assert "`image` has 2, `mask` has 1" in refusal({"image": image, "mask": mask[:1]}, IMAGE, MASK)


def test_labels() -> None:
    images = np.zeros((3, 1, 8, 8), np.float32)
    for arrays, labels in (
        ({"image": images, "labels": [2, 0, 1]}, None),
        (images, [2, 0, 1]),
        (images, [[2], [0], [1]]),
    ):
        samples = check_samples(arrays, [IMAGE], labels=labels, classes=3)
        assert samples.labels is not None and samples.labels.tolist() == [2, 0, 1]
    assert "one label per sample, 3, not 2" in refusal(images, labels=[0, 1])
    assert "argmax(axis=1)" in refusal(images, labels=np.eye(3), classes=3)
    assert "labels - 1" in refusal(images, labels=[1, 2, 3], classes=3)
    assert "within 0 .. 2" in refusal(images, labels=[0, 2, 9], classes=3)
    assert "integers (class numbers), not <U1" in refusal(images, labels=["a", "b", "c"])
    assert "must be given once" in refusal({"image": images, "labels": [0, 0, 0]}, labels=[0, 0, 0])
    assert "one label per sample, 6" in refusal(images, labels=[0, 1, 2], frames_of_a_sample=2)


def test_what_is_large_is_converted_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_BYTES_IN_MEMORY", 100)
    array = np.random.default_rng(1).standard_normal((20, 8))
    stored = check_samples(array, [Value("x", "float", (8,))]).arrays["x"]
    assert not stored.flags.owndata and np.array_equal(stored, array.astype(np.float32))


def test_quantize_takes_what_users_have() -> None:
    """A single array of float64, channels without a batch; the network is that of the same numbers as float32."""
    with np.load(EXAMPLES / "digits" / "digits_test.npz") as stored:
        images = stored["image"].reshape(-1, 1, 8, 8)[:16]
    model = flow.read(EXAMPLES / "digits" / "digits_float.onnx")
    network = flow.quantize(model, {"image": images})
    with pytest.warns(UserWarning, match="`image` came as float64"):
        assert repr(flow.quantize(model, images.astype(np.float64))) == repr(network)
    with pytest.raises(UserError, match="name it as the input"):
        flow.quantize(model, {"x": images})


def test_samples_of_a_build_from_python() -> None:
    model = flow.read(EXAMPLES / "digits" / "digits_float.onnx")
    images = np.zeros((4, 1, 8, 8), np.float32)
    given = input_data({"image": images, "labels": [1, 2, 3, 4]}, images[:2].tolist(), model)
    assert given.frames is not None and given.frames["image"].shape == (4, 1, 1, 8, 8)
    assert given.labels is not None and given.labels.tolist() == [1, 2, 3, 4]
    assert given.calibration is not None and len(given.calibration["image"]) == 2 and len(given.notes) == 1
    with pytest.raises(UserError) as caught:
        input_data(images.astype(np.uint8), {"images": images}, model)
    assert "where  inputs" in str(caught.value) and 'where  calibration["image"]' in str(caught.value)
