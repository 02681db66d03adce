"""Products as matrix products (im2col): the columns that the weights of an output are multiplied with."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.lower.kernel import kernel_of
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect


def is_matrix_product(node: Node) -> bool:
    """Say whether a product has columns: the weights are a matrix, or kernels one after the other."""
    place = facts_of(node).weights
    return facts_of(node).effect is Effect.SUMS and place is not None and (_is_matrix(node) or place.axis == 0)


def _is_matrix(node: Node) -> bool:
    place = facts_of(node).weights
    return place is not None and place.rank == 2


def rows_of(node: Node, data: np.ndarray, result: tuple[int, ...]) -> int:
    """Return the number of rows of a product: the places of its result."""
    if not _is_matrix(node):
        return len(data) * prod(result[2:])
    return data.size // max(1, data.shape[0 if node.attributes.get("transA", 0) else -1])


def im2col(node: Node, data: np.ndarray, weights: np.ndarray, result: tuple[int, ...], stride: int = 1) -> np.ndarray:
    """Return the columns of a product, (groups, rows, columns) float64, one row per place of the result.

    Args:
        result: shape of the result.
        stride: distance between the rows that are wanted; the others, which may be millions, are not made.

    Raises:
        Obstacle: hardware has no such windows.
    """
    if not _is_matrix(node):
        count = prod(result[2:])
        places = (np.arange(-(k * count) % stride, count, stride) for k in range(len(data)))
        return np.concatenate(
            [_windows(node, image, weights, result, some) for image, some in zip(data, places, strict=True)], axis=1
        )
    numbers = data.T if node.attributes.get("transA", 0) else data
    rows = numbers.reshape(1, -1, numbers.shape[-1])[:, ::stride].astype(np.float64)
    return float(node.attributes.get("alpha", 1.0)) * rows


def weight_matrix(node: Node, weights: np.ndarray) -> np.ndarray:
    """Return weights as a matrix, (groups, outputs of a group, columns); outputs are in order."""
    if not _is_matrix(node):
        group = int(node.attributes.get("group", 1))
        return weights.reshape(group, len(weights) // group, -1)
    return (weights if node.attributes.get("transB", 0) else weights.T)[None]


def matrix_to_weights(node: Node, matrix: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return a matrix in the shape of the weights ``like``."""
    turned = _is_matrix(node) and not node.attributes.get("transB", 0)
    return (matrix[0].T if turned else matrix).reshape(like.shape)


def _windows(
    node: Node, image: np.ndarray, weights: np.ndarray, result: tuple[int, ...], places: np.ndarray
) -> np.ndarray:
    """Return the windows of one image, (channels, ...), at some places of the result, as (groups, places, columns)."""
    size = weights.shape[2:]
    image = image.reshape(len(image), *(1,) * (2 - len(size)), *image.shape[1:])
    kernel = kernel_of(node, size, image.shape[1:], result[2:])
    top, left, bottom, right = kernel.pads
    padded = np.pad(image, ((0, 0), (top, bottom), (left, right)))
    (rows, columns), (down, along), (apart, beside) = kernel.size, kernel.strides, kernel.dilations
    row, column = np.divmod(places, result[-1])
    taken = [
        padded[:, r * apart + row * down, c * beside + column * along] for r in range(rows) for c in range(columns)
    ]
    group = int(node.attributes.get("group", 1))
    channels, taps = len(image) // group, rows * columns
    by_place = np.stack(taken, -1).astype(np.float64).reshape(group, channels, len(places), taps)
    return by_place.transpose(0, 2, 1, 3).reshape(group, len(places), channels * taps)
