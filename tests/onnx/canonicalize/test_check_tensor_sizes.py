"""What is too large for a chip by far is refused in words, and nothing of its size is ever made."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.flow import read
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from support.qdq_models import Sketch

LITTLE, SOME = 40 << 20, 400 << 20
"""Bytes: for what is far too large; for what is little too large to be moved."""


def enlarged(sketch: Sketch, times: int) -> tuple[str, tuple[int, ...]]:
    scales = sketch.constant(np.float32([times, 1, 2, 2]))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return sketch.node("Resize", sketch.through_integers("x", 0.1, 0), "", scales, **how), (1, 4, 4, 4)


def broadcast(sketch: Sketch, size: int) -> tuple[str, tuple[int, ...]]:
    x = sketch.through_integers("x", 0.1, 0)
    return sketch.node("Add", x, sketch.node("Transpose", x, perm=[3, 2, 1, 0])), (1, 1, size, size)


def pooled(sketch: Sketch, size: int) -> tuple[str, tuple[int, ...]]:
    return sketch.node("GlobalAveragePool", sketch.through_integers("x", 0.1, 0)), (1, 1, size, size)


@pytest.mark.parametrize(
    ("draw", "sizes", "few"),
    [(enlarged, (17_000, 65_504), 3), (broadcast, (48, 128), 3), (pooled, (3000, 20_000), 12)],
)
def test_is_refused_at_once(
    draw: Callable[[Sketch, int], tuple[str, tuple[int, ...]]], sizes: tuple[int, ...], few: int, tmp_path: Path
) -> None:
    for size in sizes:
        sketch = Sketch()
        value, shape = draw(sketch, size)
        path = sketch.write(tmp_path / f"{size}.onnx", shape, sketch.through_integers(value, 0.2, 0))
        model = read(path)
        tracemalloc.start()
        try:
            with pytest.raises(UserError) as refused:
                import_model(model)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "elements" in str(refused.value), refused.value
        assert peak < (LITTLE if size == sizes[-1] else SOME), f"{peak:,} bytes for {size}"
    sketch = Sketch()
    value, shape = draw(sketch, few)
    path = sketch.write(tmp_path / "few.onnx", shape, sketch.through_integers(value, 0.2, 0))
    assert import_model(read(path)).nodes
