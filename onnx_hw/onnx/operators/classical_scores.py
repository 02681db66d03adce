"""Transforms of the scores of classical models: the attribute ``post_transform`` of ``ai.onnx.ml``.

ONNX names them without formulas; these are onnxruntime's, with its approximation of the inverse error function.
"""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.softmax import softmax

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

ZERO = 1e-7
"""Greatest magnitude of a score that SOFTMAX_ZERO takes for zero."""

PROBIT_FACTOR = 0.147
"""Factor in Winitzki's approximation of the inverse error function."""


def transformed(scores: Array, post_transform: str) -> Array:
    """Transform scores, (rows, classes) float32; of one class only PROBIT has an effect, as in onnxruntime.

    Raises:
        ValueError: there is no such transform.
    """
    check_transform(post_transform)
    if post_transform == "PROBIT":
        return _probit(scores)
    if scores.shape[1] == 1 or post_transform == "NONE":
        return scores
    if post_transform == "SOFTMAX":
        return softmax(scores, (1,))
    return _logistic(scores) if post_transform == "LOGISTIC" else _softmax_zero(scores)


def of_two_classes(scores: Array, post_transform: str) -> Array:
    """Return the scores of both classes from one score, (rows, 1): ``1 - s`` and ``s``, or their logistic values.

    Raises:
        ValueError: the transform needs a score for each class, or is not known.
    """
    check_transform(post_transform)
    if post_transform == "PROBIT":
        raise ValueError("PROBIT must have coefficients for each of the two classes")
    if post_transform == "LOGISTIC":
        return _logistic(np.concatenate([-scores, scores], 1))
    return np.concatenate([1 - scores, scores], 1)


def check_transform(post_transform: str) -> None:
    """Check the name of a transform.

    Raises:
        ValueError: there is no such transform.
    """
    if post_transform not in TRANSFORMS:
        raise ValueError(f"post_transform must be one of {', '.join(TRANSFORMS)}, not {post_transform}")


def _logistic(scores: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-scores)), scores.dtype)


def _softmax_zero(scores: Array) -> Array:
    """Return Softmax over the scores that are not zero; zeros stay what they are, but are NaN where all are zero."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    some = np.abs(scores) > ZERO
    sums = np.where(some, powers, 0).sum(1, keepdims=True)
    return np.asarray(np.where(some, powers, scores) / sums, scores.dtype)


def _probit(scores: Array) -> Array:
    """Return ``sqrt(2) * erfinv(2 s - 1)``, the inverse error function by Winitzki's formula."""
    x = 2 * scores - 1
    logarithm = np.log((1 - x) * (1 + x))
    v = np.float32(2 / (np.pi * PROBIT_FACTOR)) + logarithm / 2
    y = np.sqrt(np.sqrt(v * v - logarithm / np.float32(PROBIT_FACTOR)) - v)
    return np.asarray(np.sqrt(np.float32(2)) * np.where(x < 0, -y, y), scores.dtype)
