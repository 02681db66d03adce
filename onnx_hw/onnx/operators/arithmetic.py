"""Elementwise arithmetic with broadcasting: Add, Sub, Mul, Div, Pow, Mod, Min, Max, Sum, Mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, is_integer
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import TensorType, broadcast, broadcast_shape, normal_axis, same_dtype


@operator(since=(7, 13, 14), types=broadcast, facts=Facts(Effect.ADDS))
def Add(a: Array, b: Array) -> Array:
    return np.add(a, b)


@operator(since=(7, 13, 14), types=broadcast, facts=Facts(Effect.ADDS, inverts=True))
def Sub(a: Array, b: Array) -> Array:
    return np.subtract(a, b)


@operator(since=(7, 13, 14), types=broadcast, facts=Facts(Effect.SCALES))
def Mul(a: Array, b: Array) -> Array:
    return np.multiply(a, b)


@operator(since=(7, 13, 14), types=broadcast, facts=Facts(Effect.SCALES, inverts=True))
def Div(a: Array, b: Array) -> Array:
    """Divide; integers are divided towards zero."""
    return quotient(a, b)


def quotient(a: Array, b: Array) -> Array:
    """Return ``a / b``, rounded towards zero for integers."""
    if not is_integer(a.dtype):
        return np.true_divide(a, b)
    if not np.all(b):
        raise ValueError("integers must not be divided by zero")
    if a.dtype.kind == "u" or b.dtype.kind == "u":
        return np.floor_divide(a, b)
    down = np.floor_divide(a, b)
    return np.where((down < 0) & (down * b != a), down + 1, down).astype(a.dtype)


def align_axis(a: Array, b: Array, axis: int | None) -> Array:
    """Add trailing axes of length 1 to ``b``, so that its first axis meets ``axis`` of ``a``, as before opset 7."""
    if axis is None:
        return b
    after = a.ndim - normal_axis(axis, a.ndim) - b.ndim
    return b.reshape(*b.shape, *(1,) * max(after, 0))


def one_sided(compute: Callable[[Array, Array], Array], a: Array, b: Array, axis: int | None, broadcast: int) -> Array:
    """Make an operator from before opset 7: one-sided broadcasting, and only where ``broadcast`` is 1."""
    if not broadcast and a.shape != b.shape:
        raise ValueError(
            f"before opset 7 shapes must be equal unless broadcast is 1, not {list(a.shape)} and {list(b.shape)}"
        )
    y = compute(a, align_axis(a, b, axis))
    if y.shape != a.shape:
        raise ValueError(f"B must broadcast to A, but {list(b.shape)} does not broadcast to {list(a.shape)}")
    return y


def like_a(a: TensorType, b: TensorType, **_: int | None) -> TensorType:
    """Return the type of the result of one-sided broadcasting."""
    return TensorType(same_dtype(a, b), a.shape)


_CONSUMED = ("consumed_inputs",)


def one_sided_version(
    name: str,
    compute: Callable[[Array, Array], Array],
    types: Callable[..., TensorType] = like_a,
    hints: tuple[str, ...] = (),
) -> None:
    """Register the version of opset 1, and without the hints that of opset 6."""

    def function(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
        return one_sided(compute, a, b, axis, broadcast)

    operator(since=1, name=name, types=types, hints=hints)(function)
    if hints:
        operator(since=6, name=name, types=types)(function)


one_sided_version("Add", np.add, hints=_CONSUMED)
one_sided_version("Sub", np.subtract, hints=_CONSUMED)
one_sided_version("Mul", np.multiply, hints=_CONSUMED)
one_sided_version("Div", quotient, hints=_CONSUMED)


def power_type(a: TensorType, b: TensorType, **_: int | None) -> TensorType:
    return TensorType(a.dtype, broadcast_shape(a, b))


@operator(since=(7, 12, 13, 15), types=power_type, facts=Facts(Effect.BENDS))
def Pow(a: Array, b: Array) -> Array:
    """Raise to a power in the base's type: an integer, with a float exponent, in float64 and then truncated."""
    return power(a, b)


def power(a: Array, b: Array) -> Array:
    if is_integer(a.dtype):
        if is_integer(b.dtype) and (b.dtype.kind == "u" or np.all(b >= 0)):
            return np.power(a, b.astype(a.dtype)) if b.dtype != a.dtype else np.power(a, b)
        return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    return np.power(a, b.astype(a.dtype))


one_sided_version("Pow", power)


@operator(since=(10, 13, 28), types=broadcast, facts=Facts(Effect.BENDS, jumps=True))
def Mod(a: Array, b: Array, *, fmod: int = 0) -> Array:
    """Return the remainder with the sign of the divisor, or with ``fmod`` that of the dividend (C's ``fmod``)."""
    if is_integer(a.dtype) and not np.all(b):
        raise ValueError("integers must not be divided by zero")
    return np.fmod(a, b) if fmod else np.mod(a, b)


def of_one_shape(inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """Check that the inputs have one shape, for before opset 8 they do not broadcast."""
    for x in inputs[1:]:
        if x.shape != inputs[0].shape:
            raise ValueError(f"before opset 8 shapes must be equal, not {list(inputs[0].shape)} and {list(x.shape)}")
    return inputs


def mean(inputs: Sequence[Array]) -> Array:
    return (reduce(np.add, inputs) / np.asarray(len(inputs), inputs[0].dtype)).astype(inputs[0].dtype, copy=False)


def variadic(
    name: str, compute: Callable[[Sequence[Array]], Array], since: tuple[int, ...], facts: Facts | None = None
) -> None:
    """Register an operator of any number of tensors, and its versions without broadcasting."""

    def function(*inputs: Array) -> Array:
        return compute(inputs)

    def before(*inputs: Array) -> Array:
        return compute(of_one_shape(inputs))

    operator(since=since, name=name, types=broadcast, facts=facts)(function)
    operator(since=6, name=name, types=broadcast)(before)
    operator(since=1, name=name, types=broadcast, hints=_CONSUMED)(before)


variadic("Max", partial(reduce, np.maximum), (8, 12, 13), Facts(Effect.BENDS))
variadic("Min", partial(reduce, np.minimum), (8, 12, 13), Facts(Effect.BENDS))
variadic("Sum", partial(reduce, np.add), (8, 13), Facts(Effect.ADDS))
variadic("Mean", mean, (8, 13))
