"""Integers of a value by any quantizer: one grid, grids or thresholds per channel, rising or falling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.lower.network_builder import IntegerStream, LoweredValue, NetworkBuilder
from onnx_hw.lower.quantizers import Quantizer
from onnx_hw.lower.values.function_table import integers_of_function
from onnx_hw.onnx.graph.model import Node


def quantized_by(builder: NetworkBuilder, node: Node, value: LoweredValue, quantizer: Quantizer) -> IntegerStream:
    """Build the integers that stand for a value; raise ``Obstacle`` where hardware cannot do that."""
    if quantizer.falls and not value.quantizes_inside:
        return _falling(builder, node, value, quantizer)
    if quantizer.has_one_grid:
        return value.quantized(builder, node, quantizer.one_grid())
    return value.quantized_in_steps(builder, node, quantizer)


def _falling(builder: NetworkBuilder, node: Node, value: LoweredValue, quantizer: Quantizer) -> IntegerStream:
    """Build the integers of falling thresholds.

    Sums of products are negated; other values get rising thresholds, and a table behind them reverses the integers.
    """
    negated = value.negated(builder, node)
    if negated is not None:
        return negated.quantized_in_steps(builder, node, quantizer.for_negated_data())
    counts = quantized_by(builder, node, value, replace(quantizer, falls=False))
    assert quantizer.high is not None  # the number of thresholds

    def downwards(counted: np.ndarray) -> np.ndarray:
        return (quantizer.high - counted).astype(np.int64)

    names = {"name": f"{node.label}/falling", "output": f"{node.outputs[0]}/falling"}
    return integers_of_function(builder, node, counts, downwards, quantizer.dtype, rises=False, **names)
