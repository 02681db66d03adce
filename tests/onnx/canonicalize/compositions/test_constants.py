"""Constants that are joined to data, that data is broadcast to, and that differ per place: against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 0.037


def numbers(s: Sketch, *shape: int) -> str:
    return s.constant(np.random.default_rng(len(s.constants)).normal(0, 0.5, shape).astype(np.float32))


def product(s: Sketch, x: str, inputs: int, outputs: int) -> str:
    integers = np.random.default_rng(len(s.constants)).integers(-127, 128, (inputs, outputs)).astype(np.int8)
    return s.through_integers(s.node("MatMul", x, s.dequantized(integers, 0.0077)), STEP, 3)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("stored", [False, True])
def test_constants_are_joined_to_data(axis: int, stored: bool, tmp_path: Path) -> None:
    """A class token before words, and behind them; the constants quantized, too, or not."""
    s, shape = Sketch(), [1, 1, 4] if axis == 1 else [1, 3, 1]
    token = s.dequantized(np.full(shape, 77, np.int8), 0.01) if stored else numbers(s, *shape)
    x = s.through_integers("x", 0.03125, -5)
    joined = s.node("Concat", token, x, x, numbers(s, *shape), axis=axis)
    y = product(s, s.through_integers(joined, 0.0391, 2), 4 if axis == 1 else 10, 2)
    assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 3, 4]}, y), STEP)


def test_constants_between_data(tmp_path: Path) -> None:
    s = Sketch()
    x = s.through_integers("x", 0.03125, -5)
    joined = s.through_integers(s.node("Concat", x, numbers(s, 1, 2, 4), x, axis=1), 0.0391, 2)
    assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 3, 4]}, product(s, joined, 4, 2)), STEP)


@pytest.mark.parametrize("kind", ["Mul", "Sub", "Div"])
def test_data_is_broadcast_to_a_larger_constant(kind: str, tmp_path: Path) -> None:
    """The scale of Keras' LayerNormalization: [6] times one number per word."""
    s = Sketch()
    words = s.node("ReduceMean", product(s, s.through_integers("x", 0.03125, -5), 4, 5), axes=[2])
    words = s.through_integers(words, 0.02, -4)
    large = s.node("Add", numbers(s, 6), s.constant(np.float32(3))) if kind == "Div" else numbers(s, 6)
    y = s.node(kind, *((large, words) if kind == "Sub" else (words, large)))
    y = product(s, s.through_integers(y, 0.03, 1), 6, 2)
    assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 3, 4]}, y), STEP)


def test_factors_per_place_of_both_signs(tmp_path: Path) -> None:
    """A function that differs per place would need a table for each of them."""
    s = Sketch()
    x = s.through_integers(s.node("Relu", product(s, s.through_integers("x", 0.03125, -5), 4, 3)), 0.02, -128)
    y = s.node("Mul", x, s.constant(np.array([[0.5, -0.7, 0], [-1, 2, 0.3]], np.float32)))
    y = product(s, s.through_integers(y, 0.031, 1), 3, 2)
    assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 2, 4]}, y), STEP)


def test_a_class_token_and_positions_of_floats(tmp_path: Path) -> None:
    s = Sketch()
    x = s.node("Concat", numbers(s, 1, 1, 6), s.node("MatMul", "x", numbers(s, 4, 6)), axis=1)
    y = s.node("MatMul", s.node("Relu", s.node("Add", x, numbers(s, 4, 6))), numbers(s, 6, 3))
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 3, 4]}, y))
    frames = random_frames(model, 16)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    error = golden.run(flow.quantize(model, frames), frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30


def test_the_circuit(tmp_path: Path) -> None:
    """A token before words, a factor per place, and a number per word that is broadcast to a constant."""
    s = Sketch()
    x = s.node("Concat", numbers(s, 1, 1, 2), s.through_integers("x", 0.03125, -5), axis=1)
    x = s.node("Mul", s.through_integers(x, 0.0391, 2), numbers(s, 2, 2))
    x = s.node("ReduceMean", product(s, s.through_integers(x, 0.02, 1), 2, 2), axes=[2])
    x = s.node("Mul", s.through_integers(x, 0.02, -4), numbers(s, 3))
    y = product(s, s.through_integers(x, 0.03, 1), 3, 1)
    assert_circuit_agrees(assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 1, 2]}, y), STEP))


def test_constants_behind_the_last_product_stay_on_the_host(tmp_path: Path) -> None:
    s = Sketch()
    y = s.node("Concat", product(s, s.through_integers("x", 0.03125, -5), 4, 3), numbers(s, 1, 2, 3), axis=1)
    network = flow.quantize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 2, 4]}, y)))
    assert network.tail is not None and "Concat" in {node.op_type for node in network.tail.graph.nodes}
