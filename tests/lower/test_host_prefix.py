"""Spectra and the like before a network: the host computes them, of float models and of quantized ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.onnx.evaluate import reference
from support.onnx_oracle import by_onnxruntime
from support.qdq_models import Sketch

Prepare = Callable[[Sketch, str], str]


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def power(s: Sketch, spectrum: str) -> str:
    """|z|² of pairs on the last axis."""
    return s.node("ReduceSum", s.node("Mul", spectrum, spectrum), s.constant(ints(-1)), keepdims=0)


def stft(s: Sketch, x: str) -> str:
    """As PyTorch writes it: the signal has no axis for real and imaginary part."""
    window = s.constant(np.hanning(16).astype(np.float32))
    y = s.node("STFT", x, s.constant(np.int64(8)), window, s.constant(np.int64(16)), onesided=1)
    return s.node("Unsqueeze", power(s, y), s.constant(ints(1)))


def dft(s: Sketch, x: str) -> str:
    """Of a scaled signal, which hardware could scale, too."""
    y = s.node("Mul", x, s.constant(np.float32(0.5)))
    y = s.node("DFT", s.node("Reshape", y, s.constant(ints(1, 8, 9, 1))), "", s.constant(np.int64(2)))
    return s.node("Unsqueeze", power(s, y), s.constant(ints(1)))


def resized(s: Sketch, x: str) -> str:
    """An operator that hardware has, but not with this attribute."""
    y = s.node("Reshape", x, s.constant(ints(1, 1, 8, 9)))
    return s.node("Resize", y, "", s.constant(np.array([1, 1, 2, 2], "f")), mode="cubic")


def both(s: Sketch, x: str) -> str:
    """What the host reads, hardware reads too."""
    return s.node("Concat", dft(s, x), s.node("Reshape", x, s.constant(ints(1, 1, 8, 9))), axis=1)


PREPARE: dict[str, Prepare] = {"stft": stft, "dft": dft, "resized": resized, "both": both}


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize("name", PREPARE)
@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.UINT8])
def test_the_host_prepares_what_the_first_product_reads(
    tmp_path: Path, name: str, quantized: bool, element: int
) -> None:
    s = Sketch(opset=20)
    x = "x" if element == TensorProto.FLOAT else s.node("Cast", "x", to=TensorProto.FLOAT)
    y = PREPARE[name](s, x)
    channels = 2 if name == "both" else 1
    weights = np.random.default_rng(0).normal(0, 0.1, (3, channels, 2, 2)).astype(np.float32)
    if quantized:
        y = s.through_integers(y, 0.4, -100)
        stored = np.rint(weights * 400).astype(np.int8)
        y = s.through_integers(s.node("Conv", y, s.dequantized(stored, [1 / 400])), 0.25, 0)
    else:
        y = s.node("Relu", s.node("Conv", y, s.constant(weights)))
    path = tmp_path / "m.onnx"
    onnx.save(s.model([1, 72], element, y, 4, TensorProto.FLOAT), path)
    model = flow.read(path)
    frames = {"x": np.random.default_rng(1).uniform(0, 4, (4, 1, 72)).astype(np.float32)}
    if element == TensorProto.UINT8:
        frames = {"x": frames["x"].astype(np.uint8)}
    network = flow.quantize(model, None if quantized else frames)
    assert {"STFT", "DFT", "Resize"} & {node.op_type for node in network.head.graph.nodes}
    (found,), (wanted,) = golden.run(network, frames).values(), by_onnxruntime(path, frames).values()
    assert ((found - wanted) ** 2).sum() < 0.002 * (wanted**2).sum()
    for k, frame in enumerate(frames["x"]):
        assert np.allclose(next(iter(reference.run(model, {"x": frame}).values())), wanted[k], atol=0.26)
