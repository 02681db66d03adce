"""How ONNX operators become hardware: one small function each, grouped by family, found by name.

A lowering reads ``builder.values`` of the node's inputs and sets those of its outputs. It raises ``Obstacle`` when the
node cannot be hardware.
"""

from onnx_hw.lower.ops import (
    activation,
    argmax,
    concat,
    constant_arithmetic,
    conv,
    conv_transpose,
    data_movement,
    lookup,
    matmul,
    minmax,
    pool,
    qdq,
    qonnx,
    reduce,
    reshape,
)
from onnx_hw.lower.ops.registry import LOWERINGS, lowering_of

__all__ = ["LOWERINGS", "lowering_of"]

_FAMILIES = (
    *(activation, constant_arithmetic, argmax, conv, minmax, lookup, qonnx, concat),
    *(reshape, matmul, data_movement, pool, qdq, reduce, conv_transpose),
)
