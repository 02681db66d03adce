"""Negation of the sums of a product by its weights, which needs no hardware."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.lower.network_builder import NetworkBuilder
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce


def signed_product(builder: NetworkBuilder, node: Node, tensor: str, signs: np.ndarray) -> str | None:
    """Build a product, or a sum of its results, with a sign per channel; return the name of its tensor.

    None where the tensor does not come from a product with constant weights. The original product is not built unless
    another node needs it.

    Args:
        tensor: name of the tensor of the product or of the sum.
        signs: (channels,) integers, 1 or −1.
    """
    producer = next((candidate for candidate in builder.nodes if candidate.outputs == (tensor,)), None)
    if producer is None:
        return None
    match producer.operator:
        case (MatMul() | Depthwise()) as product if isinstance(product.weights, np.ndarray):
            weights = product.weights
            opposite: Operator = replace(product, weights=weights * signs.reshape(-1, *[1] * (weights.ndim - 1)))
            inputs = producer.inputs
        case (Pool(kind="sum") | Reduce(kind="sum")) as total:
            before = None if _counts_pads(total) else signed_product(builder, node, producer.inputs[0], signs)
            if before is None:
                return None
            opposite, inputs = replace(total, operand=builder.tensors[before]), (before,)
        case _:
            return None
    return builder.add(f"{producer.name}/turned", opposite, inputs, node)


def _counts_pads(operator: Pool | Reduce) -> bool:
    """Return whether pads are summed up, too: their sign would not change."""
    return isinstance(operator, Pool) and any(operator.pads) and operator.pad_value != 0
