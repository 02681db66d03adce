"""Which ONNX values the tensors of a network hold, and in which order: so golden can be compared with the model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256

import numpy as np

from onnx_hw.network import Boundary
from onnx_hw.onnx.element_types import BY_NAME
from onnx_hw.quantize.builder import Builder
from onnx_hw.quantize.values import Integers


def held_values(builder: Builder, tensors: Collection[str]) -> tuple[Boundary, ...]:
    """Every ONNX value that is the integers of one of these tensors, in the order in which they were lowered.

    Values of one layout share their array of places, of which a network has few different ones.
    """
    layouts: dict[bytes, np.ndarray] = {}
    found = []
    for name, value in builder.values.items():
        if isinstance(value, Integers) and value.tensor in tensors:
            dtype = np.dtype(BY_NAME[builder.graph.values[name].element_type].dtype)
            boundary = builder.boundary(value, name, dtype)
            order = layouts.setdefault(sha256(boundary.order.data).digest(), boundary.order)
            found.append(replace(boundary, order=order))
    return tuple(found)
