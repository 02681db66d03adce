"""Functions of one value: Abs, Neg, Sqrt, Exp, the trigonometric ones, Erf ..."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import bool_like_first, like_first

_CONSUMED = ("consumed_inputs",)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Abs(x: Array) -> Array:
    return np.abs(x)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Neg(x: Array) -> Array:
    return np.negative(x)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS, jumps=True))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Ceil(x: Array) -> Array:
    return np.ceil(x)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS, jumps=True))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Floor(x: Array) -> Array:
    return np.floor(x)


@operator(since=(11, 22), types=like_first, facts=Facts(Effect.BENDS, jumps=True))
def Round(x: Array) -> Array:
    """Round to integers; ties go to the even neighbour."""
    return np.rint(x)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS, jumps=True))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Reciprocal(x: Array) -> Array:
    return np.divide(x.dtype.type(1), x)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Sqrt(x: Array) -> Array:
    return np.sqrt(x)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Exp(x: Array) -> Array:
    return np.exp(x)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Log(x: Array) -> Array:
    return np.log(x)


@operator(since=(9, 13), types=like_first, facts=Facts(Effect.BENDS, jumps=True))
def Sign(x: Array) -> Array:
    return np.sign(x)


@operator(since=(7, 22), types=like_first, facts=Facts(Effect.BENDS))
def Sin(x: Array) -> Array:
    return np.sin(x)


@operator(since=(7, 22), types=like_first, facts=Facts(Effect.BENDS))
def Cos(x: Array) -> Array:
    return np.cos(x)


@operator(since=(7, 22), types=like_first, facts=Facts(Effect.BENDS, jumps=True))
def Tan(x: Array) -> Array:
    return np.tan(x)


@operator(since=(7, 22), types=like_first, facts=Facts(Effect.BENDS))
def Asin(x: Array) -> Array:
    return np.arcsin(x)


@operator(since=(7, 22), types=like_first, facts=Facts(Effect.BENDS))
def Acos(x: Array) -> Array:
    return np.arccos(x)


@operator(since=(7, 22), types=like_first, facts=Facts(Effect.BENDS))
def Atan(x: Array) -> Array:
    return np.arctan(x)


@operator(since=(9, 22), types=like_first, facts=Facts(Effect.BENDS))
def Sinh(x: Array) -> Array:
    return np.sinh(x)


@operator(since=(9, 22), types=like_first, facts=Facts(Effect.BENDS))
def Cosh(x: Array) -> Array:
    return np.cosh(x)


@operator(since=(9, 22), types=like_first, facts=Facts(Effect.BENDS))
def Asinh(x: Array) -> Array:
    return np.arcsinh(x)


@operator(since=(9, 22), types=like_first, facts=Facts(Effect.BENDS))
def Acosh(x: Array) -> Array:
    return np.arccosh(x)


@operator(since=(9, 22), types=like_first, facts=Facts(Effect.BENDS))
def Atanh(x: Array) -> Array:
    return np.arctanh(x)


@operator(since=(9, 13, 20), types=bool_like_first)
def IsNaN(x: Array) -> Array:
    return np.isnan(x)


@operator(since=(10, 20), types=bool_like_first)
def IsInf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    wide = widen(x)
    return (np.isposinf(wide) & bool(detect_positive)) | (np.isneginf(wide) & bool(detect_negative))


@operator(since=(9, 13), types=like_first, facts=Facts(Effect.BENDS))
def Erf(x: Array) -> Array:
    return erf(widen(x)).astype(x.dtype)


def erf(x: Array) -> Array:
    """Compute the error function to about 1e-16, in float64.

    It is evaluated by its Taylor series around the nearest of some thousand points.
    """
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
