"""Models as onnxruntime's quantizer writes them, in both of its formats, against onnxruntime."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

from onnx_hw import flow
from onnx_hw.ir import golden
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.random_float_models import FloatDrawing


class Frames(CalibrationDataReader):
    """One sample after the other."""

    def __init__(self, frames: dict[str, np.ndarray]) -> None:
        count = len(next(iter(frames.values())))
        self.samples = iter([{name: array[k] for name, array in frames.items()} for k in range(count)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.samples, None)


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("seed", [3, 6, 21])
def test_drawn_models(tmp_path: Path, form: QuantFormat, per_channel: bool, kind: QuantType, seed: int) -> None:
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(4)
    floats = write(drawing.sketch, tmp_path / "floats.onnx", inputs, *outputs)
    frames = random_frames(flow.read(floats), 4)
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_static(
            floats,
            path,
            Frames(frames),
            quant_format=form,
            per_channel=per_channel,
            activation_type=kind,
            weight_type=QuantType.QInt8,
            # On processors without VNNI, onnxruntime saturates sums of two u8 × s8 products; 7-bit weights fit.
            reduce_range=kind is QuantType.QUInt8,
        )
    network = flow.quantize(flow.read(path))
    found = golden.run(network, frames)
    for name, wanted in by_onnxruntime(path, frames).items():
        span = max(float(np.ptp(wanted)), 1e-6)
        assert np.abs(found[name] - wanted).max() <= 0.05 * span, name
    if seed == 3:
        assert_circuit_agrees(network)
