"""Recurrent layers that a quantized model leaves in floats, and stacks of layers in both directions as circuits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.size_fifos import size_fifos
from support.design_bench import Bench, assert_proven, random_stall
from support.onnx_oracle import by_onnxruntime, write
from support.qdq_models import Sketch

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


class Layers(Sketch):
    """A model with recurrent layers under construction, with seeded weights."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(0)

    def floats(self, *shape: int) -> str:
        return self.constant(self.generator.normal(0, 0.6, shape).astype(np.float32))

    def layer(self, op_type: str, x: str, features: int, hidden: int, directions: int = 1) -> str:
        """Add a layer over [steps, 1, features]; return its results, [steps, 1, directions · hidden]."""
        rows = GATES[op_type] * hidden
        weights = self.floats(directions, rows, features), self.floats(directions, rows, hidden)
        both = {"direction": "bidirectional"} if directions == 2 else {}
        y = self.node(op_type, x, *weights, self.floats(directions, 2 * rows), hidden_size=hidden, **both)
        turned = self.node("Transpose", y, perm=[0, 2, 1, 3])
        return self.node("Reshape", turned, self.constant(np.array([0, 1, directions * hidden])))


def decibels(path: Path, network: Network, frames: dict[str, np.ndarray]) -> float:
    (wanted,), (found,) = by_onnxruntime(path, frames).values(), golden.run(network, frames).values()
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


def test_a_function_between_a_quantizer_and_a_float_layer_gets_integers(tmp_path: Path) -> None:
    """The model quantizes the argument of a Sqrt, as of a spectrum, and nothing behind it."""
    sketch, steps = Layers(), 8
    x = sketch.through_integers("x", 0.02, 3)
    weights = sketch.dequantized(sketch.generator.integers(-100, 100, (3, 2, 3)).astype(np.int8), 0.01, np.int8(0))
    data = sketch.node("Sqrt", sketch.through_integers(sketch.node("Conv", x, weights, pads=[2, 0]), 0.03, -128))
    y = sketch.layer("GRU", sketch.node("Transpose", data, perm=[2, 0, 1]), 3, 4)
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 2, steps]}, y)
    frames = {"x": sketch.generator.normal(0, 0.7, (8, 1, 2, steps)).astype(np.float32)}
    assert decibels(path, flow.quantize(flow.read(path), frames), frames) > 30


@pytest.mark.parametrize("op_type", GATES)
def test_a_float_layer_behind_quantized_ones_gets_integers(op_type: str, tmp_path: Path) -> None:
    """As in a float model; the integers that the model brings stay."""
    sketch, steps = Layers(), 16
    x = sketch.through_integers("x", 0.02, 3)
    weights = sketch.dequantized(sketch.generator.integers(-100, 100, (3, 2, 3)).astype(np.int8), 0.01, np.int8(0))
    data = sketch.through_integers(sketch.node("Conv", x, weights, pads=[2, 0]), 0.03, 0)
    y = sketch.layer(op_type, sketch.node("Transpose", data, perm=[2, 0, 1]), 3, 4)
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 2, steps]}, y)
    frames = {"x": sketch.generator.normal(0, 0.7, (8, 1, 2, steps)).astype(np.float32)}
    network = flow.quantize(flow.read(path), frames)
    assert decibels(path, network, frames) > 30
    (entry,) = network.inputs
    assert network.grids[entry.tensor].zero_point == (3,)


@pytest.mark.slow
def test_a_stack_in_both_directions_is_a_circuit(tmp_path: Path) -> None:
    """Two layers, whose first one's directions are joined; stalled at both ends, frames back to back."""
    sketch, steps = Layers(), 3
    y = sketch.layer("LSTM", sketch.layer("LSTM", "x", 2, 2, directions=2), 4, 1, directions=2)
    path = write(sketch, tmp_path / "m.onnx", {"x": [steps, 1, 2]}, y)
    frames = {"x": sketch.generator.normal(0, 1, (16, steps, 1, 2)).astype(np.float32)}
    network = flow.quantize(flow.read(path), frames)
    assert len(network.loops) == 4
    assert decibels(path, network, frames) > 25
    forked = insert_forks(network)
    narrow = {node.name: node.operator.narrowest for node in forked.nodes}  # a search would take a while
    design = size_fifos(Design(*insert_gearboxes(forked, narrow), {}))
    assert_proven(Bench(design).prove(random_stall(design, 2, seed=1), frames=2))


@pytest.mark.parametrize("op_type", ["GRU", "RNN"])
def test_a_float_layer_of_one_step_gets_integers(op_type: str, tmp_path: Path) -> None:
    """It is no loop: its state is an input and an output. A product behind it has integers of its own."""
    sketch = Layers()
    weights = sketch.floats(1, GATES[op_type] * 6, 5), sketch.floats(1, GATES[op_type] * 6, 6)
    both = sketch.floats(1, 2 * GATES[op_type] * 6)
    y = sketch.node(op_type, "x", *weights, both, "", "h", hidden_size=6)
    row = sketch.node("Reshape", y, sketch.constant(np.array([1, 6])))
    last = sketch.dequantized(sketch.generator.integers(-100, 100, (6, 3)).astype(np.int8), 0.01, np.int8(0))
    scores = sketch.through_integers(sketch.node("MatMul", sketch.through_integers(row, 0.008, 0), last), 0.03, 0)
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 1, 5], "h": [1, 1, 6]}, scores)
    frames = {
        "x": sketch.generator.normal(0, 1, (32, 1, 1, 5)).astype(np.float32),
        "h": np.tanh(sketch.generator.normal(0, 1, (32, 1, 1, 6))).astype(np.float32),
    }
    assert decibels(path, flow.quantize(flow.read(path), frames), frames) > 28
