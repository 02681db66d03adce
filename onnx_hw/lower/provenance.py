"""Provenance of the tensors of a network: their ONNX values, and the order of the elements.

Golden is compared with the model by it. A tensor holds the integers of an ONNX value, or integers that the model does
not name and that stand for real numbers of an ONNX value.
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


def provenance_of(builder: Builder, tensors: Collection[str]) -> tuple[Boundary, ...]:
    """Return the ONNX values whose integers are in these tensors, in the order in which the values were lowered.

    Values with the same order share one array, since a network has few different orders.

    Args:
        tensors: names of the tensors.
    """
    layouts: dict[bytes, np.ndarray] = {}
    boundaries = []
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
        boundaries.append(replace(boundary, order=order, line=line))
    return tuple(boundaries)
