"""Drawn models: the network equals exact rationals on every value, and keeps the ranges its types promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import onnx
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.lower.lower_model import import_model
from support.design_bench import every_tensor
from support.exact_reference import evaluate
from support.random_qdq_models import quantized_models

fresh_file_each_time = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def check(path: Path, model: onnx.ModelProto, frames: np.ndarray) -> None:
    onnx.save(model, path)
    network = import_model(flow.read(path))
    found = golden.run(network, {"x": frames})
    for k, frame in enumerate(frames):
        for name, wanted in evaluate(model, {"x": frame}).items():
            assert found[name][k].dtype == wanted.dtype
            assert np.array_equal(found[name][k], wanted), f"{name}, frame {k}:\n{network!r}"
    every_tensor(network, golden.integers_of(network, {"x": frames}))


@settings(max_examples=60, derandomize=True, suppress_health_check=fresh_file_each_time)
@given(quantized_models())
def test_the_network_means_what_the_model_says(tmp_path: Path, drawn: tuple[onnx.ModelProto, np.ndarray]) -> None:
    check(tmp_path / "model.onnx", *drawn)


@pytest.mark.slow
@settings(max_examples=120, suppress_health_check=fresh_file_each_time)
@given(quantized_models())
def test_at_length(tmp_path: Path, drawn: tuple[onnx.ModelProto, np.ndarray]) -> None:
    check(tmp_path / "model.onnx", *drawn)
