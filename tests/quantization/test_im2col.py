"""Columns of a product at every n-th place: those of all places, without making the others; samples that fit memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from onnx_hw.onnx.graph.model import Graph, Node, Value
from onnx_hw.quantization.im2col import im2col, rows_of
from onnx_hw.quantization.ranges import batched_run
from onnx_hw.quantization.ranges.batched_run import held_elements, pick_samples


def conv(**attributes: object) -> Node:
    return Node("", "Conv", "", 13, ("x", "w"), ("y",), attributes)


@pytest.mark.parametrize("stride", [1, 2, 5, 100])
def test_every_nth_row(stride: int) -> None:
    """Two images of three channels; a row has the numbers under the kernel, channel by channel."""
    random = np.random.default_rng(1)
    data, weights = random.normal(size=(2, 4, 7, 6)).astype(np.float32), np.zeros((6, 2, 3, 2), np.float32)
    node = conv(kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1], group=2)
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (0, 1)))
    every = [
        padded[image, :, 2 * row : 2 * row + 3, column : column + 2].reshape(2, -1)
        for image in range(2)
        for row in range(4)
        for column in range(6)
    ]
    shape = (2, 6, 4, 6)
    assert rows_of(node, data, shape) == len(every) == 48
    found = im2col(node, data, weights, shape, stride)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.stack(every[::stride], axis=1))


def test_other_rows_take_no_memory() -> None:
    data, weights = np.ones((1, 8, 200, 200), np.float32), np.ones((4, 8, 3, 3), np.float32)
    tracemalloc.start()
    found = im2col(conv(kernel_shape=[3, 3], pads=[1] * 4), data, weights, (1, 4, 200, 200), 40)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.shape == (1, 1000, 72)
    assert peak < 8 * data.nbytes  # all rows would take 18 times as much again


def test_held_elements() -> None:
    """x and a, each of 12; a and b; then a, b and their sum c."""
    values = {name: Value(name, "float", (3, 4)) for name in "xabc"}
    nodes = [Node("", "Relu", "", 13, ("x",), ("a",)), Node("", "Neg", "", 13, ("a",), ("b",))]
    nodes.append(Node("", "Add", "", 13, ("a", "b"), ("c",)))
    graph = Graph("g", tuple(nodes), (values["x"],), (values["c"],), {}, values)
    assert held_elements(graph) == 36
    samples = {"x": np.zeros((1000, 3, 4), np.float32)}
    assert len(pick_samples(samples, graph)) == 250  # every fourth, of which there are at most 256
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched_run, "MAX_HELD_ELEMENTS", 36 * 50)
        assert len(pick_samples(samples, graph)) == 50
