"""Operators of real numbers on integers of 8 bits, as in onnxruntime's form QOperator: equal, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.messages.errors import UserError
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, write
from support.qdq_models import Sketch

STEP = 0.03125


def on_integers(s: Sketch, dtype: type, op_type: str, *others: str, **attributes: object) -> str:
    """Add an operator on the integers of ``x``; return the numbers of its integers."""
    scale, zero = s.constant(np.float32(STEP)), s.constant(np.array(5, dtype=dtype))
    stored = s.node("QuantizeLinear", "x", scale, zero)
    return s.node("DequantizeLinear", s.node(op_type, stored, *others, **attributes), scale, zero)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("shape", "sizes", "coordinates"),
    [
        ([1, 2, 3, 4], [1, 2, 6, 8], "half_pixel"),
        ([1, 2, 3, 2], [1, 2, 12, 8], "pytorch_half_pixel"),
        ([1, 2, 3, 4], [1, 2, 6, 8], "asymmetric"),
        ([1, 3, 1, 1], [1, 3, 5, 3], "half_pixel"),
        ([1, 2, 5], [1, 2, 9], "align_corners"),
    ],
)
def test_linear_resize_rounds_towards_zero(
    dtype: type, shape: list[int], sizes: list[int], coordinates: str, tmp_path: Path
) -> None:
    s = Sketch(opset=18)
    lengths = s.constant(np.array(sizes, np.int64))
    y = on_integers(s, dtype, "Resize", "", "", lengths, mode="linear", coordinate_transformation_mode=coordinates)
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": shape}, y), STEP, rarely=0, frames=20)
    if coordinates == "asymmetric":
        assert_circuit_agrees(network)


def test_weights_that_floats_round_are_refused(tmp_path: Path) -> None:
    """Next to an integer, their errors decide what is cut off."""
    s = Sketch(opset=18)
    y = on_integers(s, np.int8, "Resize", "", "", s.constant(np.array([1, 2, 12], np.int64)), mode="linear")
    kernel = s.dequantized(np.ones((1, 2, 1), np.int8), 1)
    y = s.node("Conv", y, kernel)
    with pytest.raises(UserError, match="resize-mode") as caught:
        flow.quantize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 2, 5]}, y)))
    assert "QDQ" in caught.value.problems[0].hint


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_maxima_of_a_volume(dtype: type, tmp_path: Path) -> None:
    s = Sketch()
    y = on_integers(s, dtype, "MaxPool", kernel_shape=[2, 3, 2], strides=[2, 2, 1], pads=[0, 1, 0, 0, 1, 0])
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 2, 4, 5, 3]}, y), STEP, rarely=0)
    assert_circuit_agrees(network)
