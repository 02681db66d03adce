"""Error bound of a sum of products in double precision, where its terms cancel each other; used by link 2.

A sum of n terms computed in floats of unit roundoff u, in whatever order, is off by at most γ·Σ|terms| with
γ = n·u / (1 − n·u) (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2). Every rounding
of a term counts as one more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect

UNIT = 2.0**-53
"""Roundoff of double precision."""

ROUNDINGS_PER_TERM = 4
"""Roundings of a term: its two factors, their product, and a factor of the whole sum."""


def sums_products(node: Node) -> bool:
    """Say whether a node adds up products, and does nothing else to them."""
    return facts_of(node).effect is Effect.SUMS and facts_of(node).macs is not None


def sum_error(node: Node, inputs: Sequence[np.ndarray | None]) -> np.ndarray:
    """Return the error bound of a node that sums products, float64 in the shape of its result; 0 where it is not
    finite.

    Args:
        inputs: operands, float64; None for one that is left out.
    """
    factors = {name: abs(node.attributes[name]) for name in ("alpha", "beta") if name in node.attributes}
    (sizes, *_) = compute(
        replace(node, attributes={**node.attributes, **factors}), [None if x is None else np.abs(x) for x in inputs]
    )
    plain = replace(node, attributes={key: value for key, value in node.attributes.items() if key not in factors})
    (terms, *_) = compute(plain, [None if x is None else np.ones(x.shape) for x in inputs])
    roundings = (terms + ROUNDINGS_PER_TERM) * UNIT
    bound = roundings / (1 - roundings) * sizes
    return np.where(np.isfinite(bound), bound, 0.0)
