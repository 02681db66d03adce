"""Softmax over the places that a mask shows; compositions of attention are made of it.

No file contains it; it stands for a Softmax of numbers to which a constant adds minus infinity in hidden places.
"""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import INTERNAL, operator
from onnx_hw.onnx.operators.softmax import softmax
from onnx_hw.onnx.operators.tensor_type import like_first


@operator(since=1, domain=INTERNAL, types=like_first, facts=Facts(Effect.NORMALIZES, along_axis=True))
def MaskedSoftmax(x: Array, shown: Array, *, axis: int = -1) -> Array:
    """Apply Softmax along the axis, as if the places where ``shown`` is False did not exist; their result is 0.

    At least one place of each row must be shown.
    """
    return softmax(np.where(shown, x, x.dtype.type(-np.inf)), (axis % x.ndim,))
