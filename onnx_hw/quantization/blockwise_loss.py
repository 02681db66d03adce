"""Loss of weights in blocks that get one scale per output."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.canonicalize.blockwise_weights import Blocks, blocks_of, is_blocked
from onnx_hw.onnx.graph.model import Model
from onnx_hw.quantization.scheme import Precision


def loss_of_one_piece(model: Model, precision: Precision) -> dict[str, float]:
    """Return the SQNR, in dB, of weights in blocks without a common scale, rounded to nearest, by node label.

    Args:
        precision: of the integers that they get.
    """
    blocks = {node.label: blocks_of(model.graph, node) for node in model.graph.nodes if is_blocked(node)}
    return {label: _sqnr_db(each, precision) for label, each in blocks.items() if each and each.in_one_piece() is None}


def _sqnr_db(blocks: Blocks, precision: Precision) -> float:
    """Return the SQNR, in dB, of integers with one scale per output."""
    weights = blocks.counts * blocks.steps
    axis = next((k for k in range(weights.ndim) if k != blocks.axis), 0)
    grid = precision.of_weights(weights.astype(np.float32), axis)
    steps = np.array([float(step) for step in grid.step]).reshape([-1 if k == axis else 1 for k in range(weights.ndim)])
    noise = ((grid.integers(weights.astype(np.float32), axis) * steps - weights) ** 2).sum()
    return float(10 * np.log10(max((weights**2).sum(), 1e-300) / max(noise, 1e-300)))
