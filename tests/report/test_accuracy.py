"""The section about labelled samples: counted once more one by one, and pictures read by Pillow."""

from __future__ import annotations

import base64
import io
from dataclasses import replace

import numpy as np
import pytest

from onnx_hw.report.accuracy import MAX_LOST, Accuracy, describe_accuracy
from onnx_hw.report.html.page import page
from onnx_hw.report.sample_picture import sample_pictures
from support.page_checks import check_page, words
from support.sample_report import FULL


def one_hot(answers: np.ndarray, classes: int) -> dict[str, np.ndarray]:
    return {"scores": np.eye(classes, dtype=np.float32)[answers] + 0.25}


@pytest.mark.parametrize("classes", [3, 10, 70])
def test_counts_are_those_of_samples_looked_at_one_by_one(classes):
    draw = np.random.default_rng(classes)
    labels = draw.integers(0, classes, 400)
    wrong = draw.integers(0, classes, (2, 400))
    model, integers = (np.where(draw.random(400) < 0.8, labels, others) for others in wrong)
    frames = {"x": draw.random((400, 1, 1, 8, 8), dtype=np.float32)}
    made = describe_accuracy(
        frames, labels, one_hot(model, classes), one_hot(integers, classes), one_hot(integers[:100], classes)
    )
    lost = [k for k in range(400) if model[k] == labels[k] != integers[k]]
    assert (made.samples, made.circuit_samples, made.lost_samples) == (400, 100, len(lost))
    assert made.won_samples == sum(integers[k] == labels[k] != model[k] for k in range(400))
    assert [(s.number, s.label, s.golden) for s in made.lost] == [(k, labels[k], integers[k]) for k in lost[:MAX_LOST]]
    assert made.golden == pytest.approx(sum(integers == labels) / 400) and made.circuit == pytest.approx(
        sum(integers[:100] == labels[:100]) / 100
    )
    assert made.golden_of_circuit_samples == made.circuit
    assert made.circuit_in_words == f"on the 100 simulated golden and circuit are equal, {made.circuit:.2%}"
    for entry in made.classes:
        own = [k for k in range(400) if labels[k] == entry.label]
        assert entry.samples == len(own)
        assert entry.reference == pytest.approx(sum(model[k] == labels[k] for k in own) / len(own))
        assert entry.golden == pytest.approx(sum(integers[k] == labels[k] for k in own) / len(own))
    if classes > 64:
        assert made.confusion == ()
        return
    for label in range(classes):
        for answer in range(classes):
            count = sum((labels[k], integers[k]) == (label, answer) for k in range(400))
            assert made.confusion[label][answer] == count


def test_an_output_of_one_integer_is_the_answer():
    labels = np.array([2, 0, 1])
    answers = {"y": np.array([[2], [1], [1]])}
    made = describe_accuracy({"x": np.zeros((3, 5))}, labels, answers, answers, answers)
    assert made.golden == pytest.approx(2 / 3) and made.confusion == ((0, 1, 0), (0, 1, 0), (0, 0, 1))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 1, 8, 8), (8, 8)),
        ((1, 3, 6, 9), (9, 6)),
        ((1, 5, 4, 3), (4, 5)),
        ((1, 1, 150, 200), (50, 38)),
        ((7, 4), (4, 7)),
    ],
)
def test_pictures_have_the_pixels_of_the_samples(shape, size):
    from PIL import Image

    samples = np.random.default_rng(1).integers(-100, 100, (5, *shape))
    samples[1].flat[0], samples[3].flat[0] = -128, 127
    pictures = sample_pictures({"x": samples}, [1, 3])
    for number, picture in zip((1, 3), pictures, strict=True):
        image = Image.open(io.BytesIO(base64.b64decode(picture)))
        assert image.size == size
        pixels = np.asarray(image).astype(int)
        assert pixels.flat[0] == (0 if number == 1 else 255)
        if shape == (1, 3, 6, 9):
            assert np.array_equal(pixels, samples[number, 0].transpose(1, 2, 0) + 128)


@pytest.mark.parametrize("shape", [(1, 640), (1, 2, 8, 8), (8,), (1, 3, 2, 2)])
def test_other_inputs_have_no_picture(shape):
    assert sample_pictures({"x": np.zeros((2, *shape))}, [0, 1]) == ("", "")
    assert sample_pictures({"x": np.zeros((2, 8, 8)), "y": np.zeros((2, 8, 8))}, [0]) == ("",)


def test_the_page_shows_confusions_and_lost_samples():
    text = page(FULL)
    root = check_page(text)
    pictures = [element for element in root.iter() if element.tag.endswith("}img")]
    assert [picture.get("alt") for picture in pictures] == ["sample 17"]
    said = words(text)
    assert "sample 230 class 0, integers say 1" in said and "lose 2 that the model gets right" in said
    assert "0 178 2 180 100.0 % 98.9 %" in said and "1 6 174 180 96.1 % 96.7 %" in said
    many = replace(FULL.accuracy, confusion=(), classes=FULL.accuracy.classes[::-1] * 30)  # type: ignore[type-var]
    shown = words(page(replace(FULL, accuracy=many)))
    assert "The 20 classes that the integers get worst" in shown and shown.count("96.1 % 96.7 %") == 20


def test_the_circuit_is_compared_on_the_same_samples():
    """The share of other samples would read like a loss."""
    measured = Accuracy(360, 0.98, 0.9833, 0.9816, 217, 0.9816)
    assert measured.circuit_in_words == "on the 217 simulated golden and circuit are equal, 98.16%"
    assert replace(measured, circuit_samples=360).circuit_in_words == "circuit equal to golden"
    broken = replace(measured, circuit=0.5)
    assert broken.circuit_in_words == "on the 217 simulated: circuit 50.00%, golden 98.16%"
    assert replace(measured, circuit=None).circuit_in_words == ""
