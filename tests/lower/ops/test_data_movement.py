"""Operators that move elements: against onnxruntime, and in the circuit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

from onnx_hw import flow
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.rearrange import Rearrange
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, write
from support.qdq_models import Sketch

SHAPE = [1, 4, 4, 6]
Build = Callable[[Sketch, str], str]


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


MOVES: dict[str, Build] = {
    "slice": lambda s, x: s.node("Slice", x, *map(s.constant, (ints(1, 5), ints(4, -7), ints(2, 3), ints(1, -2)))),
    "channels": lambda s, x: s.node("Slice", x, *map(s.constant, (ints(1), ints(3), ints(1)))),
    "gather": lambda s, x: s.node("Gather", x, s.constant(ints(2, 0, 2)), axis=1),
    "tile": lambda s, x: s.node("Tile", x, s.constant(ints(1, 1, 2, 1))),
    "expand": lambda s, x: s.node("Expand", s.node("GlobalMaxPool", x), s.constant(ints(1, 4, 3, 2))),
    "to space": lambda s, x: s.node("DepthToSpace", x, blocksize=2),
    "to space, columns first": lambda s, x: s.node("DepthToSpace", x, blocksize=2, mode="CRD"),
    "to depth": lambda s, x: s.node("SpaceToDepth", x, blocksize=2),
    "nearest": lambda s, x: s.node("Resize", x, "", s.constant(np.array([1, 1, 2, 2], dtype="f")), mode="nearest"),
    "nearest, odd": lambda s, x: s.node(
        "Resize", x, "", "", s.constant(ints(1, 4, 7, 5)), mode="nearest", coordinate_transformation_mode="asymmetric"
    ),
    "zeros around": lambda s, x: s.node("Pad", x, s.constant(ints(0, 0, 1, 2, 0, 0, 2, 1))),
    "a value around": lambda s, x: s.node(
        "Pad", x, s.constant(ints(0, 1, 0, 0, 0, 0, 1, 0)), s.constant(np.float32(1))
    ),
    "cropped and padded": lambda s, x: s.node("CenterCropPad", x, s.constant(ints(3, 9)), axes=[2, 3]),
    "edges": lambda s, x: s.node("Pad", x, s.constant(ints(0, 0, 1, 2, 0, 0, 2, 1)), mode="edge"),
    "mirrored": lambda s, x: s.node("Pad", x, s.constant(ints(0, 0, 1, 2, 0, 0, 2, 1)), mode="reflect"),
    "turned": lambda s, x: s.node("Transpose", x, perm=[0, 1, 3, 2]),
    "channels last": lambda s, x: s.node("Transpose", x, perm=[0, 2, 3, 1]),
    "reshaped": lambda s, x: s.node("Reshape", x, s.constant(ints(1, 3, 8, 4))),
    "shuffled": lambda s, x: s.node(
        "Reshape",
        s.node("Transpose", s.node("Reshape", x, s.constant(ints(1, 2, 2, 4, 6))), perm=[0, 2, 1, 3, 4]),
        s.constant(ints(1, 4, 4, 6)),
    ),
}


IN_THE_CIRCUIT = ("nearest", "mirrored", "shuffled")
"""Moves whose circuit is simulated: that of any map is proven in ``ops/test_rearrange.py``."""


def convolved(sketch: Sketch, x: str, channels: int, seed: int = 0) -> str:
    weights = np.random.default_rng(seed).integers(-127, 128, (3, channels, 2, 2)).astype(np.int8)
    return sketch.through_integers(sketch.node("Conv", x, sketch.dequantized(weights, [0.002])), 0.03125, 3)


@pytest.mark.parametrize("move", MOVES)
def test_moves_before_a_convolution(tmp_path: Path, move: str) -> None:
    """The convolution wants an image; before it the elements must be where they belong."""
    sketch = Sketch(opset=18)
    moved = MOVES[move](sketch, sketch.through_integers("x", 0.03125, -5))
    model = flow.read(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, moved))
    channels = model.graph.values[moved].shape[1]  # type: ignore[index]
    y = convolved(sketch, sketch.through_integers(moved, 0.03125, -5), channels)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y), 0.03125)
    if move in IN_THE_CIRCUIT:
        assert_circuit_agrees(network)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("requantized", [True, False])
def test_zeros_before_a_convolution_are_pads_of_its_window(tmp_path: Path, rank: int, requantized: bool) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, -5)
    shape, pads = ([1, 4, 4, 6], ints(0, 0, 1, 2, 0, 0, 2, 1)) if rank == 2 else ([1, 4, 9], ints(0, 0, 2, 0, 0, 1))
    padded = sketch.node("Pad", x, sketch.constant(pads))
    if requantized:
        padded = sketch.through_integers(padded, 0.03125, -5)
    weights = np.random.default_rng(0).integers(-127, 128, (3, 4, *[2] * rank)).astype(np.int8)
    y = sketch.node("Conv", padded, sketch.dequantized(weights, [0.002]), pads=[1] * 2 * rank)
    y = sketch.through_integers(y, 0.03125, 3)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": shape}, y), 0.03125)
    assert not any(isinstance(node.operator, Rearrange) for node in network.nodes)
    if requantized:  # the circuit is the same one
        assert_circuit_agrees(network)


@pytest.mark.parametrize("move", ["to space", "shuffled", "channels last", "turned"])
def test_an_exchange_of_places_at_the_end_costs_nothing(tmp_path: Path, move: str) -> None:
    sketch = Sketch()
    y = convolved(sketch, sketch.through_integers("x", 0.03125, -5), 4)
    y = sketch.node("Slice", y, *map(sketch.constant, (ints(0, 0), ints(2, 4), ints(2, 3))))
    y = sketch.node("Concat", y, y, axis=1)
    y = sketch.node("Slice", y, *map(sketch.constant, (ints(0), ints(4), ints(1))))
    before = write(sketch, tmp_path / "before.onnx", {"x": SHAPE}, y)
    if move == "shuffled":
        y = sketch.node("Reshape", y, sketch.constant(ints(1, 2, 2, 2, 4)))
        y = sketch.node("Transpose", y, perm=[0, 2, 1, 3, 4])
    else:
        y = MOVES[move](sketch, y)
    y = sketch.through_integers(y, 0.03125, 3)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y), 0.03125)
    assert len(network.nodes) == len(flow.quantize(flow.read(before)).nodes)


def test_accumulators_with_scales_per_channel_move_once_they_are_quantized(tmp_path: Path) -> None:
    sketch = Sketch()
    weights = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    scales = [0.002, 0.003, 0.001, 0.004]
    y = sketch.node("Conv", sketch.through_integers("x", 0.03125, -5), sketch.dequantized(weights, scales))
    y = sketch.node("Relu", sketch.node("Resize", y, "", sketch.constant(np.array([1, 1, 2, 3], "f")), mode="nearest"))
    network = assert_agrees(
        write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.0313, 2)), 0.0313
    )
    assert isinstance(network.nodes[-1].operator, Rearrange)
    assert_circuit_agrees(network)


@pytest.mark.parametrize("move", ["channels", "turned", "reshaped"])
def test_sums_move_once_they_are_quantized(tmp_path: Path, move: str) -> None:
    """Of scales whose ratio is not simple, so that no integers stand for the sums themselves."""
    sketch = Sketch()
    y = sketch.node("Add", sketch.through_integers("x", 0.03125, -5), sketch.through_integers("y", 0.0417123, 3))
    y = sketch.node("Relu", sketch.node("Flatten", MOVES[move](sketch, y)))
    path = write(sketch, tmp_path / "m.onnx", dict.fromkeys("xy", SHAPE), sketch.through_integers(y, 0.0613, 2))
    network = assert_agrees(path, 0.0613)
    assert sum(isinstance(node.operator, Rearrange) for node in network.nodes) == (move == "channels")


def test_maxima_of_channels_with_scales_of_their_own(tmp_path: Path) -> None:
    sketch = Sketch(opset=18)
    weights = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    scales = [0.002, 0.003, 0.001, 0.004]
    y = sketch.node("Conv", sketch.through_integers("x", 0.03125, -5), sketch.dequantized(weights, scales))
    y = sketch.node("ReduceMax", sketch.node("Relu", y), sketch.constant(ints(1)))
    assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.0313, 2)), 0.0313)


def test_functions_per_channel_move_once_they_are_quantized(tmp_path: Path) -> None:
    sketch = Sketch()
    slopes = sketch.constant(np.array([0.1, -0.5, 0, 1], dtype=np.float32).reshape(4, 1, 1))
    y = sketch.node("PRelu", sketch.through_integers("x", 0.03125, -5), slopes)
    y = x_slice(sketch, sketch.node("Resize", y, "", sketch.constant(np.array([1, 1, 2, 3], "f")), mode="nearest"))
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.0313, 2))
    assert_circuit_agrees(assert_agrees(path, 0.0313))


def test_scales_per_channel_of_an_input_move_once_they_are_quantized(tmp_path: Path) -> None:
    """The order of an input is its own: a channel is not every fourth element of it."""
    sketch = Sketch()
    factors = sketch.constant(np.array([0.5, 1, 2, 3], dtype=np.float32).reshape(4, 1, 1))
    y = sketch.node("Mul", sketch.through_integers("x", 0.03125, -5), factors)
    y = x_slice(sketch, sketch.node("Tile", y, sketch.constant(ints(1, 1, 2, 1))))
    y = sketch.node("Sub", y, sketch.constant(np.array([0, 1, 2, 3], dtype=np.float32).reshape(4, 1, 1)))
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.0613, 2))
    assert_circuit_agrees(assert_agrees(path, 0.0613))


def test_split_into_parts_of_their_own(tmp_path: Path) -> None:
    sketch = Sketch(opset=13)
    x = sketch.through_integers("x", 0.03125, -5)
    sketch.nodes.append(make_node("Split", [x, sketch.constant(ints(1, 3))], ["one", "three"], axis=1))
    y = convolved(sketch, sketch.through_integers("three", 0.03125, -5), 3)
    z = sketch.through_integers("one", 0.0625, 0)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y, z), 0.0625)
    assert sum(isinstance(node.operator, Rearrange) for node in network.nodes) == 2
    assert_circuit_agrees(network)


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("scales", [(0.03125, 0.03125), (0.02, 0.0417)])
def test_concat(tmp_path: Path, axis: int, scales: tuple[float, float]) -> None:
    """Of tensors with one scale, or each with its own."""
    sketch = Sketch()
    x = sketch.through_integers("x", scales[0], -5)
    shape = list(SHAPE)
    shape[axis] = 2
    y = sketch.through_integers("y", scales[1], -5)
    joined = sketch.through_integers(sketch.node("Relu", sketch.node("Concat", x, y, axis=axis)), 0.03125, -5)
    z = convolved(sketch, joined, 6 if axis == 1 else 4)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE, "y": shape}, z), 0.03125)
    if axis != 2:  # rows are joined as columns are
        assert_circuit_agrees(network)


def test_concat_of_accumulators_and_pooled_data(tmp_path: Path) -> None:
    """Each part is requantized once, straight to the scale of the whole."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, -5)
    weights = np.random.default_rng(0).integers(-127, 128, (3, 4, 2, 2)).astype(np.int8)
    a = sketch.node("Conv", x, sketch.dequantized(weights, [0.002, 0.003, 0.001]))
    b = sketch.node("AveragePool", x, kernel_shape=[2, 2])
    c = sketch.node("HardSwish", x_slice(sketch, x))
    joined = sketch.node("Relu", sketch.node("Concat", a, b, c, x_slice(sketch, x), axis=1))
    joined = sketch.through_integers(joined, 0.03125, 7)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, joined), 0.03125)
    assert_circuit_agrees(network)


def x_slice(sketch: Sketch, x: str) -> str:
    return sketch.node("Slice", x, *map(sketch.constant, (ints(0, 0), ints(3, 5), ints(2, 3))))


@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceSum", "ReduceMax"])
@pytest.mark.parametrize("axes", [(2, 3), (1, 2), (-1,), (1, 2, 3)])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(tmp_path: Path, operator: str, axes: tuple[int, ...], keepdims: int) -> None:
    sketch = Sketch(opset=18)
    x = sketch.through_integers("x", 0.03125, -5)
    y = sketch.node(operator, x, sketch.constant(ints(*axes)), keepdims=keepdims)
    y = sketch.through_integers(y, 0.0417, 3)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y), 0.0417, rarely=0.02)
    if keepdims:  # the circuit is the same one
        assert_circuit_agrees(network)


@pytest.mark.parametrize(("operator", "of"), [("ReduceMean", "Sub"), ("ReduceSum", "Add")])
def test_reductions_of_sums_of_unlike_scales(tmp_path: Path, operator: str, of: str) -> None:
    """No integers stand for such sums before they are quantized: those of each operand are added up instead."""
    sketch = Sketch(opset=18)
    y = sketch.node(of, sketch.through_integers("x", 0.03125, -5), sketch.through_integers("y", 0.0417123, 3))
    y = sketch.through_integers(sketch.node(operator, y, sketch.constant(ints(2, 3))), 0.0213, 2)
    path = write(sketch, tmp_path / "m.onnx", dict.fromkeys("xy", SHAPE), y)
    assert_circuit_agrees(assert_agrees(path, 0.0213))


def test_so_many_pixels_of_such_a_sum_must_be_quantized_before(tmp_path: Path) -> None:
    sketch = Sketch(opset=18)
    y = sketch.node("Add", sketch.through_integers("x", 0.03125, -5), sketch.through_integers("y", 0.0417123, 3))
    y = sketch.through_integers(sketch.node("ReduceMean", y, sketch.constant(ints(2, 3))), 0.0213, 2)
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 1, 20, 20], "y": [1, 1, 20, 20]}, y)
    with pytest.raises(UserError, match="must be quantized before ReduceMean"):
        import_model(flow.read(path))


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("said", [{}, {"keepdims": 0, "select_last_index": 0}, {"keepdims": 1, "select_last_index": 1}])
def test_arg_max(tmp_path: Path, operator: str, axis: int, said: dict[str, int]) -> None:
    """Few different integers, so that there are ties; the first of them is meant where nothing is said."""
    sketch = Sketch()
    x = sketch.through_integers("x", 1.0, 2)
    y = sketch.node(operator, x, axis=axis, **said)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y, integers=y), 0.1, rarely=0)
    assert_circuit_agrees(network)
