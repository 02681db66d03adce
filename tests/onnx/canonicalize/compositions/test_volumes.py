"""Convolutions and poolings of volumes: exact integers between quantizers, like onnxruntime's, and circuits."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.ir import golden
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 0.04
three = st.lists(st.integers(1, 3), min_size=3, max_size=3)


def integers_between(s: Sketch, op_type: str, *others: str, **attributes: Any) -> str:
    """The operator on quantized data, and its result quantized."""
    return s.through_integers(s.node(op_type, s.through_integers("x", STEP, -3), *others, **attributes), STEP, -3)


@settings(max_examples=12, deadline=None)
@given(three, three, three, st.lists(st.integers(0, 2), min_size=6, max_size=6), st.sampled_from([1, 2]), st.data())
def test_conv(
    kernel: list[int], strides: list[int], dilations: list[int], pads: list[int], group: int, data: st.DataObject
) -> None:
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [min(p, r - 1) for p, r in zip(pads, reach * 2, strict=True)]
    size = [data.draw(st.integers(max(1, r - a - b), 5)) if r - a - b <= 5 else 9
            for r, a, b in zip(reach, pads[:3], pads[3:], strict=True)]  # fmt: skip
    s, random = Sketch(opset=17), np.random.default_rng(sum(kernel))
    weights = s.dequantized(random.integers(-127, 128, (4, 2 // group, *kernel)).astype(np.int8), 0.004)
    bias = s.constant(random.normal(0, 0.3, 4).astype(np.float32))
    y = integers_between(s, "Conv", weights, bias, kernel_shape=kernel, strides=strides, dilations=dilations,
                         pads=pads, group=group)  # fmt: skip
    with TemporaryDirectory() as folder:
        assert_agrees(write(s, Path(folder) / "m.onnx", {"x": [1, 2, *size]}, y), STEP, rarely=0.02)


@pytest.mark.parametrize(
    ("op_type", "attributes", "shape"),
    [
        ("MaxPool", {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 1, 0, 0, 1, 1]}, [3, 4, 5]),
        ("MaxPool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2], "ceil_mode": 1}, [3, 5, 3]),
        ("AveragePool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}, [4, 4, 2]),
        ("AveragePool", {"kernel_shape": [2, 3, 2], "pads": [1] * 6, "count_include_pad": 1}, [3, 3, 4]),
        ("AveragePool", {"kernel_shape": [3, 2, 2], "pads": [1] * 6}, [3, 3, 3]),  # windows of 2 to 12 elements
        ("GlobalAveragePool", {}, [2, 3, 4]),
        ("GlobalMaxPool", {}, [2, 3, 4]),
    ],
)
def test_poolings(op_type: str, attributes: dict[str, Any], shape: list[int], tmp_path: Path) -> None:
    """A mean is often a tie, which onnxruntime may see on either side."""
    s = Sketch(opset=19)
    y = integers_between(s, op_type, **attributes)
    assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 2, *shape]}, y), STEP, rarely=0.15 * ("Average" in op_type))


def test_the_circuit_under_stalls(tmp_path: Path) -> None:
    s, random = Sketch(opset=17), np.random.default_rng(3)
    weights = s.dequantized(random.integers(-127, 128, (2, 2, 2, 3, 2)).astype(np.int8), 0.004)
    z = integers_between(s, "Conv", weights, kernel_shape=[2, 3, 2], pads=[0, 1, 0, 1, 1, 0])
    y = s.through_integers(s.node("MaxPool", z, kernel_shape=[2, 2, 1]), STEP, -3)
    assert_circuit_agrees(assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 2, 3, 3, 2]}, y), STEP))


def test_of_a_float_model(tmp_path: Path) -> None:
    s, random = Sketch(opset=17), np.random.default_rng(0)
    kernels = [s.constant(random.normal(0, 0.3, n).astype(np.float32)) for n in ((4, 1, 3, 3, 3), (3, 4, 2, 2, 2))]
    scale = [s.constant(random.uniform(0.5, 1.5, 4).astype(np.float32)) for _ in range(4)]
    x = s.node("BatchNormalization", s.node("Conv", "x", kernels[0], pads=[1] * 6), *scale)
    x = s.node("MaxPool", s.node("Relu", x), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    y = s.node("GlobalAveragePool", s.node("Relu", s.node("Conv", x, kernels[1])))
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 1, 4, 6, 6]}, y))
    frames = random_frames(model, 16)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    error = golden.run(flow.quantize(model, frames), frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30


@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ([2, 2, 2], {"strides": [2, 2, 2]}),
        ([3, 2, 3], {"strides": [1, 2, 3], "pads": [1, 0, 2, 0, 1, 1], "output_padding": [0, 1, 0]}),
        ([2, 3, 1], {"dilations": [2, 1, 1], "group": 2, "pads": [0, 3, 0, 0, 0, 0]}),  # more pads than the kernel
    ],
)
def test_transposed_convolutions(kernel: list[int], attributes: dict[str, Any], tmp_path: Path) -> None:
    s, random = Sketch(opset=17), np.random.default_rng(1)
    weights = s.constant(random.normal(0, 0.4, (4, 3, *kernel)).astype(np.float32))
    bias = s.constant(random.normal(0, 0.3, 3 * attributes.get("group", 1)).astype(np.float32))
    y = s.node("ConvTranspose", "x", weights, bias, **attributes)
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 4, 2, 3, 2]}, y))
    frames = random_frames(model, 24)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    network = flow.quantize(model, frames)
    error = golden.run(network, frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 35
    if "group" in attributes:
        assert_circuit_agrees(network)
