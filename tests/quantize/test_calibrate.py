"""Calibration: float models become QDQ models that compute nearly the same; bad data is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from material import EXAMPLES
from material import model as real_model
from onnx_hw import flow, golden
from onnx_hw.errors import UserError
from onnx_hw.onnx import reference
from onnx_hw.onnx.model import Model
from onnx_hw.quantize.calibrate import calibrate, synthetic_frames
from onnx_hw.quantize.insert_quantization import insert_quantization, is_quantized

DIGITS = EXAMPLES / "digits"


def load_frames(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as stored:
        return {key: stored[key] for key in stored if key != "labels"}


def outputs(model: Model, frames: dict[str, np.ndarray]) -> np.ndarray:
    count = len(next(iter(frames.values())))
    each = [reference.run(model, {name: array[k] for name, array in frames.items()}) for k in range(count)]
    return np.stack([next(iter(values.values())) for values in each])


def sqnr(wanted: np.ndarray, found: np.ndarray) -> float:
    """Signal to quantization noise, dB."""
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


def test_digits_keep_their_accuracy() -> None:
    model = flow.load(DIGITS / "digits_float.onnx")
    assert not is_quantized(model)
    frames = load_frames(DIGITS / "digits_calibration.npz")
    quantized = insert_quantization(model, calibrate(model, frames))
    assert is_quantized(quantized)
    few = {name: array[:20] for name, array in frames.items()}
    # the rewritten model is still an ONNX model: the reference runs it
    assert sqnr(outputs(model, few), outputs(quantized, few)) > 20
    network = flow.quantize(model, frames)
    found = next(iter(golden.run(network, few).values()))
    assert sqnr(outputs(model, few), found) > 20
    assert (found.reshape(20, -1).argmax(1) == outputs(model, few).reshape(20, -1).argmax(1)).mean() >= 0.95


def test_a_real_float_model() -> None:
    folder = real_model("mnist8_cntk")
    model = flow.load(folder / "model.onnx")
    frames = load_frames(folder / "inputs.npz")
    found = next(iter(golden.run(flow.quantize(model, frames), frames).values()))
    with np.load(folder / "outputs.npz") as stored:
        wanted = stored[stored.files[0]]
    assert sqnr(wanted, found) > 30
    assert np.array_equal(found.reshape(16, -1).argmax(1), wanted.reshape(16, -1).argmax(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(bad: float) -> None:
    model = flow.load(DIGITS / "digits_float.onnx")
    frames = synthetic_frames(model)
    name = next(iter(frames))
    frames[name][1].reshape(-1)[5] = bad
    with pytest.raises(UserError, match="must be finite"):
        calibrate(model, frames)


def test_without_data_the_library_asks_for_it() -> None:
    with pytest.raises(UserError, match="calibration frames"):
        flow.quantize(flow.load(DIGITS / "digits_float.onnx"))
