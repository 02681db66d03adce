"""Div of two quantized tensors: against exact rationals and onnxruntime, in the circuit, and where it stays away."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import onnx_hw
from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ops.divide import Divide
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, output_by_onnxruntime
from support.qdq_models import Sketch


def of_halves(sketch: Sketch, scales: tuple[float, float], zeros: tuple[int, int]) -> str:
    """One half of the channels of x by the other."""
    first = sketch.node("Split", "x", axis=1)
    sketch.nodes[-1].output.append("second")
    a, b = (sketch.through_integers(x, scales[k], zeros[k]) for k, x in enumerate((first, "second")))
    return sketch.node("Div", a, b)


@pytest.mark.parametrize(
    ("scales", "zeros", "bound"),
    [
        ((0.5, 0.25, 0.125), (0, 0, 0), ""),  # all quotients on a tie or exact
        ((0.0371, 0.0913, 0.07), (-7, 100, -128), ""),
        ((1 / 255, 0.7, 0.001), (12, -128, 3), "Relu"),  # of a divisor that is never negative
    ],
)
def test_every_pair_of_integers(
    tmp_path: Path, scales: tuple[float, float, float], zeros: tuple[int, int, int], bound: str
) -> None:
    """``clamp(rhe(s1·(x1 − z1) / (s2·(x2 − z2)·s_y)) + z_y)``, every scale the rational of its float32."""
    sketch = Sketch()
    y = of_halves(sketch, scales[:2], zeros[:2])
    y = sketch.through_integers(sketch.node(bound, y) if bound else y, scales[2], zeros[2])
    path = sketch.write(tmp_path / "m.onnx", [1, 2, 256, 256], y)
    pairs = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij"))
    reals = (pairs - np.array(zeros[:2]).reshape(2, 1, 1)) * np.array(scales[:2]).reshape(2, 1, 1)
    frames = reals[None, None].astype(np.float32)
    network = flow.quantize(flow.read(path))
    assert sum(isinstance(node.operator, Divide) for node in network.nodes) == 1
    (found,) = golden.run(network, {"x": frames}).values()
    s1, s2, step = (Fraction(float(np.float32(scale))) for scale in scales)
    integers = np.rint(found / float(step)).astype(np.int64).reshape(256, 256) + zeros[2]
    least = zeros[2] if bound else -128
    for first in range(0, 256, 5):
        for second in range(256):
            n, d = s1 * (first - 128 - zeros[0]), s2 * (second - 128 - zeros[1])
            wanted = round(n / (d * step)) + zeros[2] if d else (127 if n > 0 else least)
            assert integers[first, second] == min(max(wanted, least), 127), (n, d)
    wrong = np.abs(output_by_onnxruntime(path, frames) - found) > float(step) / 2
    assert wrong.mean() <= (0 if scales[0] == 0.5 else 0.01), "with powers of two, floats are exact"


def between_products(
    sketch: Sketch, shape: tuple[int, ...], divisor: tuple[int, ...], step: float = 0.02
) -> tuple[str, str]:
    """Products of x by matrices, divided by one another, and a product of the quotients."""
    random = np.random.default_rng(3)
    size = shape[-1]

    def matrix(*lengths: int) -> str:
        return sketch.dequantized(random.integers(-127, 128, lengths, dtype=np.int8), 0.01)

    x = sketch.through_integers("x", 0.02, 3)
    n = sketch.through_integers(sketch.node("MatMul", x, matrix(size, size)), 0.05, 2)
    d = sketch.node("MatMul", x, matrix(size, divisor[-1]))
    if divisor[:-1] != shape[:-1]:
        d = sketch.node("ReduceMean", d, axes=[1])
    d = sketch.through_integers(d, 0.06, -11)
    quotient = sketch.node("Div", n, d)
    y = sketch.through_integers(quotient, step, 0)
    return quotient, sketch.through_integers(sketch.node("MatMul", y, matrix(size, size)), 0.04, 0)


@pytest.mark.parametrize("divisor", [(1, 5, 4), (1, 5, 1), (1, 1, 4)])
def test_agrees_with_onnxruntime_and_in_the_circuit(tmp_path: Path, divisor: tuple[int, ...]) -> None:
    """Also with broadcasting."""
    sketch = Sketch()
    _, output = between_products(sketch, (1, 5, 4), divisor)
    network = assert_agrees(sketch.write(tmp_path / "m.onnx", (1, 5, 4), output, 3), 0.04, rarely=0.02)
    assert sum(isinstance(node.operator, Divide) for node in network.nodes) == 1
    assert_circuit_agrees(network)


def test_stays_on_the_host_behind_the_last_product(tmp_path: Path) -> None:
    sketch = Sketch()
    quotient, _ = between_products(sketch, (1, 5, 4), (1, 5, 4))
    del sketch.nodes[next(k for k, node in enumerate(sketch.nodes) if quotient in node.output) + 1 :]
    network = flow.quantize(flow.read(sketch.write(tmp_path / "m.onnx", (1, 5, 4), quotient, 3)))
    assert not any(isinstance(node.operator, Divide) for node in network.nodes) and network.tail is not None


def test_a_float_model_keeps_its_accuracy() -> None:
    random = np.random.default_rng(5)
    sketch = Sketch()
    matrices = [random.uniform(-0.5, 0.5, size).astype(np.float32) for size in ((10, 12), (10, 12), (12, 5))]
    first, second, third = (sketch.constant(matrix) for matrix in matrices)
    n, d = sketch.node("MatMul", "x", first), sketch.node("Exp", sketch.node("MatMul", "x", second))
    output = sketch.node("MatMul", sketch.node("Div", n, d), third)
    model = sketch.model((1, 6, 10), TensorProto.FLOAT, output, 3, TensorProto.FLOAT)
    frames = random.uniform(-1, 1, size=(60, 1, 6, 10)).astype(np.float32)
    quantized = onnx_hw.quantize(model, {"x": frames[:40]})
    assert any(isinstance(node.operator, Divide) for node in quantized.network.nodes)
    x = frames[40:].astype(np.float64)
    wanted = (x @ matrices[0]) / np.exp(x @ matrices[1]) @ matrices[2]
    error = dict(quantized(frames[40:]))[output].reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) >= 30
