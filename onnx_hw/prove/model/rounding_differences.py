"""Rounding differences between golden and the model (link 2): differences that are not faults of the lowering.

The reference computes in the model's own floats, golden exactly. So where the exact value lies next to a tie, the one
may round up and the other down, and floats narrower than float32 err by more. Both are judged by double precision: a
golden integer must be one of those that the real value, within ``TIE`` of a step, rounds to. A number of a grid must be
one between those that the same operator makes of the real value less, and more, what the model's floats err by.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.dtypes import dtype_of_name
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.prove.model.segments import SegmentRun

TIE = 1e-3
"""Distance to a tie, in steps, below which either integer is right."""

LAST_BITS = 4
"""Allowed error of a float, in units in the last place: it may be rounded more than once."""


def find_unexplained(pieces: SegmentRun, name: str, node: Node, golden: np.ndarray, off: float = 0.0) -> np.ndarray:
    """Find where golden differs from what the model makes of the same integers and rounding does not explain it.

    Args:
        pieces: run of the model from golden's values.
        name: name of the value.
        node: node that makes it.
        golden: int64, or in the dtype of the model.
        off: allowed error of golden before its last rounding, as the network says: of a float, or in steps.

    Returns:
        mask, bool, in the shape of the value.
    """
    differs = _differs(golden, pieces.computed[name])
    if not differs.any():
        return differs
    if facts_of(node).rounded is not None and golden.dtype.kind in "iu":
        return differs & ~is_rounded(pieces, name, golden, TIE + off)
    if facts_of(node).effect is Effect.PICKS:
        return differs & ~_as_extreme(pieces, node, golden)
    if facts_of(node).effect is Effect.SNAPS:
        return differs & ~_snapped(pieces, name, node, golden)
    if golden.dtype.kind == "f":
        return differs & ~_near(pieces, name, golden, off)
    return differs


def _differs(golden: np.ndarray, computed: np.ndarray) -> np.ndarray:
    if golden.dtype.kind == "f":
        return (golden != computed) & ~(np.isnan(golden) & np.isnan(computed))
    return np.asarray(golden != computed)


def is_rounded(pieces: SegmentRun, name: str, golden: np.ndarray, tie: float) -> np.ndarray:
    """Find where an integer is the rounded real value; next to a jump of a function, the value on either side.

    Where sums cancel, even double precision is off: as far as it may be, the real value may lie on either side.
    """
    limits = _limits(pieces, name)
    real = np.clip(pieces.in_double([name])[name], *limits)
    right = np.abs(golden - real) <= 0.5 + tie
    if right.all():
        return right
    sides = [np.clip(pieces.in_double([name], nudge)[name], *limits) for nudge in (-1.0, 1.0)]
    low, high = np.minimum(*sides), np.maximum(*sides)
    return right | ((golden >= low - 0.5 - tie) & (golden <= high + 0.5 + tie))


def _snapped(pieces: SegmentRun, name: str, node: Node, golden: np.ndarray) -> np.ndarray:
    """Find where a number of a grid is what the operator, which is monotone, makes of the real value, or next to it."""
    data, result = node.inputs[0], pieces.graph.values[name]
    real, error = pieces.real(data)
    eps = float(ml_dtypes.finfo(dtype_of_name(result.element_type)).eps)  # type: ignore[no-untyped-call]
    error = error + LAST_BITS * eps * np.abs(real)
    others = [pieces.constant(other) for other in node.inputs[1:]]
    low, high = (compute(node, [real + side * error, *others])[0] for side in (-1, 1))
    last_bits = LAST_BITS * eps * np.abs(golden).astype(np.float64)
    return np.asarray((golden >= low - last_bits) & (golden <= high + last_bits))


def _limits(pieces: SegmentRun, name: str) -> tuple[int, int]:
    """Return the least and the greatest integer of a value."""
    element_type = pieces.graph.values[name].element_type
    dtype = Int(int(element_type.removeprefix("u").removeprefix("int")), signed=not element_type.startswith("u"))
    return dtype.min, dtype.max


def _as_extreme(pieces: SegmentRun, node: Node, golden: np.ndarray) -> np.ndarray:
    """Find where the index of an extreme is that of another, equally extreme element."""
    if pieces.is_exact(node.inputs[0]):
        return np.zeros(golden.shape, dtype=bool)
    data = pieces.in_double([node.inputs[0]])[node.inputs[0]]
    axis = int(node.attributes.get("axis", 0)) % data.ndim
    index = golden if node.attributes.get("keepdims", 1) else np.expand_dims(golden, axis)
    chosen = np.take_along_axis(data, np.clip(index, 0, data.shape[axis] - 1), axis)
    best = (data.max if node.op_type == "ArgMax" else data.min)(axis=axis, keepdims=True)
    right = (np.abs(best - chosen) <= 2 * pieces.noise(node.inputs[0])) & (index >= 0) & (index < data.shape[axis])
    return right.reshape(golden.shape)


def _near(pieces: SegmentRun, name: str, golden: np.ndarray, off: float) -> np.ndarray:
    """Find where a float is the real value but for its own rounding and that of the model's own floats."""
    real = pieces.in_double([name])[name]
    dtype = dtype_of_name(pieces.graph.values[name].element_type)
    last_bits = LAST_BITS * float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    allowed = pieces.noise(name) + off
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(golden - real) <= allowed + last_bits * np.abs(real))
