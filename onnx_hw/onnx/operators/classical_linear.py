"""Linear models of ``ai.onnx.ml``: LinearClassifier and LinearRegressor."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.allowance import spend
from onnx_hw.onnx.operators.classical_features import DOMAIN
from onnx_hw.onnx.operators.classical_scores import of_two_classes, transformed
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.macs import known_type
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, Types


def linear_macs(node: Node, inputs: Types, _: Types) -> int:
    """Count one for each coefficient and row."""
    rows = row_shape(known_type(inputs, 0).shape)[0]
    return rows * len(node.attributes.get("coefficients", ()))


def row_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape of data as a matrix, one row per sample; one axis is one row.

    Raises:
        ValueError: it has no axis, or more than two.
    """
    if len(shape) not in (1, 2):
        raise ValueError(f"the data must have one or two axes, not the shape {list(shape)}")
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def regressor_type(x: TensorType, *, coefficients: Floats | None = None, targets: int = 1, **_: Any) -> TensorType:
    rows, columns = row_shape(x.shape)
    if len(coefficients or ()) != columns * targets:
        raise ValueError(f"there must be {columns} coefficients for each of {targets} targets")
    return TensorType(np.dtype(np.float32), (rows, targets))


@operator(since=1, domain=DOMAIN, types=regressor_type, facts=Facts(Effect.SUMS, linear_macs))
def LinearRegressor(
    x: Array,
    *,
    coefficients: Floats | None = None,
    intercepts: Floats | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Array:
    return transformed(scores_of(x, coefficients or (), intercepts or (), targets), post_transform)


def classifier_type(
    x: TensorType,
    *,
    coefficients: Floats,
    intercepts: Floats | None = None,
    classlabels_ints: Ints | None = None,
    classlabels_strings: Strings | None = None,
    **_: Any,
) -> tuple[TensorType, TensorType]:
    rows, columns = row_shape(x.shape)
    labels = check_counts(columns, coefficients, intercepts, classlabels_strings or classlabels_ints)
    kind: Any = np.dtype(object) if classlabels_strings else np.int64
    return TensorType(np.dtype(kind), (rows,)), TensorType(np.dtype(np.float32), (rows, labels))


def check_counts(columns: int, coefficients: Floats, intercepts: Floats | None, labels: Strings | Ints | None) -> int:
    """Check the numbers of coefficients and of labels; return that of labels.

    Raises:
        ValueError: they do not fit to that of intercepts.
    """
    classes, count = len(intercepts or ()), len(labels or ())
    if len(coefficients) != columns * classes or count not in ((2,) if classes == 1 else (classes,)):
        raise ValueError(
            f"there must be {columns} coefficients and a label for each of {classes} intercepts, or two labels for one"
        )
    return count


@operator(since=1, domain=DOMAIN, types=classifier_type, facts=Facts(Effect.SUMS, linear_macs))
def LinearClassifier(
    x: Array,
    *,
    coefficients: Floats,
    intercepts: Floats | None = None,
    classlabels_ints: Ints | None = None,
    classlabels_strings: Strings | None = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Array, Array]:
    """Return the label of the greatest score, and all scores.

    One row of coefficients for two labels means the second one where the score is positive. ``multi_class`` says how
    the model was trained, and changes nothing.
    """
    del multi_class
    check_counts(row_shape(x.shape)[1], coefficients, intercepts, classlabels_strings or classlabels_ints)
    scores = scores_of(x, coefficients, intercepts or (), len(intercepts or ()))
    labels = np.array(classlabels_strings, object) if classlabels_strings else np.array(classlabels_ints, np.int64)
    if scores.shape[1] == 1:
        return labels[(scores[:, 0] > 0).astype(np.int64)], of_two_classes(scores, post_transform)
    return labels[scores.argmax(1)], transformed(scores, post_transform)


def scores_of(x: Array, coefficients: Floats, intercepts: Floats, count: int) -> Array:
    """Return the scores, (rows, count) float32: one row of coefficients and one intercept for each, or none of them."""
    rows = x.reshape(row_shape(x.shape)).astype(np.float32)
    spend(0, products=rows.shape[0] * len(coefficients))
    scores = rows @ np.array(coefficients, np.float32).reshape(count, rows.shape[1]).T
    return np.asarray(scores + np.array(intercepts, np.float32) if intercepts else scores, np.float32)
