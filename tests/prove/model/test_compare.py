"""Golden against the model: no false alarm, ties and what is none, frames, and what the report says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.ir import golden
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.prove.model.compare import TensorComparison, compare
from onnx_hw.prove.model.frames import drawn_frames
from onnx_hw.quantization.post_training import prepare_floats, quantize_prepared_floats
from onnx_hw.quantization.quantize import prepare_model, quantize_model
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.runtime.options import BuildOptions, ReadOptions
from onnx_hw.runtime.stage import Stage
from onnx_hw.samples.samples import split_samples
from support.onnx_oracle import random_frames, write
from support.qdq_models import Sketch
from support.random_exported_models import draw
from support.random_float_models import FloatDrawing
from support.random_qdq_models import quantized_models

SHAPE = (1, 2, 3, 4)


def compared(path: Path, frames: dict[str, np.ndarray] | None = None) -> TensorComparison:
    model = flow.read(path)
    return compare(model, import_model(model), frames)


# ---- no false alarm -------------------------------------------------------------------------------------------------


@settings(max_examples=20, derandomize=True, suppress_health_check=list(HealthCheck))
@given(quantized_models())
def test_quantized_models(tmp_path: Path, drawn: tuple[onnx.ModelProto, np.ndarray]) -> None:
    onnx.save(drawn[0], tmp_path / "m.onnx")
    found = compared(tmp_path / "m.onnx", {"x": drawn[1]}).agreement
    assert found.frames == 4 and found.tensors_compared >= 2 and found.worst <= 1
    assert found.equal + found.one_step == found.values_compared


@pytest.mark.parametrize("seed", range(8))
def test_float_models(tmp_path: Path, seed: int) -> None:
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(3)
    model = flow.read(write(drawing.sketch, tmp_path / "m.onnx", inputs, *outputs))
    frames = random_frames(model, 4)
    ready = prepare_floats(canonicalize(model))
    made = quantize_prepared_floats(ready, SampleRanges(frames))
    quantized, ready = made.model, made.floats
    found = compare(quantized, import_model(quantized), frames, (model, ready))
    assert found.agreement.worst <= 1 and set(found.agreement.outputs) == set(outputs)
    assert found.fidelity is not None and set(found.fidelity.outputs) == set(outputs)
    assert "x" in found.fidelity.tensors
    assert all(of.sqnr_db is None or of.sqnr_db > 15 for of in found.fidelity.tensors.values())


def even_frames() -> dict[str, np.ndarray]:
    """All elements of a frame are alike."""
    same = np.random.default_rng(1).integers(-100, 100, (4, 1, 1, 1, 1)).astype(np.float32)
    return {"x": np.broadcast_to(np.float32(0.1) * same, (4, *SHAPE)).copy()}


def sums(sketch: Sketch, row: np.ndarray) -> str:
    """One row of weights in several orders: the sums over a frame of ``even_frames`` are the same in integers only."""
    random = np.random.default_rng(2)
    weights = np.stack([random.permutation(row) for _ in range(9)], axis=1).astype(np.int8)
    flat = sketch.node("Flatten", sketch.through_integers("x", 0.1, 3))
    return sketch.node("MatMul", flat, sketch.dequantized(weights, np.array(0.07)))


def assert_exported_agrees(seed: int, folder: Path) -> bool:
    """A network as converters write them, quantized by onnxruntime; whether it was accepted."""
    drawn = draw(seed, folder)
    reading = ReadOptions(dimensions=drawn.dimensions, lenient=True)
    try:
        frame = flow.read(drawn.path, reading).frame
        frames = split_samples(drawn.frames, frame.batch)
        made = quantize_model(prepare_model(frame.model), SampleRanges(frames))
    except UserError:
        return False
    for given_frames in (frames, None):
        found = compare(made.model, made.network, given_frames, made.floats).agreement
        assert found.frames == 4 and found.worst <= 1
    return True


@pytest.mark.parametrize("seed", [603, 611])
def test_exported_models(tmp_path: Path, seed: int) -> None:
    assert assert_exported_agrees(seed, tmp_path)


@pytest.mark.slow
def test_many_exported_models(tmp_path: Path) -> None:
    assert sum(assert_exported_agrees(seed, tmp_path) for seed in range(700, 710)) > 8


@pytest.mark.parametrize("function", ["Sign", "Floor", "Reciprocal"])
def test_a_jump_of_a_function(tmp_path: Path, function: str) -> None:
    """What is 0 in integers is not quite that in floats, and may lie on either side of a jump."""
    sketch, half = Sketch(), np.random.default_rng(3).integers(1, 120, 12)
    y = sketch.through_integers(sketch.node(function, sums(sketch, np.concatenate([half, -half]))), 0.1, 0)
    found = compared(sketch.write(tmp_path / "m.onnx", SHAPE, y, 2), even_frames()).agreement
    assert found.frames == 4 and max(of.worst for of in found.outputs.values()) >= 1


def test_the_index_of_an_extreme(tmp_path: Path) -> None:
    """Of classes that are equally good the integers take the first one, and floats any."""
    sketch = Sketch()
    best = sketch.node("ArgMax", sums(sketch, np.random.default_rng(4).integers(-120, 120, 24)), axis=1)
    onnx.save(sketch.model(SHAPE, TensorProto.FLOAT, best, 2, TensorProto.INT64), tmp_path / "m.onnx")
    found = compared(tmp_path / "m.onnx", even_frames()).agreement
    assert found.frames == 4 and found.worst > 1


# ---- ties -----------------------------------------------------------------------------------------------------------


def halves(folder: Path) -> tuple[Path, str]:
    """y = x / 2 in integers: every odd number is a tie. And the name of y."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.25, 0)
    y = sketch.through_integers(sketch.node("Mul", x, sketch.constant(np.array(0.5, dtype=np.float32))), 0.25, 0)
    path = sketch.write(folder / "m.onnx", SHAPE, y)
    return path, next(node.input[0] for node in sketch.nodes if y in node.output)


def falsified(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[np.ndarray, np.ndarray], Any]) -> None:
    """A golden that says ``change(y, x)`` instead of y."""
    walk = golden.walk

    def wrong(network: Any, integers: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        (x,) = integers.values()
        for tensor, values in walk(network, integers):
            yield tensor, change(values, x) if tensor == name else values

    monkeypatch.setattr(golden, "walk", wrong)


def even_numbers() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(5).integers(-60, 60, (4, *SHAPE)).astype(np.float32) * np.float32(0.5)}


def test_either_side_of_a_tie_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, y = halves(tmp_path)
    falsified(monkeypatch, y, lambda y, x: np.where(2 * y == x, y, x - y))  # the other one of two
    frames = {"x": np.random.default_rng(4).integers(-120, 120, (4, *SHAPE)).astype(np.float32) * np.float32(0.25)}
    found = compared(path, frames).agreement
    odd = int((np.rint(frames["x"] * 4) % 2).sum())
    assert (found.one_step, found.worst) == (odd, 1) and odd > 20
    assert found.equal == found.values_compared - odd
    assert f"({odd} of " in str(found)
    assert max(of.worst for of in found.outputs.values()) == 0.25


@pytest.mark.parametrize("wrong", [1, -1, 2, 256])
def test_a_step_away_from_a_tie_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """Also where the wrong integer looks like the right one in 8 bits."""
    path, y = halves(tmp_path)
    place = (0, 1, 2, 1)  # (frame, row, column, channel) of the stream

    def change(y: np.ndarray, _: np.ndarray) -> np.ndarray:
        changed = y.copy()
        changed[place] += wrong
        return changed

    frames = even_numbers()
    falsified(monkeypatch, y, change)
    with pytest.raises(UserError) as caught:
        compared(path, frames)
    assert caught.value.exit_code is ExitCode.MISMATCH
    right = int(frames["x"][0, 0, 1, 1, 2] * 2)
    (problem,) = caught.value.problems
    assert f"`{y}`[0, 1, 1, 2] must be {right}, as the model says, not {right + wrong}" in problem.message
    assert problem.where.startswith("graph.node[")


def test_a_tie_two_steps_off_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, y = halves(tmp_path)
    falsified(monkeypatch, y, lambda y, x: np.where(x % 2 == 1, np.floor(x / 2).astype(np.int64) + 2, y))
    with pytest.raises(UserError, match="must be"):
        compared(path)


# ---- frames ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [1, 3, 4, 9])
def test_four_frames(tmp_path: Path, given: int) -> None:
    path, _ = halves(tmp_path)
    np.savez(tmp_path / "few.npz", x=np.ones((given, *SHAPE), dtype=np.float32))
    options = BuildOptions(model=path, inputs=tmp_path / "few.npz", out=tmp_path / "out", stop_after=Stage.QUANTIZE)
    found = build(options).report.reference
    assert found is not None and found.frames == 4 and found.values_compared == 4 * 3 * 24


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT64, TensorProto.BOOL])
def test_drawn_frames_use_the_range(tmp_path: Path, element: int) -> None:
    """As far as the input's type has one."""
    sketch = Sketch()
    start = "x"
    if element in (TensorProto.INT64, TensorProto.BOOL):
        start = sketch.node("Cast", "x", to=TensorProto.FLOAT)
    if element == TensorProto.INT8:
        x = sketch.node(
            "DequantizeLinear", "x", sketch.constant(np.float32(0.3)), sketch.constant(np.array(5, np.int8))
        )
    else:
        x = sketch.through_integers(start, 0.3, 5)
    y = sketch.through_integers(sketch.node("Sigmoid", x), 0.004, -128)
    onnx.save(sketch.model(SHAPE, element, y, 4, TensorProto.FLOAT), tmp_path / "m.onnx")
    model = flow.read(tmp_path / "m.onnx")
    network = import_model(model)
    frames = drawn_frames(model, network, 4)
    assert frames is not None and frames["x"].shape == (4, *SHAPE)
    (integers,) = golden.integers_of(network, frames).values()
    if element == TensorProto.BOOL:
        assert len(np.unique(integers)) == 2
    else:
        assert integers.min() < -120 and integers.max() > 120
    assert compared(tmp_path / "m.onnx").agreement.frames == 4


def table(folder: Path, rows: int, first: int = 0) -> Path:
    """Rows of a table by their index, counted from ``first``, times a matrix."""
    sketch, random = Sketch(), np.random.default_rng(6)
    index = sketch.node("Sub", "x", sketch.constant(np.array(first)))
    row = sketch.node("Gather", sketch.constant(random.normal(0, 5, (rows, 6)).astype(np.float32)), index, axis=0)
    x = sketch.through_integers(row, 0.1, 0)
    weights = sketch.dequantized(random.integers(-9, 9, (6, 2)).astype(np.int8), np.array(0.1))
    y = sketch.through_integers(sketch.node("MatMul", x, weights), 0.1, 0)
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, [40])]
    last = helper.make_tensor_value_info(y, TensorProto.FLOAT, [40, 2])
    graph = helper.make_graph(sketch.nodes, "table", inputs, [last], sketch.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("rows", [1, 2, 12])
def test_indices_are_drawn(tmp_path: Path, rows: int) -> None:
    assert compared(table(tmp_path, rows)).agreement.frames == 4


def test_frames_that_cannot_be_drawn_are_said(tmp_path: Path) -> None:
    path = table(tmp_path, 3, first=1000)
    made = build(BuildOptions(model=path, out=tmp_path / "out", stop_after=Stage.QUANTIZE))
    assert made.report.reference is not None and made.report.reference.frames == 0
    assert any("not compared with the model" in warning for warning in made.report.warnings)
