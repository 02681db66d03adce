"""Operator that decision trees are made of: it says which leaves are reached.

No file contains it; it stands for trees until they are lowered.
"""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import INTERNAL, operator
from onnx_hw.onnx.operators.tensor_type import TensorType


def reached_type(x: TensorType, *constants: TensorType, **_: int) -> TensorType:
    """Infer a number for each leaf of each row."""
    return x.with_shape((x.shape[0], constants[-1].size))


@operator(since=1, domain=INTERNAL, types=reached_type, facts=Facts(Effect.DECIDES, jumps=True))
def ReachedLeaves(
    x: Array, features: Array, thresholds: Array, paths: Array, needs: Array, *, scaled_bits: int = 0
) -> Array:
    """Return 1 for each leaf that a row reaches, else 0: (rows, features) to (rows, leaves).

    Condition c is ``x[features[c]] <= thresholds[c]``. A leaf is reached if the number of true conditions c with
    ``c + 1`` in its row of ``paths``, minus those with ``-(c + 1)``, is at least its number in ``needs``.

    Args:
        paths: (leaves, steps) int64; 0 stands for no condition.
        scaled_bits: bits of the integers that ``x`` is scaled for: multiples of a power of two within -1..1; 0 for
            data of any scale.
    """
    del scaled_bits
    hold((len(x), *paths.shape), np.int8)
    spend(len(x) * paths.size)
    holds = np.column_stack([np.zeros(len(x), bool), x[:, features] <= thresholds])
    counts = (np.sign(paths) * holds[:, np.abs(paths)].astype(np.int64)).sum(2)
    return np.asarray(counts >= needs).astype(x.dtype)
