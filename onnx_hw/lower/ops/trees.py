"""Decision trees: conditions, and for each leaf the sum of those on the way to it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import fractions
from onnx_hw.exact.step_function import Steps
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.registry import INTERNAL
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.requantize import Staircase
from onnx_hw.ops.tensor import Tensor

BIT = Int(1, signed=False)


@lowers("ReachedLeaves", domains=[INTERNAL])
def reached_leaves(builder: Builder, node: Node) -> None:
    """Compare the features of one row with thresholds, add up the conditions of each leaf, and compare the sums.

    ``x <= t`` for ``x = slope · q + offset`` is exactly ``q <= floor((t - offset) / slope)``.
    """
    features, thresholds, paths, needs = (builder.constant(name) for name in node.inputs[1:5])
    assert features is not None and thresholds is not None and paths is not None and needs is not None
    real = builder.real(node)
    if real.shape[0] != 1 or len(real.shape) != 2:
        raise Obstacle("rank", f"the data of a tree must be one row, not {list(real.shape)}", "bind the batch to 1")
    if real.is_clipped or not real.has_one_scale:
        raise builder.obstacle(node)
    rows = builder.placed(real, features[None], node)
    stream, order = builder.vector(rows, node)  # stream position -> condition
    if len(order) != len(features):
        raise builder.obstacle(node)
    bits = _compared(builder, node, real, stream, thresholds[order])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    counts = _counted(builder, node, bits, place, paths)
    # a bit says that a condition fails: those that count make their number less
    least = needs - np.sign(paths).sum(1)
    result = _at_least(builder, node, counts, least)
    leaves = len(needs)
    builder.values[node.outputs[0]] = Real(result, (1, leaves), np.arange(leaves), (Fraction(1),), (Fraction(0),))


def _compared(builder: Builder, node: Node, real: Real, stream: str, thresholds: np.ndarray) -> str:
    """Add the bits of failed conditions, one per channel: 1 where the number exceeds the threshold."""
    (slope,), (offset,) = set(real.slope), set(real.offset)
    highest = [(threshold - offset) / slope for threshold in fractions(thresholds)]
    return _at_least(builder, node, stream, np.array([number.__floor__() + 1 for number in highest], dtype=object))


def _counted(builder: Builder, node: Node, bits: str, place: np.ndarray, paths: np.ndarray) -> str:
    """Add the sum for each leaf: minus the bits of conditions that count, plus those of conditions that count against.

    Args:
        place: channel of each condition.
        paths: (leaves, steps) conditions.
    """
    leaves, steps = paths.shape
    source = np.where(paths == 0, -1, place[np.maximum(np.abs(paths) - 1, 0)]).T.reshape(-1)
    spread = Rearrange(builder.tensors[bits], (1, steps, leaves), source)
    along = builder.add(f"{node.label}/paths", spread, [bits], node)
    weights = -np.sign(paths).reshape(leaves, 1, steps)
    return builder.add(f"{node.label}/sums", Depthwise(builder.tensors[along], weights), [along], node)


def _at_least(builder: Builder, node: Node, stream: str, least: np.ndarray) -> str:
    """Add a bit per channel that is 1 where the integer is at least a number of the channel."""
    tensor: Tensor = builder.tensors[stream]
    first, last = tensor.range
    thresholds = np.array([[min(max(number, first), last + 1)] for number in least], dtype=np.int64)
    steps = Staircase(tensor, Steps(first, last, 0, 1, thresholds), BIT)
    return builder.add(f"{node.label}/steps", steps, [stream], node)
