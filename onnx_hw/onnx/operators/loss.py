"""Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.softmax import log_softmax
from onnx_hw.onnx.operators.tensor_type import TensorType


def loss_type(
    x: TensorType, target: TensorType, *_: TensorType | None, reduction: str = "mean", **__: int
) -> TensorType:
    return x.with_shape(target.shape if reduction == "none" else ())


@operator(since=(12, 13, 22), types=loss_type)
def NegativeLogLikelihoodLoss(
    x: Array, target: Array, weight: Array | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Array:
    """Return the loss of log-probabilities ``x`` (batch, classes, ...) for ``target`` (batch, ...) classes.

    The ``weight`` of each class is (classes,).
    """
    return _loss(x, target, weight, ignore_index, reduction)


def entropy_type(
    x: TensorType, labels: TensorType, *weights: TensorType | None, reduction: str = "mean", **_: int
) -> tuple[TensorType, TensorType]:
    return loss_type(x, labels, *weights, reduction=reduction), x


@operator(since=(12, 13), types=entropy_type)
def SoftmaxCrossEntropyLoss(
    x: Array, labels: Array, weights: Array | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> tuple[Array, Array]:
    """Return the loss of the log-softmax over the classes (axis 1), and that log-softmax."""
    log_probabilities = log_softmax(x, (1,))
    return _loss(log_probabilities, labels, weights, ignore_index, reduction), log_probabilities


def _loss(x: Array, target: Array, weight: Array | None, ignore_index: int | None, reduction: str) -> Array:
    counted = np.ones(target.shape, bool) if ignore_index is None else target != ignore_index
    classes = np.where(counted, target, 0).astype(np.int64)
    each = np.ones(target.shape, x.dtype) if weight is None else weight[classes].astype(x.dtype)
    each = np.where(counted, each, x.dtype.type(0))
    loss = -np.take_along_axis(x, classes[:, None], axis=1)[:, 0] * each
    if reduction == "none":
        return loss
    if reduction == "sum":
        return np.asarray(loss.sum(dtype=x.dtype))
    if reduction == "mean":
        return np.asarray(loss.sum(dtype=x.dtype) / each.sum(dtype=x.dtype))
    raise ValueError(f"reduction must be none, sum or mean, not {reduction}")
