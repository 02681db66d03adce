"""Depthwise and grouped Conv: what exact rationals say, and what onnxruntime says up to its float32."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from support.onnx_oracle import output_by_onnxruntime
from support.qdq_models import Sketch

quick = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])

HEIGHT, WIDTH = 6, 5


@dataclass(frozen=True)
class Grouped:
    """A quantized Conv with groups, and what it means.

    Attributes:
        group, inputs, results: groups, channels of each, results of each.
        pads: (top, left, bottom, right).
        zero_x, zero_y: zero points; ``scale_x``, ``scale_y`` their scales.
    """

    group: int
    inputs: int
    results: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    zero_x: int
    zero_y: int
    scale_x: np.float32
    scale_y: np.float32
    seed: int

    @property
    def channels(self) -> int:
        return self.group * self.inputs

    @property
    def outputs(self) -> int:
        return self.group * self.results

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the result."""
        sizes = zip((HEIGHT, WIDTH), self.kernel, self.strides, self.dilations, self.pads, self.pads[2:], strict=False)
        height, width = ((n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in sizes)
        return height, width

    def parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(weights int8, their zero points int8, their scales float32, bias int32), all per output."""
        generator = np.random.default_rng(self.seed)
        return (
            generator.integers(-128, 128, (self.outputs, self.inputs, *self.kernel)).astype(np.int8),
            generator.integers(-3, 4, self.outputs).astype(np.int8),
            (generator.choice([0.5, 0.031, 0.0077], self.outputs) * 0.125).astype(np.float32),
            generator.integers(-500, 500, self.outputs).astype(np.int32),
        )

    def write(self, path: Path) -> Path:
        weights, zero_w, scale_w, bias = self.parameters()
        sketch = Sketch()
        x = sketch.through_integers("x", self.scale_x, self.zero_x)
        w = sketch.dequantized(weights, scale_w, zero_w)
        b = sketch.dequantized(bias, self.scale_x * scale_w, np.zeros(self.outputs, dtype=np.int32))
        y = sketch.node(
            "Conv",
            *(x, w, b),
            group=self.group,
            kernel_shape=self.kernel,
            strides=self.strides,
            pads=self.pads,
            dilations=self.dilations,
        )
        y = sketch.through_integers(y, self.scale_y, self.zero_y)
        return sketch.write(path, [1, self.channels, HEIGHT, WIDTH], y)

    def frames(self, count: int) -> np.ndarray:
        generator = np.random.default_rng(self.seed)
        shape = (count, 1, self.channels, HEIGHT, WIDTH)
        return generator.uniform(-140, 140, shape).astype(np.float32) * self.scale_x

    def expected(self, image: np.ndarray, row: int, column: int, output: int) -> int:
        """``clamp(rhe((s_x·s_w·Σ(x − z)(w − z_w) + β)/s_y) + z_y)`` of integers (height, width, channels)."""
        weights, zero_w, scale_w, bias = self.parameters()
        total = 0
        for k, r, c in product(range(self.inputs), range(self.kernel[0]), range(self.kernel[1])):
            y = row * self.strides[0] - self.pads[0] + r * self.dilations[0]
            x = column * self.strides[1] - self.pads[1] + c * self.dilations[1]
            if 0 <= y < HEIGHT and 0 <= x < WIDTH:
                element = int(image[y, x, output // self.results * self.inputs + k]) - self.zero_x
                total += element * (int(weights[output, k, r, c]) - int(zero_w[output]))
        exact = Fraction(float(self.scale_x)) * Fraction(float(scale_w[output])) * total
        exact += int(bias[output]) * Fraction(float(self.scale_x * scale_w[output]))
        return min(max(round(exact / Fraction(float(self.scale_y))) + self.zero_y, -128), 127)


@st.composite
def grouped(draw: st.DrawFn, inputs: st.SearchStrategy[int]) -> Grouped:
    pad = st.integers(0, 2)
    drawn = Grouped(
        group=draw(st.integers(2, 4)),
        inputs=draw(inputs),
        results=draw(st.sampled_from([1, 1, 2, 3])),
        kernel=draw(st.sampled_from([(1, 1), (3, 3), (2, 3), (3, 1)])),
        strides=draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (1, 3)])),
        pads=draw(st.tuples(pad, pad, pad, pad)),
        dilations=draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 2)])),
        zero_x=draw(st.integers(-128, 127)),
        zero_y=draw(st.integers(-128, 127)),
        scale_x=np.float32(draw(st.sampled_from([1.0, 0.25, 0.0371, 1 / 255]))),
        scale_y=np.float32(draw(st.sampled_from([1.0, 0.5, 0.0913, 0.7]))),
        seed=draw(st.integers(0, 2**31)),
    )
    assume(min(drawn.size) >= 1)
    return drawn


def check(conv: Grouped, path: Path) -> Network:
    network = import_model(flow.read(conv.write(path)))
    frames = conv.frames(1)
    integers = golden.integers_of(network, {"x": frames})
    (image,) = next(iter(integers.values()))
    found = golden.trace(network, integers)[network.outputs[0].tensor][0]
    assert found.shape == (*conv.size, conv.outputs)
    for place in np.ndindex(*found.shape):
        assert found[place] == conv.expected(image, *place), place
    (real,) = golden.run(network, {"x": frames}).values()
    difference = np.abs(real - output_by_onnxruntime(path, frames)) / conv.scale_y
    assert difference.max() < 1.001 and (difference < 0.01).mean() > 0.9  # steps: float32 may tip a tie
    return network


@quick
@given(conv=grouped(inputs=st.just(1)))
def test_depthwise_conv_means_its_exact_formula(tmp_path: Path, conv: Grouped) -> None:
    network = check(conv, tmp_path / "m.onnx")
    (node,) = [node for node in network.nodes if node.operator.macs]
    assert isinstance(node.operator, Depthwise)
    assert node.operator.macs == np.prod(conv.size) * conv.outputs * np.prod(conv.kernel)


@quick
@given(conv=grouped(inputs=st.integers(2, 3)))
def test_grouped_conv_means_its_exact_formula(tmp_path: Path, conv: Grouped) -> None:
    network = check(conv, tmp_path / "m.onnx")
    (node,) = [node for node in network.nodes if node.operator.macs]
    assert isinstance(node.operator, MatMul)
    assert node.operator.weights.shape == (conv.outputs, conv.channels * np.prod(conv.kernel))


def test_depthwise_conv_of_a_signal(tmp_path: Path) -> None:
    """One axis is an image of height 1."""
    generator = np.random.default_rng(0)
    sketch = Sketch()
    x = sketch.through_integers("x", 0.05, 9)
    w = sketch.dequantized(generator.integers(-128, 128, (6, 1, 3)).astype(np.int8), generator.uniform(0.01, 0.02, 6))
    y = sketch.node("Conv", x, w, group=3, strides=[2], pads=[2, 0], dilations=[2])
    path = sketch.write(tmp_path / "m.onnx", [1, 3, 11], sketch.through_integers(y, 0.1, -3), rank=3)
    network = import_model(flow.read(path))
    assert [type(node.operator).__name__ for node in network.nodes] == ["Depthwise", "Requantize"]
    frames = generator.uniform(-6, 6, (4, 1, 3, 11)).astype(np.float32)
    (found,) = golden.run(network, {"x": frames}).values()
    difference = np.abs(found - output_by_onnxruntime(path, frames)) / 0.1
    assert difference.max() < 1.001 and (difference < 0.01).mean() > 0.95


@pytest.mark.parametrize("results", [1, 2])
def test_a_float_model_with_a_separable_conv(tmp_path: Path, results: int) -> None:
    """Calibrated: every kernel has a scale of its own."""
    generator = np.random.default_rng(1)
    channels, outputs = 4, 4 * results
    loudness = 2.0 ** -np.arange(outputs).reshape(-1, 1, 1, 1)
    kernels = generator.normal(size=(outputs, 1, 3, 3)) * loudness
    mix = generator.normal(size=(3, outputs, 1, 1))
    sketch = Sketch()
    y = sketch.node("Conv", "x", sketch.constant(kernels.astype(np.float32)), group=channels, pads=[1, 1, 1, 1])
    y = sketch.node("Conv", sketch.node("Relu", y), sketch.constant(mix.astype(np.float32)))
    path = sketch.write(tmp_path / "m.onnx", [1, channels, HEIGHT, WIDTH], y)
    frames = generator.normal(size=(8, 1, channels, HEIGHT, WIDTH)).astype(np.float32)
    network = flow.quantize(flow.read(path), {"x": frames})
    depthwise, pointwise = (node.operator for node in network.nodes if node.operator.macs)
    assert isinstance(depthwise, Depthwise) and isinstance(pointwise, MatMul)
    # Steps are chosen for their requantizers, the coarser where a kernel matters less; a common one would leave it 1.
    assert (np.abs(depthwise.weights).max(axis=(1, 2)) >= 64).all()
    (found,) = golden.run(network, {"x": frames}).values()
    wanted = output_by_onnxruntime(path, frames)
    assert np.abs(found - wanted).max() <= 0.02 * np.ptp(wanted)
