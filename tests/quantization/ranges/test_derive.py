"""Bounds that follow from a model's integers hold on the most extreme samples, and are those of ONNX's formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.canonicalize.cast_to_float32 import cast_to_float32
from onnx_hw.onnx.graph.loops import loops_of
from onnx_hw.onnx.graph.model import Model
from onnx_hw.quantization.ranges.calibrate import calibrate
from onnx_hw.quantization.ranges.derive import derive_ranges
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.stage import Stage
from support.onnx_oracle import by_onnxruntime, write
from support.qdq_models import Sketch

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, FEATURES, HIDDEN = 9, 3, 5


def recurrent(path: Path, op_type: str, size: float = 0.8, **attributes: object) -> Model:
    """Write a layer behind a quantizer, and a quantized product; return the model in floats, for bounds."""
    s, generator = Sketch(), np.random.default_rng(1)
    rows = GATES[op_type] * HIDDEN
    weights = [
        s.constant(generator.normal(0, size, shape).astype(np.float32))
        for shape in ((1, rows, FEATURES), (1, rows, HIDDEN), (1, 2 * rows))
    ]
    x = s.through_integers("x", 0.02, 3)
    y = s.node(op_type, x, *weights, hidden_size=HIDDEN, **attributes)
    flat = s.through_integers(s.node("Reshape", y, s.constant(np.array([STEPS, HIDDEN]))), 0.01, 0)
    last = s.dequantized(generator.integers(-100, 100, (HIDDEN, 3)).astype(np.int8), 0.01, np.int8(0))
    write(s, path, {"x": [STEPS, 1, FEATURES]}, s.node("MatMul", flat, last))
    return cast_to_float32(canonicalize(flow.read(path).frame.model))


def extreme_frames(count: int = 30) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(2)
    sizes = generator.uniform(0.2, 4, (count, STEPS, 1, FEATURES))
    return {"x": (sizes * generator.choice([-1.0, 1.0], sizes.shape)).astype(np.float32)}


@pytest.mark.parametrize("op_type", GATES)
def test_a_layer_between_quantizers_needs_no_samples(op_type: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = recurrent(path, op_type)
    names = [name for loop in loops_of(model.graph.nodes).values() for name in loop.results]
    derived, seen = derive_ranges(model, names), calibrate(model, extreme_frames(), names)
    for name, span in seen.items():
        assert derived[name].low - 1e-6 <= span.low and span.high <= derived[name].high + 1e-6, name
    network, frames = flow.quantize(flow.read(path)), extreme_frames(8)
    (wanted,), (found,) = by_onnxruntime(path, frames).values(), golden.run(network, frames).values()
    assert 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()) > 30


def test_the_state_of_a_gru_stays_within_one(tmp_path: Path) -> None:
    """As a number between a state and the result of a Tanh."""
    model = recurrent(tmp_path / "m.onnx", "GRU", linear_before_reset=1)
    (loop,) = loops_of(model.graph.nodes).values()
    (delay,) = loop.delays
    span = derive_ranges(model, [str(delay.attributes["of"])])[str(delay.attributes["of"])]
    assert span.low >= -1 and span.high <= 1


def test_a_state_that_grows_needs_samples(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = recurrent(path, "RNN", activations=["Relu"])
    names = [name for loop in loops_of(model.graph.nodes).values() for name in loop.results]
    with pytest.raises(UserError, match="calibration-missing"):
        derive_ranges(model, names)
    with pytest.raises(UserError) as caught:
        flow.quantize(flow.read(path))
    assert all("--calibration" in problem.hint for problem in caught.value.problems)


def test_a_function_of_a_difference_gets_its_bounds(tmp_path: Path) -> None:
    """Two quantizers bound |a − b|, which has more integers than either, and a mean of it."""
    s = Sketch()
    a, b = s.through_integers("x", 0.02, 3), s.through_integers("y", 0.03, -7)
    distance = s.through_integers(s.node("Abs", s.node("Sub", a, b)), 0.025, -128)
    weights = s.dequantized(np.random.default_rng(0).integers(-99, 99, (6, 4)).astype(np.int8), 0.01, np.int8(0))
    path = write(s, tmp_path / "m.onnx", {"x": [1, 6], "y": [1, 6]}, s.node("MatMul", distance, weights))
    frames = {
        name: np.random.default_rng(k).normal(0, 1.5, (40, 1, 6)).astype(np.float32) for k, name in enumerate("xy")
    }
    (wanted,), (found,) = (
        by_onnxruntime(path, frames).values(),
        golden.run(flow.quantize(flow.read(path)), frames).values(),
    )
    assert 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()) > 40


def test_a_build_says_where_the_scales_come_from(tmp_path: Path) -> None:
    recurrent(tmp_path / "m.onnx", "GRU")
    progress = Silent()
    build(BuildOptions(model=tmp_path / "m.onnx", out=tmp_path / "out", stop_after=Stage.QUANTIZE), progress)
    (warning,) = (warning for warning in progress.warnings if "needs integers" in warning)
    assert "follow from the model's integers" in warning


def test_normalized_numbers_are_bounded_by_their_count(tmp_path: Path) -> None:
    s, generator = Sketch(), np.random.default_rng(3)
    scale, bias = (s.constant(generator.normal(1, 0.4, 8).astype(np.float32)) for _ in range(2))
    y = s.node("LayerNormalization", s.through_integers("x", 0.02, 3), scale, bias, axis=-1)
    model = cast_to_float32(canonicalize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 3, 8]}, y)).frame.model))
    rows = [np.eye(8, k=k, dtype=np.float32)[None, :3] for k in range(6)]
    frames = {"x": np.stack([row * size for row in rows for size in (-2.0, 2.0)])}
    derived, seen = derive_ranges(model, [y])[y], calibrate(model, frames, [y])[y]
    assert derived.low <= seen.low and seen.high <= derived.high < 3 * seen.high
