"""The verdict without data is that with data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.fold_constants import fold
from onnx_hw.onnx.graph.model import Model
from onnx_hw.quantization.post_training import quantize_float_model, quantize_without_data
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.quantization.ranges.calibrate import calibrate
from onnx_hw.runtime.options import ReadOptions
from support.onnx_oracle import random_frames, write
from support.qdq_models import Sketch
from support.random_float_models import FloatDrawing

#: Behind some value of a drawn network: what hardware has, and what it has not.
ENDINGS = ("Exp", "Sqrt", "Softplus", "ReduceMax", "Softmax", "ReduceSum", "LpPool", "Einsum", "CumSum", "Pad", "none")


def drawn(seed: int, path: Path) -> Model:
    """A network with what may be an obstacle, or NaN for negative numbers, before a last product."""
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(2 + seed % 3)
    ending, sketch = ENDINGS[seed % len(ENDINGS)], drawing.sketch
    last = outputs[0]
    if ending == "LpPool":
        last = sketch.node(
            ending, sketch.node("Unsqueeze", sketch.node("Flatten", last), drawing.ints(0)), kernel_shape=[1]
        )
    elif ending == "Einsum":
        last = sketch.node(ending, last, last, equation="...i,...i->...i")
    elif ending == "CumSum":
        last = sketch.node(ending, last, sketch.constant(np.array(1)))
    elif ending == "Pad":
        last = sketch.node("Reshape", last, drawing.ints(1, -1))
        last = sketch.node(ending, last, drawing.ints(0, 1, 0, 0), sketch.constant(np.float32(0.3)))
    elif ending != "none":
        last = sketch.node(ending, sketch.node("Relu", last))
    flat = sketch.node("Flatten", last, axis=0)
    rows = sketch.node("ReduceMean", flat, sketch.constant(np.array([1])))
    outputs[0] = sketch.node("MatMul", rows, drawing.floats(1, 3))
    return flow.read(write(sketch, path, inputs, *outputs), ReadOptions(lenient=True))


def verdict(quantized: Callable[[], Model]) -> list[tuple[str, str]]:
    try:
        import_model(quantized())
    except UserError as error:
        return sorted((problem.code, problem.where) for problem in error.problems)
    return []


def test_the_verdict_is_that_of_real_data(tmp_path: Path) -> None:
    refused = 0
    for seed in range(11):
        model = drawn(seed, tmp_path / "m.onnx")
        without = verdict(partial(quantize_without_data, model))
        assert without == verdict(partial(quantize_float_model, model, random_frames(model))), seed
        refused += bool(without)
    assert 1 <= refused <= 9


@pytest.mark.parametrize("seed", range(8))
def test_ranges_are_of_the_right_size_and_sign(tmp_path: Path, seed: int) -> None:
    """Within three orders of magnitude of the real ones, and never negative where those cannot be."""
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(4)
    model = fold(flow.read(write(drawing.sketch, tmp_path / "m.onnx", inputs, *outputs)))
    generator = np.random.default_rng(seed)
    frames = {name: generator.random((4, *shape), dtype=np.float32) for name, shape in inputs.items()}
    real, assumed = calibrate(model, frames), assume_ranges(model)
    assert real.keys() <= assumed.keys()
    for name, seen in real.items():
        size, guess = (max(-span.low, span.high, 1e-3) for span in (seen, assumed[name]))
        assert size / 1000 <= guess <= size * 1000, name
        assert assumed[name].low < 0 or seen.low >= 0, name


def test_what_cannot_be_negative_is_not_assumed_to_be(tmp_path: Path) -> None:
    sketch = Sketch()
    names = {
        "relu": sketch.node("Relu", sketch.node("Sub", "x", sketch.constant(np.float32(3)))),
        "sigmoid": sketch.node("Sigmoid", "x"),
        "clip": sketch.node("Clip", "x", sketch.constant(np.float32(0.25)), sketch.constant(np.float32(6))),
        "exp": sketch.node("Exp", "x"),
        "square": sketch.node("Mul", "x", "x"),
    }
    model = flow.read(write(sketch, tmp_path / "m.onnx", {"x": (1, 4)}, *names.values()))
    ranges = assume_ranges(model)
    assert all(ranges[name].low >= 0 for name in names.values())
    assert ranges[names["sigmoid"]].high < 1 and ranges[names["clip"]].low == 0.25
