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
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.element_types import BY_NAME


def held_values(builder: Builder, tensors: Collection[str]) -> tuple[Boundary, ...]:
    """Every ONNX value of which one of these tensors has the integers, in the order in which they were lowered.

    Values of one layout share their array of places, of which a network has few different ones.
    """
    layouts: dict[bytes, np.ndarray] = {}
    found = []
    for name, value in builder.values.items():
        if value.tensor not in tensors:
            continue
        if value.is_integers:
            line = None
        elif (real := Real.cast(value)) is not None and name in builder.snapped and not real.partial:
            line = (real.broadcast(real.slope), real.broadcast(real.offset))
        else:
            continue
        dtype = np.dtype(BY_NAME[builder.graph.values[name].element_type].dtype)
        boundary = builder.boundary(value, name, dtype)
        order = layouts.setdefault(sha256(boundary.order.data).digest(), boundary.order)
        found.append(replace(boundary, order=order, line=line))
    return tuple(found)
