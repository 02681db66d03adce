"""The loss of drawn float networks, compared with onnxruntime's quantizer on the same samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnxruntime.quantization import QuantFormat, QuantType

import onnx
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.runtime.options import OutputKind
from onnx_hw.samples.sqnr import NoiseStatistics
from support.exports.quantizing import Choices, quantized
from support.onnx_oracle import by_onnxruntime
from support.random_trained_networks import drawn_network

CALIBRATION, JUDGES = 32, 200
MIN_MAX = Choices(QuantFormat.QDQ, QuantType.QInt8, QuantType.QInt8, per_channel=True, prepared=True)


def test_drawn_networks_lose_less(tmp_path: Path) -> None:
    """A convolutional and a depthwise network, int8 at the output."""
    gains = []
    for seed in (5, 7):
        drawn = drawn_network(seed, CALIBRATION + JUDGES)
        calibration, judges = {"x": drawn.samples[:CALIBRATION]}, {"x": drawn.samples[CALIBRATION:]}
        floats, integers = tmp_path / f"{seed}.onnx", tmp_path / f"{seed}_int8.onnx"
        onnx.save(drawn.model, floats)
        quantized(drawn.model, calibration, MIN_MAX, integers)
        network = flow.quantize(flow.read(floats), calibration, Scheme(output=OutputKind.INT8))
        (wanted,) = by_onnxruntime(floats, judges).values()
        (ours,) = golden.run(network, judges).values()
        (theirs,) = by_onnxruntime(integers, judges).values()
        gains.append(decibels(ours, wanted) - decibels(theirs, wanted))
    assert min(gains) > 1, gains


def decibels(values: np.ndarray, wanted: np.ndarray) -> float:
    return NoiseStatistics().with_values(values, wanted).sqnr_db or np.inf
