"""Which ONNX values the tensors of a network hold, and in which order: so golden can be compared with the model.

They are the integers themselves, or numbers that integers stand for and that the model does not name.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256

import numpy as np

from onnx_hw.ir.network import Boundary
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.values import IntegerStream, Real
from onnx_hw.onnx.graph.element_types import BY_NAME


def held_values(builder: Builder, tensors: Collection[str]) -> tuple[Boundary, ...]:
    """Every ONNX value of which one of these tensors has the integers, in the order in which they were lowered.

    Values of one layout share their array of places, of which a network has few different ones.
    """
    layouts: dict[bytes, np.ndarray] = {}
    found = []
    for name, value in builder.values.items():
        if isinstance(value, IntegerStream) and value.tensor in tensors:
            line = None
        elif isinstance(value, Real) and name in builder.snapped and value.tensor in tensors and not value.partial:
            line = (value.spread(value.slope), value.spread(value.offset))
        else:
            continue
        dtype = np.dtype(BY_NAME[builder.graph.values[name].element_type].dtype)
        boundary = builder.boundary(value, name, dtype)
        order = layouts.setdefault(sha256(boundary.order.data).digest(), boundary.order)
        found.append(replace(boundary, order=order, line=line))
    return tuple(found)
