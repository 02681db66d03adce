"""Weights that are stored in another shape than the layer wants, with a scale for each result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.messages.errors import UserError
from support.onnx_oracle import assert_agrees, write
from support.qdq_models import Sketch

STORED = {
    "flat": ((3, 27), 0),
    "with ones": ((1, 3, 27), 1),
    "images in rows": ((3, 3, 9), 0),
    "turned": ((3, 3, 3, 3), 0),
}
"""Shape and axis of the scales; of 3 to 3 channels, so that lengths alone do not tell which axis is which."""


def convolved(path: Path, shape: tuple[int, ...], axis: int) -> Path:
    draw, s = np.random.default_rng(0), Sketch()
    x = s.through_integers("x", 0.03125, -5)
    integers = draw.integers(-127, 128, shape).astype(np.int8)
    weights = s.dequantized(integers, np.linspace(0.001, 0.009, shape[axis]), axis=axis)
    weights = s.node("Reshape", weights, s.constant(np.array([3, 3, 3, 3])))
    return write(s, path / "m.onnx", {"x": [1, 3, 5, 4]}, s.through_integers(s.node("Conv", x, weights), 0.0417, -3))


@pytest.mark.parametrize("name", STORED)
def test_scales_stay_with_their_results(tmp_path: Path, name: str) -> None:
    assert_agrees(convolved(tmp_path, *STORED[name]), 0.0417)


def test_an_axis_of_scales_that_is_no_axis_any_more(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must keep the axis of its 9 scales"):
        flow.quantize(flow.read(convolved(tmp_path, (9, 9), 0)))
