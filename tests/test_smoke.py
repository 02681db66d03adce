"""Smoke test: one tiny network from a file to a proven circuit, in seconds and without an external program."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.runtime.options import SimulationEngine
from support.qdq_models import Sketch

FRAMES = 3


def tiny_model(path: Path) -> Path:
    """Write a quantized 3 × 3 convolution of a 4 × 4 image to a file."""
    sketch = Sketch()
    weights = np.arange(-9, 9, dtype=np.int8).reshape(2, 1, 3, 3)
    x = sketch.through_integers("x", 0.1, 3)
    y = sketch.node("Conv", x, sketch.dequantized(weights, np.array(0.02)), pads=[1, 1, 1, 1])
    return sketch.write(path, (1, 1, 4, 4), sketch.through_integers(sketch.node("Relu", y), 0.01, -128))


def test_a_model_becomes_a_proven_circuit(tmp_path: Path) -> None:
    network = flow.quantize(flow.read(tiny_model(tmp_path / "tiny.onnx")))
    frames = {"x": np.random.default_rng(0).normal(size=(FRAMES, 1, 1, 4, 4)).astype(np.float32)}
    (result,) = golden.run(network, frames).values()
    assert result.shape == (FRAMES, 1, 2, 4, 4) and np.unique(result).size > 10
    design = flow.schedule(network, multipliers=6)
    proof = flow.simulate(design, frames, engine=SimulationEngine.INTERPRETED)
    assert proof.agrees, [run.difference for run in proof.runs]
    assert proof.frames >= 2
    assert sum(run.values_compared for run in proof.runs) > 2 * 16 * 2
