"""Operators with a stream in another order: the same values, in the order that each of their streams then has."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.step_function import steps
from onnx_hw.ops.add import Add
from onnx_hw.ops.argmax import ArgMax
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.requantize import Requantize, Staircase
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window

RANDOM = np.random.default_rng(0)
IMAGE = Tensor((3, 4, 6), Int(4))
GRID = Grid.over(Int(4), 3, -1)
HALVES = tuple(Fraction(1 + k % 2) for k in range(6))
ALL = tuple(Fraction(1 + k) for k in range(6))

OPERATORS: dict[str, Operator] = {
    "add": Add(IMAGE, IMAGE, (2, -3)),
    "multiply": Multiply(IMAGE, IMAGE, (1, -2)),
    "lookup": Lookup(IMAGE, RANDOM.integers(-8, 8, (1, 16)), Int(4)),
    "lookup per channel": Lookup(IMAGE, RANDOM.integers(-8, 8, (6, 16)), Int(4)),
    "requantize": Requantize(IMAGE, (Fraction(5, 2),), (Fraction(1),), GRID),
    "requantize two kinds": Requantize(IMAGE, HALVES, (Fraction(1),), GRID),
    "requantize per channel": Requantize(IMAGE, ALL, ALL, GRID),
    "staircase per channel": Staircase(IMAGE, steps(ALL, ALL, GRID, -8, 7), Int(4)),
    "concat rows": Concat((IMAGE, Tensor((2, 4, 6), Int(4))), 0),
    "concat columns": Concat((IMAGE, Tensor((3, 1, 6), Int(4)), IMAGE), 1),
    "concat channels": Concat((IMAGE, Tensor((3, 4, 2), Int(4))), 2),
    "matmul": MatMul(IMAGE, RANDOM.integers(-9, 9, (5, 6))),
    "matmul with weights that come": MatMul(IMAGE, Tensor((1, 5, 6), Int(4))),
    "matmul of a vector": MatMul(Tensor((1, 1, 12), Int(4)), RANDOM.integers(-9, 9, (5, 12))),
    "sum": Reduce(IMAGE, "sum"),
    "maximum": Reduce(IMAGE, "max"),
    "window": Window(IMAGE, (2, 2), (1, 2), (1, 0, 0, 0), pad_value=3),
    "pool": Pool(IMAGE, "max", (2, 2), (2, 2)),
    "depthwise": Depthwise(IMAGE, RANDOM.integers(-9, 9, (6, 2, 2))),
    "two kernels a channel": Depthwise(IMAGE, RANDOM.integers(-9, 9, (12, 2, 1))),
    "argmax": ArgMax(IMAGE),
}


def drawn_orders(shape: tuple[int, int, int], random: np.random.Generator) -> list[Permutation]:
    """Of everything, of axes, of pixels, of channels, of blocks of channels, another shape; what is there already."""
    height, width, channels = shape
    places = np.arange(height * width * channels).reshape(shape)
    turned = places.transpose(0, 2, 1)
    some, pixels = random.permutation(channels), random.permutation(height * width)
    half = np.roll(np.arange(channels).reshape(2, -1), 1, axis=0).reshape(-1) if channels % 2 == 0 else some
    return [
        Permutation(shape, random.permutation(places.size)),
        Permutation(tuple(int(n) for n in turned.shape), turned.reshape(-1)),  # type: ignore[arg-type]
        Permutation(shape, places[:, :, some].reshape(-1)),
        Permutation(shape, places[:, :, half].reshape(-1)),
        Permutation((1, height * width, channels), places.reshape(-1, channels)[pixels].reshape(-1)),
        Permutation((1, height * width, channels), places.reshape(-1, channels)[pixels][:, some].reshape(-1)),
        Permutation((1, 1, places.size), places.reshape(-1)),
        Permutation((width, height, channels), places.reshape(-1)),
    ]


HAVE_NONE = ("argmax",)


@pytest.mark.parametrize("name", OPERATORS)
def test_the_same_values_in_the_order_of_each_stream(name: str) -> None:
    operator, random, found = OPERATORS[name], np.random.default_rng(1), 0
    given, made = (dict(zip(ports, types, strict=True)) for ports, types in (
        (operator.inputs, operator.operands()), (operator.outputs, operator.results())))  # fmt: skip
    frames = [random.integers(-8, 8, (2, *operand.shape)) for operand in given.values()]
    results = operator.golden(*frames)
    for port, tensor in {**given, **made}.items():
        for order in drawn_orders(tensor.shape, random):
            answer = operator.reordered(port, order)
            if answer is None:
                continue
            other, orders = answer
            found += 1
            assert orders[port].alike(order)
            frames_then = [orders[p](frame) if p in orders else frame for p, frame in zip(given, frames, strict=True)]
            results_then = [orders[p](array) if p in orders else array for p, array in zip(made, results, strict=True)]
            assert [t.shape for t in other.operands()] == [frame.shape[1:] for frame in frames_then]
            assert [(t.dtype, t.range) for t in other.results()] == [(t.dtype, t.range) for t in operator.results()]
            for result, wanted in zip(other.golden(*frames_then), results_then, strict=True):
                assert np.array_equal(result, wanted), (port, order)
    assert bool(found) == (name not in HAVE_NONE)


@pytest.mark.parametrize(
    ("name", "port", "count"),
    [
        ("add", "a", 8),
        ("requantize", "o", 8),
        ("requantize two kinds", "i", 6),
        ("requantize per channel", "i", 6),
        ("matmul", "i", 5),
        ("matmul", "o", 5),
        ("matmul with weights that come", "w", 4),
        ("matmul of a vector", "i", 7),
        ("sum", "i", 5),
        ("concat channels", "o", 3),
        ("window", "i", 2),
        ("pool", "o", 2),
        ("two kernels a channel", "o", 1),
        ("depthwise", "i", 2),
    ],
)
def test_how_many_of_the_drawn_orders_an_operator_has(name: str, port: str, count: int) -> None:
    operator = OPERATORS[name]
    tensors = dict(zip((*operator.inputs, *operator.outputs), (*operator.operands(), *operator.results()), strict=True))
    orders = drawn_orders(tensors[port].shape, np.random.default_rng(4))
    assert sum(operator.reordered(port, order) is not None for order in orders) == count
