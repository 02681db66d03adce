"""Operators that compositions of comparisons and Where are made of: their conditions are the real numbers 0 and 1.

No file contains them; they stand for comparisons until these are lowered.
"""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import INTERNAL, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, broadcast, broadcast_shape, same_dtype


def select_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    """Infer the common shape of the condition and both operands."""
    return TensorType(same_dtype(x, y), broadcast_shape(condition, x, y))


@operator(since=1, domain=INTERNAL, types=broadcast, facts=Facts(Effect.BENDS, jumps=True, compares=True))
def Exceeds(a: Array, b: Array, *, or_equal: int = 0) -> Array:
    """Return 1 where a is greater than b, or at least b, else 0."""
    return np.asarray(a >= b if or_equal else a > b).astype(a.dtype)


@operator(since=1, domain=INTERNAL, types=select_type, facts=Facts(Effect.JOINS))
def Select(condition: Array, x: Array, y: Array) -> Array:
    """Return x where the condition is 1, and y where it is 0."""
    return np.where(condition > 0.5, x, y)
