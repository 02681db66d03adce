"""Drawn float models through the whole of quantization, and a share of them into the circuit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.onnx.evaluate import reference
from onnx_hw.quantization.post_training import quantize_float_model
from support.onnx_oracle import assert_circuit_agrees, random_frames, write
from support.random_float_models import FloatDrawing


def network_of(seed: int, folder: Path) -> Network:
    """Golden means what the ONNX operators of the quantized model mean.

    In floats a value may lie beside a tie, and what follows may add up a few such steps.
    """
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(3 + seed % 4)
    model = flow.read(write(drawing.sketch, folder / "m.onnx", inputs, *outputs))
    frames = random_frames(model, 3)
    quantized = quantize_float_model(model, frames)
    network = import_model(quantized)
    found = golden.run(network, frames)
    for k in range(3):
        wanted = reference.run(quantized, {name: array[k] for name, array in frames.items()})
        for name in outputs:
            assert found[name][k].shape == wanted[name].shape
            span = max(float(np.ptp(wanted[name])), 1e-6)
            assert np.abs(found[name][k] - wanted[name]).max() <= 0.05 * span + 1e-6, (seed, name)
    return network


@pytest.mark.parametrize("seed", range(40))
def test_golden_means_what_the_quantized_model_means(tmp_path: Path, seed: int) -> None:
    network_of(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 90))
def test_many_more(tmp_path: Path, seed: int) -> None:
    network_of(seed, tmp_path)


@pytest.mark.parametrize("seed", range(400, 404))
def test_the_circuit_agrees(tmp_path: Path, seed: int) -> None:
    assert_circuit_agrees(network_of(seed, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [406, 408])
def test_more_circuits_agree(tmp_path: Path, seed: int) -> None:
    assert_circuit_agrees(network_of(seed, tmp_path))
