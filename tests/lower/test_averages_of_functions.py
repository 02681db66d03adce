"""Averages of functions that nothing quantizes in between: against onnxruntime, and in the circuit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lower.ops.test_lookup import FUNCTIONS, SHAPE
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.lookup import Lookup
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, write
from support.qdq_models import Sketch

AVERAGES: list[Callable[[Sketch, str], str]] = [
    lambda s, x: s.node("GlobalAveragePool", x),
    lambda s, x: s.node("AveragePool", x, kernel_shape=[2, 3], pads=[1, 1, 0, 1]),
    lambda s, x: s.node("AveragePool", x, kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 0], count_include_pad=1),
    lambda s, x: s.node("ReduceMean", x, s.constant(np.array([1]))),
    lambda s, x: s.node(
        "ReduceMean", s.node("Clip", x, "", s.constant(np.float32(0.61))), s.constant(np.array([2, 3]))
    ),
]


@pytest.mark.parametrize("average", range(len(AVERAGES)))
def test_average_of_a_function(tmp_path: Path, average: int) -> None:
    """The scale of the result is fine, so that a coarse function would show."""
    for name in list(FUNCTIONS)[average :: len(AVERAGES)]:
        sketch = Sketch(opset=21)
        y = AVERAGES[average](sketch, FUNCTIONS[name][0](sketch, sketch.through_integers("x", 0.0217, 9)))
        path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.0073, -11, np.int16))
        network = assert_agrees(path, 0.0073, rarely=0.006)  # one value in 180, 4e-6 of a step from a tie
        assert sum(isinstance(node.operator, Lookup) for node in network.nodes) == 1
    if average in (1, 4):
        assert_circuit_agrees(network)


def saturating(path: Path, step: float, dtype: type, factor: float) -> Path:
    """Averages of numbers up to 287,000 times a factor, most of which are beyond the integers of a small scale."""
    sketch = Sketch(opset=21)
    exponential = sketch.node("Exp", sketch.through_integers("x", 0.0952, -5))
    exponential = sketch.node("Mul", exponential, sketch.constant(np.float32(factor)))
    y = sketch.through_integers(sketch.node("AveragePool", exponential, kernel_shape=[1, 2]), step, 11, dtype)
    weight = sketch.dequantized(np.ones((1, 1, 1, 1), dtype=np.int8), np.float32(1))
    return write(sketch, path / "m.onnx", {"x": (1, 1, 16, 16)}, sketch.node("Conv", y, weight))


@pytest.mark.parametrize(("step", "factor"), [(3000.0, 1), (40.0, 1), (9.0, 1), (9.0 / 2**20, 2**-20)])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_a_scale_that_is_small_beside_the_function(tmp_path: Path, step: float, factor: float, dtype: type) -> None:
    """The table becomes finer, so that its rounding does not show in those that do not saturate."""
    x = np.linspace(-11.9, 12.4, 256, dtype=np.float32).reshape(1, 1, 1, 16, 16)
    (found,) = golden.run(flow.quantize(flow.read(saturating(tmp_path, step, dtype, factor))), {"x": x}).values()
    scale, step = float(np.float32(0.0952)), float(np.float32(step))
    numbers = np.exp(scale * (np.clip(np.rint(x / np.float32(0.0952)) - 5, -128, 127) + 5).astype(np.float64))
    real = factor * (numbers[..., 1:] + numbers[..., :-1]) / 2 / step
    real = np.clip(real, np.iinfo(dtype).min - 11, np.iinfo(dtype).max - 11)
    assert np.abs(found / step - real).max() <= 0.501


def test_a_bound_between_integers(tmp_path: Path) -> None:
    """Numbers up to 0.61 of the scale 0.25: no integer stands for the bound."""
    sketch = Sketch(opset=21)
    x = sketch.node("Clip", sketch.through_integers("x", 0.25, 3), "", sketch.constant(np.float32(0.61)))
    y = sketch.node("GlobalAveragePool", x)
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.00173, -11, np.int16))
    assert_circuit_agrees(assert_agrees(path, 0.00173, rarely=0))


@pytest.mark.parametrize("scale", [300.0, 10.0, 0.5])
def test_a_function_that_grows_beyond_what_its_table_can_tell(tmp_path: Path, scale: float) -> None:
    """Numbers up to 84 122 from a table in steps of 1/256: half of one is too much for what a fine scale tells."""
    sketch = Sketch(opset=21)
    y = sketch.node("GlobalAveragePool", sketch.node("Exp", sketch.through_integers("x", 0.09, 1)))
    y = sketch.node("Reshape", sketch.node("Relu", sketch.node("Flatten", y)), sketch.constant(np.array([1, 5, 1, 1])))
    averages = sketch.through_integers(y, scale, -11, np.int16)
    weights = sketch.dequantized(np.arange(-7, 8, dtype=np.int8).reshape(3, 5, 1, 1), np.array(0.01, dtype=np.float32))
    result = sketch.through_integers(sketch.node("Conv", averages, weights), 100 * scale, 3, np.int16)
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, result)
    if scale > 1:
        assert_agrees(path, 100 * scale, rarely=0.1)
        return
    with pytest.raises(UserError) as refusal:
        flow.quantize(flow.read(path))
    assert "coarse-table" in [problem.code for problem in refusal.value.problems]
