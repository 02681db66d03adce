"""BatchNormalization for inference as a factor and a term per channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_hw.onnx.graph.model import Node


def is_training(node: Node) -> bool:
    """Say whether the node computes statistics of its own."""
    return bool(node.attributes.get("training_mode", 0)) or any(node.outputs[1:])


def factor_and_term(node: Node, numbers: Sequence[np.ndarray], rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (factor, term) of ``y = factor · x + term``, both float64, to be broadcast to data of a rank.

    Args:
        numbers: scale, bias, mean and variance, (channels,) each.
            rank: number of axes of the data.
    """
    scale, bias, mean, variance = (np.asarray(array, dtype=np.float64).reshape(-1) for array in numbers)
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN and infinities are refused where they are used
        factor = scale / np.sqrt(variance + float(np.float32(node.attributes.get("epsilon", 1e-5))))
        term = bias - mean * factor
    along = (-1,) + (1,) * (rank - 2)
    return factor.reshape(along), term.reshape(along)
