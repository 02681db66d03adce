"""Support vector machines of ``ai.onnx.ml``: SVMRegressor and SVMClassifier, with all kernels.

A classifier has a score for each pair of classes, of which the first one gets a vote where it is positive. Numbers
without support vectors are those of a linear model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.allowance import spend
from onnx_hw.onnx.operators.classical_features import DOMAIN
from onnx_hw.onnx.operators.classical_linear import row_shape
from onnx_hw.onnx.operators.classical_scores import transformed
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.macs import known_type
from onnx_hw.onnx.operators.registry import INTERNAL, Floats, Ints, Strings, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, Types

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")

LEAST_PROBABILITY = 1e-7
"""Least probability of a class against another one."""


@dataclass(frozen=True)
class Machine:
    """Numbers of a support vector machine.

    Attributes:
        vectors: (vectors, columns) float32; for a linear model the unit vectors.
        coefficients: (scores, vectors) float32: one row of a regressor, one for each pair of classes of a classifier.
        biases: (scores,) float32.
        kernel: name of the kernel.
        gamma, coef0, degree: parameters of the kernel.
    """

    vectors: Array
    coefficients: Array
    biases: Array
    kernel: str
    gamma: float = 0.0
    coef0: float = 0.0
    degree: float = 0.0

    def scores(self, x: Array) -> Array:
        """Return the scores of rows, (rows, scores) float32."""
        dots = x @ self.vectors.T
        if self.kernel == "POLY":
            dots = (self.gamma * dots + self.coef0) ** self.degree
        elif self.kernel == "SIGMOID":
            dots = np.tanh(self.gamma * dots + self.coef0)
        elif self.kernel == "RBF":
            apart = (x**2).sum(1, keepdims=True) + (self.vectors**2).sum(1) - 2 * dots
            dots = np.exp(-self.gamma * np.maximum(apart, 0))
        return np.asarray(dots @ self.coefficients.T + self.biases, np.float32)


def machine_of(attributes: Any, columns: int, scores: int = 1) -> Machine:
    """Return the numbers of a node's attributes.

    Args:
        columns: columns of the data.
        scores: scores of a linear model.

    Raises:
        ValueError: they do not fit together, or the kernel is not known.
    """
    kernel = str(attributes.get("kernel_type") or "LINEAR")
    if kernel not in KERNELS:
        raise ValueError(f"kernel_type must be one of {', '.join(KERNELS)}, not {kernel}")
    gamma, coef0, degree = (*map(float, attributes.get("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    numbers = np.array(attributes.get("coefficients") or (), np.float32)
    biases = np.array(attributes.get("rho") or (0.0,), np.float32)
    each = attributes.get("vectors_per_class") or ()
    count = int(sum(each)) if each else int(attributes.get("n_supports") or 0)
    if not count:
        if numbers.size != scores * columns:
            raise ValueError(f"there must be {columns} coefficients for each of {scores} scores, not {numbers.size}")
        return Machine(np.eye(columns, dtype=np.float32), numbers.reshape(scores, columns), biases[:1], "LINEAR")
    vectors = np.array(attributes.get("support_vectors") or (), np.float32)
    classes = len(each) or 2
    if vectors.size != count * columns or numbers.size != count * (classes - 1):
        raise ValueError(f"there must be {count} support vectors of {columns} numbers, and their coefficients")
    vectors, numbers = vectors.reshape(count, columns), numbers.reshape(classes - 1, count)
    rows = numbers
    if each:
        starts = np.concatenate([[0], np.cumsum(each)])
        pairs = list(combinations(range(classes), 2))
        rows = np.zeros((len(pairs), count), np.float32)
        for row, (i, j) in zip(rows, pairs, strict=True):
            for own, other in ((i, j - 1), (j, i)):
                places = slice(starts[own], starts[own + 1])
                row[places] = numbers[other, places]
    if biases.size != len(rows):
        raise ValueError(f"there must be {len(rows)} numbers in rho, not {biases.size}")
    return Machine(vectors, rows, biases, kernel, gamma, coef0, degree)


def svm_macs(node: Node, inputs: Types, _: Types) -> int:
    """Count one for each number of a support vector, and for each coefficient, for each row."""
    rows = row_shape(known_type(inputs, 0).shape)[0]
    numbers = (node.attributes.get(name) or () for name in ("support_vectors", "coefficients"))
    return rows * sum(map(len, numbers))


def regressor_type(x: TensorType, **_: Any) -> TensorType:
    return TensorType(np.dtype(np.float32), (row_shape(x.shape)[0], 1))


@operator(since=1, domain=DOMAIN, types=regressor_type, facts=Facts(Effect.SUMS, svm_macs))
def SVMRegressor(
    x: Array,
    *,
    coefficients: Floats | None = None,
    kernel_params: Floats | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Floats | None = None,
    support_vectors: Floats | None = None,
) -> Array:
    """Return the sum of kernels with the support vectors; of one class its sign."""
    numbers = {
        "coefficients": coefficients, "kernel_params": kernel_params, "kernel_type": kernel_type,
        "n_supports": n_supports, "rho": rho, "support_vectors": support_vectors,
    }  # fmt: skip
    rows = x.reshape(row_shape(x.shape)).astype(np.float32)
    spend(0, products=rows.shape[0] * (len(support_vectors or ()) + len(coefficients or ())))
    scores = machine_of(numbers, rows.shape[1]).scores(rows)
    if one_class:
        return np.where(scores > 0, np.float32(1), np.float32(-1))
    return transformed(scores, post_transform)


def classifier_type(
    x: TensorType,
    *,
    classlabels_ints: Ints | None = None,
    classlabels_strings: Strings | None = None,
    prob_a: Floats | None = None,
    vectors_per_class: Ints | None = None,
    **_: Any,
) -> tuple[TensorType, TensorType]:
    rows, _columns = row_shape(x.shape)
    count = len(classlabels_strings or classlabels_ints or ())
    if count < 2:
        raise ValueError(f"there must be two labels at least, not {count}")
    scores = count if prob_a or not vectors_per_class or count == 2 else count * (count - 1) // 2
    kind: Any = np.dtype(object) if classlabels_strings else np.int64
    return TensorType(np.dtype(kind), (rows,)), TensorType(np.dtype(np.float32), (rows, scores))


@operator(since=1, domain=DOMAIN, types=classifier_type, facts=Facts(Effect.SUMS, svm_macs))
def SVMClassifier(
    x: Array,
    *,
    classlabels_ints: Ints | None = None,
    classlabels_strings: Strings | None = None,
    coefficients: Floats | None = None,
    kernel_params: Floats | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Floats | None = None,
    prob_b: Floats | None = None,
    rho: Floats | None = None,
    support_vectors: Floats | None = None,
    vectors_per_class: Ints | None = None,
) -> tuple[Array, Array]:
    """Return the label with most votes, and the probabilities of classes, or the scores of all pairs of them."""
    labels = np.array(classlabels_strings, object) if classlabels_strings else np.array(classlabels_ints, np.int64)
    numbers = {
        "coefficients": coefficients, "kernel_params": kernel_params, "kernel_type": kernel_type,
        "rho": rho, "support_vectors": support_vectors, "vectors_per_class": vectors_per_class,
    }  # fmt: skip
    rows = x.reshape(row_shape(x.shape)).astype(np.float32)
    spend(0, products=rows.shape[0] * (len(support_vectors or ()) + len(coefficients or ()) * len(labels)))
    scores = machine_of(numbers, rows.shape[1], len(labels)).scores(rows)
    if not vectors_per_class:
        return labels[scores.argmax(1)], transformed(scores, post_transform)
    chosen = labels[votes_of(scores, len(labels)).argmax(1)]
    if prob_a:
        scores = _probabilities(scores, prob_a, prob_b or (), len(labels))
    elif scores.shape[1] == 1:
        scores = np.concatenate([-scores, scores], 1)
    return chosen, transformed(scores, post_transform)


def votes_of(scores: Array, classes: int) -> Array:
    """Return the votes for each class, (rows, classes) int64."""
    votes = np.zeros((len(scores), classes), np.int64)
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        votes[:, i] += scores[:, k] > 0
        votes[:, j] += scores[:, k] <= 0
    return votes


def votes_type(scores: TensorType, **_: Any) -> TensorType:
    return TensorType(np.dtype(np.int64), scores.shape[:1])


@operator(since=1, domain=INTERNAL, types=votes_type, facts=Facts(jumps=True))
def MostVotes(scores: Array, *, classes: int) -> Array:
    """Return the number of the class with most votes of scores of pairs, (rows,) int64."""
    return np.asarray(votes_of(scores, classes).argmax(1), np.int64)


def coupled_type(scores: TensorType, *, classes: int, **_: Any) -> TensorType:
    return TensorType(scores.dtype, (scores.shape[0], classes))


@operator(since=1, domain=INTERNAL, types=coupled_type)
def CoupledProbabilities(scores: Array, *, classes: int, prob_a: Floats, prob_b: Floats) -> Array:
    """Return the probabilities of classes from scores of pairs, (rows, classes) float32."""
    return _probabilities(scores, prob_a, prob_b, classes)


def _probabilities(scores: Array, a: Sequence[float], b: Sequence[float], classes: int) -> Array:
    """Return the probabilities of the classes, (rows, classes) float32, which libsvm couples from those of pairs."""
    of_pairs = 1 / (1 + np.exp(scores * np.array(a, np.float32) + np.array(b, np.float32)))
    of_pairs = np.clip(of_pairs, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return np.array([_coupled(row, classes) for row in of_pairs], np.float32).reshape(len(scores), classes)


def _coupled(of_pairs: Array, classes: int) -> Array:
    """Return the probabilities of the classes of one row, by the iteration of Wu, Lin and Weng."""
    against = np.zeros((classes, classes))
    for share, (i, j) in zip(of_pairs, combinations(range(classes), 2), strict=True):
        against[i, j], against[j, i] = share, 1 - share
    q = -against * against.T
    np.fill_diagonal(q, (against**2).sum(0))
    p = np.full(classes, 1 / classes)
    for _ in range(max(100, classes)):
        qp = q @ p
        pqp = p @ qp
        if np.abs(qp - pqp).max() < 0.005 / classes:
            break
        for k in range(classes):
            step = (pqp - qp[k]) / q[k, k]
            p[k] += step
            pqp = (pqp + step * (step * q[k, k] + 2 * qp[k])) / (1 + step) ** 2
            qp = (qp + step * q[k]) / (1 + step)
            p /= 1 + step
    return p
