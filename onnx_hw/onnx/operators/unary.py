"""Functions of one value: Abs, Neg, Sqrt, Exp, the trigonometric ones, Erf ..."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import bool_like_first, like_first

_BENDS, _JUMPS = Facts(Effect.BENDS), Facts(Effect.BENDS, jumps=True)


def elementwise(name: str, compute: Callable[[Array], Array], since: tuple[int, ...], facts: Facts = _BENDS) -> None:
    """Register an operator of one tensor; one of opset 6 had the hint ``consumed_inputs`` before."""

    def function(x: Array) -> Array:
        return compute(x)

    operator(since=since, name=name, types=like_first, facts=facts)(function)
    if since[0] == 6:
        operator(since=1, name=name, types=like_first, hints=("consumed_inputs",))(function)


elementwise("Abs", np.abs, (6, 13))
elementwise("Neg", np.negative, (6, 13))
elementwise("Ceil", np.ceil, (6, 13), _JUMPS)
elementwise("Floor", np.floor, (6, 13), _JUMPS)
elementwise("Round", np.rint, (11, 22), _JUMPS)  # ties go to the even neighbour
elementwise("Reciprocal", lambda x: np.divide(x.dtype.type(1), x), (6, 13), _JUMPS)
elementwise("Sqrt", np.sqrt, (6, 13))
elementwise("Exp", np.exp, (6, 13))
elementwise("Log", np.log, (6, 13))
elementwise("Sign", np.sign, (9, 13), _JUMPS)
elementwise("Sin", np.sin, (7, 22))
elementwise("Cos", np.cos, (7, 22))
elementwise("Tan", np.tan, (7, 22), _JUMPS)
elementwise("Asin", np.arcsin, (7, 22))
elementwise("Acos", np.arccos, (7, 22))
elementwise("Atan", np.arctan, (7, 22))
elementwise("Sinh", np.sinh, (9, 22))
elementwise("Cosh", np.cosh, (9, 22))
elementwise("Asinh", np.arcsinh, (9, 22))
elementwise("Acosh", np.arccosh, (9, 22))
elementwise("Atanh", np.arctanh, (9, 22))
elementwise("Erf", lambda x: erf(widen(x)).astype(x.dtype), (9, 13))


@operator(since=(9, 13, 20), types=bool_like_first)
def IsNaN(x: Array) -> Array:
    return np.isnan(x)


@operator(since=(10, 20), types=bool_like_first)
def IsInf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    wide = widen(x)
    return (np.isposinf(wide) & bool(detect_positive)) | (np.isneginf(wide) & bool(detect_negative))


def erf(x: Array) -> Array:
    """Compute the error function to about 1e-16, in float64, by Taylor series around some thousand points."""
    values, slopes = _erf_at_points()
    x = np.asarray(x, np.float64)
    number = np.rint(np.minimum(np.abs(np.nan_to_num(x)), _ERF_END) * _POINTS_PER_UNIT).astype(np.int64)
    point = number / _POINTS_PER_UNIT
    d = np.minimum(np.abs(x), _ERF_END) - point
    # derivatives: erf' = s, erf'' = -2 p s, erf''' = (4 p^2 - 2) s, erf'''' = (12 p - 8 p^3) s
    series = d * (1 - d * (point - d * ((2 * point**2 - 1) / 3 + d * (point - 2 / 3 * point**3) / 2)))
    return np.copysign(values[number] + slopes[number] * series, x)


_POINTS_PER_UNIT = 512
_ERF_END = 6.0  # where erf is 1 in float64


@cache
def _erf_at_points() -> tuple[Array, Array]:
    points = np.arange(int(_ERF_END * _POINTS_PER_UNIT) + 1) / _POINTS_PER_UNIT
    return np.array([math.erf(point) for point in points]), 2 / math.sqrt(math.pi) * np.exp(-(points**2))
