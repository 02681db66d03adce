"""Next to an input or an output no frame is rearranged: the host sends and takes in an order that needs none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.prove.model.compare import compare
from support.border_models import rearranged_at_the_border
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, random_frames, write
from support.qdq_models import Sketch
from support.random_border_models import drawn_border

STEP = 0.03125
SHAPE = [1, 4, 5, 3]


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def drawn_network(seed: int, folder: Path) -> Network:
    """Compared with the model, tensor by tensor."""
    drawn = drawn_border(seed)
    model = flow.read(write(drawn.sketch, folder / f"m{seed}.onnx", drawn.shapes, *drawn.outputs))
    network = flow.quantize(model)
    assert compare(model, network, random_frames(model, 2)).agreement.frames, drawn.told
    return network


@pytest.mark.parametrize("seed", range(12))
def test_no_frame_is_rearranged_next_to_the_border(tmp_path: Path, seed: int) -> None:
    wrong = rearranged_at_the_border(drawn_network(seed, tmp_path))
    assert not wrong, (drawn_border(seed).told, wrong)


@pytest.mark.slow
def test_no_frame_of_many_is(tmp_path: Path) -> None:
    wrong = {seed: rearranged_at_the_border(drawn_network(seed, tmp_path)) for seed in range(100, 130)}
    assert not any(wrong.values()), {seed: (drawn_border(seed).told, found) for seed, found in wrong.items() if found}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 103))
def test_many_in_the_circuit(tmp_path: Path, seed: int) -> None:
    assert_circuit_agrees(drawn_network(seed, tmp_path))


def conv(sketch: Sketch, x: str, channels: int, results: int = 3, size: int = 2) -> str:
    weights = np.random.default_rng(results).integers(-127, 128, (results, channels, size, size)).astype(np.int8)
    return sketch.through_integers(sketch.node("Conv", x, sketch.dequantized(weights, [0.002])), STEP, 3)


def dense(sketch: Sketch, x: str, inputs: int) -> str:
    weights = np.random.default_rng(0).integers(-127, 128, (inputs, 4)).astype(np.int8)
    flat = sketch.node("Reshape", x, sketch.constant(ints(1, -1)))
    return sketch.through_integers(sketch.node("MatMul", flat, sketch.dequantized(weights, [0.001])), 0.1, 0)


def channels_first(sketch: Sketch, x: str) -> str:
    return sketch.node("Transpose", x, perm=[0, 3, 1, 2])


def padded_and_scaled(sketch: Sketch, x: str) -> list[str]:
    x = sketch.node("Pad", x, sketch.constant(ints(0, 1, 0, 0, 0, 0, 2, 0)))
    return [conv(sketch, channels_first(sketch, sketch.through_integers(x, 0.04, -2)), 3)]


def in_two_orders(sketch: Sketch, x: str) -> list[str]:
    return [conv(sketch, channels_first(sketch, x), 3), conv(sketch, x, 4)]


def in_an_order_and_as_it_is(sketch: Sketch, x: str) -> list[str]:
    return [conv(sketch, channels_first(sketch, x), 3), sketch.through_integers(x, 0.0517, 0)]


def into_a_dense_layer(sketch: Sketch, x: str) -> list[str]:
    x = sketch.through_integers(sketch.node("Relu", x), 0.04, -3)
    return [dense(sketch, channels_first(sketch, x), 60)]


def cut_before_a_dense_layer(sketch: Sketch, x: str) -> list[str]:
    x = sketch.node("Transpose", conv(sketch, x, 4, 6), perm=[0, 2, 3, 1])
    x = sketch.node("Slice", x, *map(sketch.constant, (ints(1), ints(3), ints(3))))
    x = sketch.through_integers(sketch.node("Transpose", x, perm=[0, 3, 2, 1]), 0.04, -3)
    return [dense(sketch, x, 16)]


def shuffled_before_a_convolution(sketch: Sketch, x: str) -> list[str]:
    x = sketch.node("Reshape", conv(sketch, x, 4, 6), sketch.constant(ints(1, 2, 3, 4, 2)))
    x = sketch.node("Reshape", sketch.node("Transpose", x, perm=[0, 2, 1, 3, 4]), sketch.constant(ints(1, 6, 4, 2)))
    return [conv(sketch, x, 6, 2)]


def joined_and_turned(sketch: Sketch, x: str) -> list[str]:
    y = sketch.node("Concat", x, sketch.through_integers("y", STEP, -5), axis=3)
    return [conv(sketch, channels_first(sketch, y), 6)]


def before_a_pad_at_the_end(sketch: Sketch, x: str) -> list[str]:
    y = sketch.node("DepthToSpace", conv(sketch, x, 4, 8), blocksize=2)
    return [sketch.through_integers(sketch.node("Pad", y, sketch.constant(ints(0, 0, 1, 0, 0, 0, 0, 1))), 0.0517, 0)]


def in_two_orders_at_the_end(sketch: Sketch, x: str) -> list[str]:
    y = conv(sketch, x, 4, 6)
    return [y, sketch.node("Transpose", y, perm=[0, 2, 3, 1])]


REMAINING: dict[Callable[[Sketch, str], list[str]], int] = {
    padded_and_scaled: 1,
    in_two_orders: 0,
    in_an_order_and_as_it_is: 0,
    into_a_dense_layer: 0,
    cut_before_a_dense_layer: 1,
    shuffled_before_a_convolution: 0,
    joined_and_turned: 0,
    before_a_pad_at_the_end: 1,
    in_two_orders_at_the_end: 0,
}
"""Rearrangements that are left: what cuts out, or puts something between."""


def sketched(kind: Callable[[Sketch, str], list[str]], folder: Path) -> Path:
    sketch = Sketch(opset=13)
    outputs = kind(sketch, sketch.through_integers("x", STEP, -5))
    shapes = {"x": SHAPE, "y": SHAPE} if kind is joined_and_turned else {"x": SHAPE}
    return write(sketch, folder / "m.onnx", shapes, *outputs)


@pytest.mark.parametrize("kind", REMAINING, ids=lambda kind: kind.__name__)
def test_the_host_or_the_weights_have_another_order(tmp_path: Path, kind: Callable[..., list[str]]) -> None:
    network = assert_agrees(sketched(kind, tmp_path), 0.1)
    left = [node for node in network.nodes if isinstance(node.operator, Rearrange)]
    assert not rearranged_at_the_border(network)
    assert all(node.operator.held <= 2 for node in left)
    assert len(left) == REMAINING[kind], left
    assert len(network.inputs) == 1 + (kind in (in_two_orders, joined_and_turned))


@pytest.mark.parametrize("kind", [in_two_orders, before_a_pad_at_the_end, in_two_orders_at_the_end])
def test_in_the_circuit(tmp_path: Path, kind: Callable[..., list[str]]) -> None:
    assert_circuit_agrees(flow.quantize(flow.read(sketched(kind, tmp_path))))


@pytest.mark.parametrize("number", [0, 1])
def test_an_input_sent_in_a_wrong_order_is_noticed(tmp_path: Path, number: int) -> None:
    model = flow.read(sketched(in_two_orders, tmp_path))
    network = flow.quantize(model)
    inputs = list(network.inputs)
    inputs[number] = replace(inputs[number], order=inputs[number].order[::-1])
    with pytest.raises(UserError, match="golden"):
        compare(model, replace(network, inputs=tuple(inputs)), random_frames(model, 1))
