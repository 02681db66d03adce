"""The digits example: its files agree with what its README says, and its script makes such files."""

import re
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import onnx
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits"
IMAGES = 360
README = (DIGITS / "README.md").read_text(encoding="utf-8")


def guesses(folder, name):
    """What onnxruntime, computing the file as it stands, takes each test image for; and the labels."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would spin on the cores of other tests
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    runner = onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
    with np.load(folder / "digits_test.npz") as samples:
        scores = [runner.run(None, {"image": image})[0] for image in samples["image"]]
        return np.concatenate(scores).argmax(axis=1), samples["labels"]


@pytest.mark.parametrize("name", ["digits.onnx", "digits_float.onnx"])
def test_accuracy_is_the_one_in_the_readme(name):
    answers, labels = guesses(DIGITS, name)
    right = int((answers == labels).sum())
    assert len(labels) == IMAGES
    assert right >= 0.97 * IMAGES
    assert f"| `{name}` | {right} ({right / IMAGES:.2%})".replace("%", " %") in README


def test_both_models_agree_on_every_image():
    np.testing.assert_array_equal(guesses(DIGITS, "digits.onnx")[0], guesses(DIGITS, "digits_float.onnx")[0])


def test_no_test_image_was_seen_in_calibration():
    with np.load(DIGITS / "digits_test.npz") as test, np.load(DIGITS / "digits_calibration.npz") as calibration:
        seen = {image.tobytes() for image in calibration["image"]}
        assert len(seen) == int(re.search(r"(\d+) training images", README)[1])  # type: ignore[index]
        assert not any(image.tobytes() in seen for image in test["image"])


def test_int8_scheme():
    """Asymmetric activations, symmetric weights per channel, biases at the product of the two scales."""
    model = onnx.load(DIGITS / "digits.onnx")
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for layer, before in (("conv1", "image"), ("conv2", "pool1"), ("dense", "features")):
        assert constants[f"{layer}_weights_int8"].dtype == np.int8
        assert not constants[f"{layer}_weights_zero_point"].any()
        scales = constants[f"{before}_scale"] * constants[f"{layer}_weights_scale"]
        np.testing.assert_array_equal(constants[f"{layer}_bias_scale"], scales)
        assert constants[f"{layer}_bias_int32"].dtype == np.int32
    assert {int(constants[f"{name}_zero_point"]) for name in ("image", "conv1", "conv2")} == {-128}
    assert constants["scores_zero_point"] > -128  # scores may be negative


@pytest.mark.slow
def test_the_script_makes_such_files(tmp_path):
    subprocess.run([sys.executable, DIGITS / "train.py", tmp_path], check=True, capture_output=True, timeout=300)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in DIGITS.iterdir() if path.suffix in {".onnx", ".npz"}
    )
    for name in ("digits.onnx", "digits_float.onnx"):
        answers, labels = guesses(tmp_path, name)
        assert (answers == labels).mean() >= 0.97
