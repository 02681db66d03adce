"""Inputs and outputs that are one state: paired by name, kept by the circuit, as the model in a loop over frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import onnx_hw
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.load.check_file import check as check_file
from onnx_hw.ops.kept_state import KeptState
from onnx_hw.quantization.quantize import prepare_model, quantize_model
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.runtime.options import ReadOptions
from onnx_hw.samples.frames import by_reference
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime, write
from support.qdq_models import Sketch

FRAMES = 24


def buffered(sketch: Sketch, taps: int = 3, channels: int = 3) -> tuple[dict[str, list[int]], list[str]]:
    """A step of a convolution over time, which takes its last data and gives it back."""
    whole = sketch.node("Concat", "buffer_in", "x", axis=2)
    weights = np.random.default_rng(0).normal(0, 0.4, (2, channels, taps)).astype(np.float32)
    y = sketch.node("Conv", whole, sketch.constant(weights))
    ends = [sketch.constant(np.array([k])) for k in (1, 1 << 40, 2)]
    kept = sketch.node("Slice", whole, *ends)
    return {"x": [1, channels, 1], "buffer_in": [1, channels, taps - 1]}, [y, kept]


def cell(sketch: Sketch, units: int = 4, features: int = 3) -> tuple[dict[str, list[int]], list[str]]:
    """A cell tanh(W x + R h), and a product of its new state."""
    generator = np.random.default_rng(1)
    arrays = [generator.normal(0, 0.5, shape).astype(np.float32) for shape in ((features, units), (units, units))]
    of_x, of_h = (sketch.node("MatMul", name, sketch.constant(a)) for name, a in zip(("x", "h"), arrays, strict=True))
    new = sketch.node("Tanh", sketch.node("Add", of_x, of_h))
    y = sketch.node("MatMul", new, sketch.constant(generator.normal(0, 0.5, (units, 2)).astype(np.float32)))
    return {"x": [1, features], "h": [1, units]}, [y, new]


KINDS: dict[str, tuple[Callable[[Sketch], tuple[dict[str, list[int]], list[str]]], str]] = {
    "buffered": (buffered, "buffer_in"),
    "cell": (cell, "h"),
}


def written(kind: str, tmp_path: Path) -> tuple[Path, str, list[str], dict[str, np.ndarray]]:
    """Return a model's file, the name of its state, its outputs, and frames without the state."""
    make, state = KINDS[kind]
    sketch = Sketch()
    shapes, outputs = make(sketch)
    path = write(sketch, tmp_path / "m.onnx", shapes, *outputs)
    x = np.random.default_rng(2).normal(0, 1, (FRAMES, *shapes["x"])).astype(np.float32)
    return path, state, outputs, {"x": x}


def quantized(path: Path, state: str, output: str, frames: dict[str, np.ndarray], first: str = "") -> Network:
    model = flow.read(path, ReadOptions(state=(f"{state}:{output}{first}",)))
    return flow.quantize(model, frames)


def by_feeding_back(path: Path, state: str, output: str, frames: dict[str, np.ndarray], first: float = 0.0) -> dict:
    """Return onnxruntime's outputs where every frame gets what the frame before has left."""
    shape = next(value.shape for value in flow.read(path).graph.inputs if value.name == state)
    h = np.full(shape, first, np.float32)  # type: ignore[type-var]
    each = []
    for k in range(FRAMES):
        outputs = by_onnxruntime(path, {"x": frames["x"][k : k + 1], state: h[None]})
        h = outputs[output][0]
        each.append(outputs)
    return {name: np.concatenate([outputs[name] for outputs in each]) for name in each[0]}


def decibels(wanted: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


@pytest.mark.parametrize("first", [0.0, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_float_model_goes_on_from_frame_to_frame(kind: str, first: float, tmp_path: Path) -> None:
    """As onnxruntime does where a loop over the frames carries the state; no worse at the end than at the beginning."""
    path, state, (y, kept), frames = written(kind, tmp_path)
    network = quantized(path, state, kept, frames, f"={first}" if first else "")
    assert [b.tensor for b in network.inputs] == [b.tensor for b in network.inputs if "x" in b.onnx_name]
    assert [value.name for value in network.arguments] == ["x"] and network.results == (y,)
    found, wanted = golden.run(network, frames)[y], by_feeding_back(path, state, kept, frames, first)[y]
    assert decibels(wanted, found) > 28
    assert decibels(wanted[-8:], found[-8:]) > decibels(wanted[:8], found[:8]) - 6
    assert decibels(wanted, by_reference(_read(path, state, kept, first), frames)[y]) > 100


def _read(path: Path, state: str, output: str, first: float) -> flow.ReadModel:
    return flow.read(path, ReadOptions(state=(f"{state}:{output}={first}",)))


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_with_its_state_given_is_the_same(kind: str, tmp_path: Path) -> None:
    """The network that keeps its state is the network of one frame in a loop over the frames."""
    path, state, (y, kept), frames = written(kind, tmp_path)
    model = flow.read(path, ReadOptions(state=(f"{state}:{kept}",)))
    made = quantize_model(prepare_model(model.frame.model), SampleRanges(frames))
    whole = golden.run(made.network, frames)[y]
    h = np.zeros(made.step.arguments[1].shape, np.float32)  # type: ignore[type-var]
    for k in range(FRAMES):
        outputs = golden.run(made.step, {"x": frames["x"][k : k + 1], state: h[None]})
        np.testing.assert_array_equal(outputs[y][0], whole[k])
        (h,) = outputs[made.model.states[0].output]


def test_a_shifted_buffer_is_not_rounded_again(tmp_path: Path) -> None:
    path, state, (_, kept), frames = written("buffered", tmp_path)
    network = quantized(path, state, kept, frames)
    rounded = [node for node in network.nodes if type(node.operator).__name__ == "Requantize"]
    assert len(rounded) == 1, "the new data alone, onto the grid of the buffer"


@pytest.mark.parametrize("kind", KINDS)
def test_the_circuit_keeps_it(kind: str, tmp_path: Path) -> None:
    path, state, (_, kept), frames = written(kind, tmp_path)
    assert_circuit_agrees(quantized(path, state, kept, frames), frames=4)


@pytest.mark.parametrize("scale", [0.02, 0.0317])
def test_a_quantized_model_keeps_its_own_integers(scale: float, tmp_path: Path) -> None:
    """Also where its output has another scale than its input: then it is rounded onto that in between."""
    sketch = Sketch()
    x, h = sketch.through_integers("x", 0.02, 3), sketch.through_integers("h", 0.02, -5)
    weights = sketch.dequantized(np.random.default_rng(0).integers(-60, 60, (4, 4)).astype(np.int8), 0.01, np.int8(0))
    total = sketch.node("MatMul", sketch.node("Add", x, h), weights)
    y = sketch.through_integers(total, scale, -5)
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 4], "h": [1, 4]}, y)
    frames = {"x": np.random.default_rng(1).normal(0, 0.7, (FRAMES, 1, 4)).astype(np.float32)}
    network = flow.quantize(flow.read(path, ReadOptions(state=(f"h:{y}",))))
    assert network.results == (y,), "without another output, the state is one"
    wanted = by_feeding_back(path, "h", y, frames)[y]
    np.testing.assert_allclose(golden.run(network, frames)[y], wanted, atol=1e-6)
    assert any(isinstance(node.operator, KeptState) and node.operator.initial == -5 for node in network.nodes)


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("h", "must be INPUT:OUTPUT, not 'h'"),
        ("g:tanh3", "must name an input of the model; it has no `g`"),
        ("h:tanh", "must name an output of the model; it has no `tanh`"),
        ("h:matmul4", r"must have one shape; the input is \[1, 4\], the output \[1, 2\]"),
        ("h:tanh3=much", "the first value of a state must be a number, not 'much'"),
    ],
)
def test_a_pair_that_is_no_state_is_refused(pair: str, says: str, tmp_path: Path) -> None:
    path, *_ = written("cell", tmp_path)
    with pytest.raises(UserError, match=says):
        flow.read(path, ReadOptions(state=(pair,)))


def test_an_input_is_in_one_pair_and_one_is_left(tmp_path: Path) -> None:
    path, *_ = written("cell", tmp_path)
    with pytest.raises(UserError, match="`h` must be in one pair, not in two"):
        flow.read(path, ReadOptions(state=("h:tanh3", "h:tanh3")))
    sketch = Sketch()
    path = write(sketch, tmp_path / "one.onnx", {"x": [1, 2]}, sketch.node("Relu", "x"))
    with pytest.raises(UserError, match="all of its inputs are states"):
        flow.read(path, ReadOptions(state=("x:relu0",)))


def test_names_may_hold_colons(tmp_path: Path) -> None:
    sketch = Sketch()
    sketch.node("Add", "x", "h:0")
    sketch.nodes[-1].output[0] = "h:1"
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 2], "h:0": [1, 2]}, "h:1")
    (pair,) = flow.read(path, ReadOptions(state=("h:0:h:1=-2",))).states
    assert (pair.input, pair.output, pair.first) == ("h:0", "h:1", -2)


def test_check_proposes_pairs_and_makes_none(tmp_path: Path) -> None:
    sketch = Sketch()
    shapes, (y, kept) = buffered(sketch)
    sketch.nodes[-1].output[0] = "buffer_out"
    path = write(sketch, tmp_path / "m.onnx", shapes, y, "buffer_out")
    (note,) = check_file(path).notes
    assert "`--state buffer_in:buffer_out`" in note
    assert not check_file(path, state=["buffer_in:buffer_out"]).notes
    assert not flow.read(path).states
    assert kept != "buffer_out"


def test_a_state_that_the_host_makes_is_refused(tmp_path: Path) -> None:
    sketch = Sketch()
    x, h = sketch.through_integers("x", 0.02, 3), sketch.through_integers("h", 0.02, -5)
    weights = sketch.dequantized(np.eye(4, dtype=np.int8), 0.5, np.int8(0))
    y = sketch.through_integers(sketch.node("MatMul", sketch.node("Add", x, h), weights), 0.02, 0)
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 4], "h": [1, 4]}, y, sketch.node("Identity", "x"))
    with pytest.raises(UserError, match="the state `h` must be made by the circuit"):
        flow.quantize(flow.read(path, ReadOptions(state=("h:identity9",))))


@pytest.mark.filterwarnings("ignore:.*saturation")
def test_by_keyword(tmp_path: Path) -> None:
    """A state is not given, and not returned."""
    path, state, (y, kept), frames = written("cell", tmp_path)
    model = onnx_hw.quantize(path, calibration=frames, state={state: kept})
    outputs = model(frames["x"])
    assert set(outputs) == {y} and outputs[y].shape == (FRAMES, 1, 2)
    with pytest.raises(UserError, match="must name an output for each input"):
        onnx_hw.quantize(path, calibration=frames, state=["h"])  # type: ignore[arg-type]
