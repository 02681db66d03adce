"""Random operators and Dropout. Without a seed they draw the same numbers every time, so that runs can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import Ints, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, bool_like_first


def generator(seed: float | None) -> np.random.Generator:
    """Make the random generator for the seed of an operator."""
    return np.random.default_rng(0 if seed is None else int(np.float32(seed).view(np.uint32)))


def shaped_type(*, dtype: int = 1, shape: Ints, **_: float) -> TensorType:
    return TensorType(dtype_of_code(dtype), tuple(shape))


def like_type(x: TensorType, *, dtype: int | None = None, **_: Any) -> TensorType:
    return TensorType(x.dtype if dtype is None else dtype_of_code(dtype), x.shape)


@operator(since=(1, 22), types=shaped_type, stateless=False, facts=Facts(random=True))
def RandomNormal(
    *, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, shape: Ints
) -> Array:
    return generator(seed).normal(mean, scale, shape).astype(dtype_of_code(dtype))


@operator(since=(1, 22), types=like_type, stateless=False, facts=Facts(random=True))
def RandomNormalLike(
    x: Array, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Array:
    return np.asarray(generator(seed).normal(mean, scale, x.shape)).astype(
        x.dtype if dtype is None else dtype_of_code(dtype)
    )


@operator(since=(1, 22), types=shaped_type, stateless=False, facts=Facts(random=True))
def RandomUniform(
    *, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None, shape: Ints
) -> Array:
    return generator(seed).uniform(low, high, shape).astype(dtype_of_code(dtype))


@operator(since=(1, 22), types=like_type, stateless=False, facts=Facts(random=True))
def RandomUniformLike(
    x: Array, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Array:
    return np.asarray(generator(seed).uniform(low, high, x.shape)).astype(
        x.dtype if dtype is None else dtype_of_code(dtype)
    )


@operator(since=(15, 22), types=like_type, stateless=False, facts=Facts(random=True))
def Bernoulli(x: Array, *, dtype: int | None = None, seed: float | None = None) -> Array:
    """Draw 1 with the probability that ``x`` says, else 0."""
    drawn = generator(seed).uniform(size=x.shape) < x.astype(np.float64)
    return drawn.astype(x.dtype if dtype is None else dtype_of_code(dtype))


def multinomial_type(x: TensorType, *, dtype: int = 6, sample_size: int = 1, **_: float) -> TensorType:
    return TensorType(dtype_of_code(dtype), (x.shape[0], sample_size))


@operator(since=(7, 22), types=multinomial_type, stateless=False, facts=Facts(random=True))
def Multinomial(x: Array, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Array:
    """Draw classes by their unnormalized log-probabilities (batch, classes)."""
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True).astype(np.float64))
    limits = np.cumsum(powers / powers.sum(axis=1, keepdims=True), axis=1)
    drawn = generator(seed).uniform(size=(x.shape[0], sample_size))
    classes = (drawn[:, :, None] >= limits[:, None, :]).sum(axis=2)
    return np.minimum(classes, x.shape[1] - 1).astype(dtype_of_code(dtype))


def dropout_type(x: TensorType, *_: TensorType | None, **__: Any) -> tuple[TensorType, TensorType]:
    return TensorType(x.dtype, x.shape), bool_like_first(x)


@operator(since=(12, 13, 22), types=dropout_type, stateless=False, facts=Facts(Effect.KEEPS))
def Dropout(
    x: Array, ratio: Array | None = None, training_mode: Array | None = None, *, seed: int | None = None
) -> tuple[Array, Array]:
    """Return ``x``, in training with a share of elements set to zero and the others scaled up; and which were kept."""
    share = 0.5 if ratio is None else float(ratio.reshape(()))
    if training_mode is None or not bool(training_mode.reshape(())) or share == 0:
        return x, np.ones(x.shape, bool)
    drawn = np.random.default_rng(0 if seed is None else abs(seed)).uniform(size=x.shape)
    kept = np.asarray(drawn >= share)
    return (x * kept / (1 - share)).astype(x.dtype), kept


@operator(since=10, types=dropout_type)
def Dropout_10(x: Array, *, ratio: float = 0.5) -> tuple[Array, Array]:
    """Return ``x``, for inference only."""
    del ratio  # what is left out in training
    return x, np.ones(x.shape, bool)


def old_dropout_type(x: TensorType, **_: Any) -> tuple[TensorType, TensorType]:
    return TensorType(x.dtype, x.shape), TensorType(x.dtype, x.shape)


@operator(since=7, types=old_dropout_type)
def Dropout_7(x: Array, *, ratio: float = 0.5) -> tuple[Array, Array]:
    """Return ``x``, and a mask of its type."""
    del ratio  # what is left out in training
    return x, np.ones_like(x)


@operator(since=6, types=old_dropout_type, stateless=False)
@operator(since=1, types=old_dropout_type, stateless=False, hints=("consumed_inputs",))
def Dropout_1(x: Array, *, is_test: int = 0, ratio: float = 0.5) -> tuple[Array, Array]:
    """Drop elements in training, which it is unless ``is_test``."""
    if is_test or ratio == 0:
        return x, np.ones_like(x)
    kept = np.asarray(generator(None).uniform(size=x.shape) >= ratio)
    return (x * kept / (1 - ratio)).astype(x.dtype), kept.astype(x.dtype)
