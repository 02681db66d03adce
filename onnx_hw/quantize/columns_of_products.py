"""Products as matrix products: the columns that the weights of an output are multiplied with."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.lower.windows import kernel_of

KINDS = frozenset(("Conv", "MatMul", "Gemm"))
"""Of other products weights are rounded one by one."""


def is_matrix_product(node: Node) -> bool:
    """Whether there are columns."""
    return not node.domain and node.op_type in KINDS


def columns_of(node: Node, data: np.ndarray, weights: np.ndarray, result: tuple[int, ...]) -> np.ndarray:
    """(groups, rows, columns) of float64, one row per place of the result.

    Args:
        result: its shape.

    Raises:
        Obstacle: hardware has no such windows.
    """
    numbers = data.astype(np.float64)
    if node.op_type == "Conv":
        return _windows(node, numbers, weights, result)
    if node.attributes.get("transA", 0):
        numbers = numbers.T
    return float(node.attributes.get("alpha", 1.0)) * numbers.reshape(1, -1, numbers.shape[-1])


def matrix_of(node: Node, weights: np.ndarray) -> np.ndarray:
    """(groups, outputs of a group, columns); outputs are in order."""
    if node.op_type == "Conv":
        group = int(node.attributes.get("group", 1))
        return weights.reshape(group, len(weights) // group, -1)
    return (weights if node.attributes.get("transB", 0) else weights.T)[None]


def weights_of(node: Node, matrix: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A matrix in the shape of the weights."""
    turned = node.op_type != "Conv" and not node.attributes.get("transB", 0)
    return (matrix[0].T if turned else matrix).reshape(like.shape)


def _windows(node: Node, data: np.ndarray, weights: np.ndarray, result: tuple[int, ...]) -> np.ndarray:
    (image,), size = data, weights.shape[2:]
    image = image.reshape(len(image), *(1,) * (2 - len(size)), *image.shape[1:])
    kernel = kernel_of(node, size, image.shape[1:], result[2:])
    top, left, bottom, right = kernel.pads
    padded = np.pad(image, ((0, 0), (top, bottom), (left, right)))
    (rows, columns), (down, along), (apart, beside) = kernel.size, kernel.strides, kernel.dilations
    height, width = (1, *result[2:])[-2:]
    taken = [
        padded[:, r * apart :: down, c * beside :: along][:, :height, :width]
        for r in range(rows)
        for c in range(columns)
    ]
    group = int(node.attributes.get("group", 1))
    by_place = np.stack(taken, -1).reshape(group, len(image) // group, height * width, rows * columns)
    return by_place.transpose(0, 2, 1, 3).reshape(group, height * width, -1)


def _kernels(node: Node, weights: np.ndarray) -> np.ndarray:
    group = int(node.attributes.get("group", 1))
    return weights.reshape(group, len(weights) // group, -1)
