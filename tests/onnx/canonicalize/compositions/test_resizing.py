"""Linear Resize by any factors: exact where integers are rounded to even, and like onnxruntime elsewhere."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ops.depthwise import Depthwise
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 0.03125


def resized(s: Sketch, x: str, sizes: list[int], coordinates: str) -> str:
    lengths = s.constant(np.array(sizes, np.int64))
    return s.node("Resize", x, "", "", lengths, mode="linear", coordinate_transformation_mode=coordinates)


@pytest.mark.parametrize(
    ("shape", "sizes", "coordinates"),
    [
        ([1, 2, 3, 4], [1, 2, 5, 8], "align_corners"),
        ([1, 2, 5, 4], [1, 2, 3, 4], "align_corners"),
        ([1, 2, 4, 2], [1, 2, 6, 5], "half_pixel"),
        ([1, 2, 5], [1, 2, 8], "pytorch_half_pixel"),
        ([1, 2, 5], [1, 2, 3], "asymmetric"),
    ],
)
def test_models(shape: list[int], sizes: list[int], coordinates: str, tmp_path: Path) -> None:
    """A tie of these weights is one that onnxruntime, in float32, may see on either side."""
    s = Sketch(opset=18)
    y = s.through_integers(resized(s, s.through_integers("x", STEP, -5), sizes, coordinates), STEP, -5)
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": shape}, y), STEP, rarely=0.08)
    assert Depthwise in {type(node.operator) for node in network.nodes}
    if coordinates == "asymmetric":
        assert_circuit_agrees(network)


def test_every_result_is_the_rational_number_rounded(tmp_path: Path) -> None:
    size, new = 4, 7
    s = Sketch(opset=18)
    y = s.through_integers(resized(s, s.through_integers("x", 1, 0), [1, 1, new], "align_corners"), 1, 0)
    network = flow.quantize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 1, size]}, y)))
    integers = np.random.default_rng(0).integers(-128, 128, (500, 1, 1, size))
    (results,) = golden.run(network, {"x": integers.astype(np.float32)}).values()
    for frame, result in zip(integers.reshape(-1, size), results.reshape(-1, new), strict=True):
        for k, number in enumerate(result):
            position = Fraction(k * (size - 1), new - 1)
            left = min(int(position), size - 2)
            share = position - left
            assert number == round((1 - share) * int(frame[left]) + share * int(frame[left + 1]))


def test_of_a_float_model(tmp_path: Path) -> None:
    s, rng = Sketch(opset=18), np.random.default_rng(0)
    kernels = [s.constant(rng.normal(0, 0.3, n).astype(np.float32)) for n in ((3, 2, 3, 3), (2, 3, 3, 3))]
    x = s.node("Relu", s.node("Conv", "x", kernels[0], pads=[1, 1, 1, 1]))
    y = s.node("Conv", resized(s, x, [1, 3, 6, 7], "align_corners"), kernels[1], pads=[1, 1, 1, 1])
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 2, 3, 4]}, y))
    frames = random_frames(model, 16)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    error = golden.run(flow.quantize(model, frames), frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30
