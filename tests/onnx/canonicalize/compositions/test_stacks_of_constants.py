"""MatMul with a stack of constant matrices whose axes the data lack, or that lacks some of the data's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.onnx_oracle import assert_agrees, write
from support.qdq_models import Sketch

STEP = 2.0**-3

SHAPES = {
    "capsules": ((1, 1, 5, 1, 4), (1, 3, 5, 4, 2)),
    "weights have an axis": ((1, 1, 3, 4), (3, 4, 2)),
    "both have one": ((1, 2, 1, 3, 4), (2, 3, 4, 2)),
    "of other lengths": ((1, 2, 3, 1, 4, 5), (3, 2, 5, 3)),
    "data have an axis": ((1, 3, 2, 3, 4), (2, 4, 2)),
}


@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_broadcast_stacks(name: str, is_left: bool, tmp_path: Path) -> None:
    """Steps are powers of two, so that onnxruntime's float32 is exact; the data have a zero point."""
    sketch, (data, weights) = Sketch(), SHAPES[name]
    x = sketch.through_integers("x", STEP, -3)
    integers = np.random.default_rng(0).integers(-20, 21, weights).astype(np.int8)
    turned = integers.swapaxes(-1, -2) if is_left else integers
    operands = [x, sketch.dequantized(turned, np.float32(STEP))]
    shape = (*data[:-2], *data[:-3:-1]) if is_left else data
    product = sketch.node("MatMul", *(operands[::-1] if is_left else operands))
    y = sketch.through_integers(product, STEP, 0)
    assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": shape}, y), STEP, rarely=0)
