"""Float models with other weights: what another training of the same graph gives."""

from __future__ import annotations

import numpy as np

import onnx
from onnx import numpy_helper


def retrained(model: onnx.ModelProto, seed: int, spread: float = 0.2) -> onnx.ModelProto:
    """Return a copy whose float weights are scaled channel by channel and moved, by random numbers."""
    copy, random = onnx.ModelProto.FromString(model.SerializeToString()), np.random.default_rng(seed)
    for stored in copy.graph.initializer:
        array = numpy_helper.to_array(stored)
        if array.dtype == np.float32 and array.ndim:
            scales = np.exp(random.normal(0, spread, (len(array), *[1] * (array.ndim - 1))))
            moved = array * scales + random.normal(0, spread * (array.std() + 0.01), array.shape)
            stored.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), stored.name))
    return copy
