"""The meaning of a quantized ONNX model in exact rationals, straight from the file, number by number.

The first witness of the importer: written from the ONNX operator texts, with nothing of the product. Every float32 of
the file is the rational it denotes; QuantizeLinear rounds half to even. Slow, for small models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

import onnx
from onnx import helper, numpy_helper

LIMITS = {np.dtype(kind): (np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int8, np.uint8, np.int16, np.uint16)}


def evaluate(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The graph's outputs: integers as they are, real numbers as object arrays of ``Fraction``."""
    values: dict[str, np.ndarray] = {c.name: _exact(numpy_helper.to_array(c)) for c in model.graph.initializer}
    values |= feeds
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs = [values[name] if name else None for name in node.input]
        values[node.output[0]] = OPERATORS[node.op_type](*inputs, **attributes)
    return {output.name: values[output.name] for output in model.graph.output}


def _exact(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    numbers = [Fraction(float(v)) if np.isfinite(v) else float(v) for v in array.reshape(-1)]
    return np.array(numbers, dtype=object).reshape(array.shape)


def _along(constant: np.ndarray, rank: int, axis: int) -> np.ndarray:
    return constant if constant.size == 1 else constant.reshape([-1 if k == axis % rank else 1 for k in range(rank)])


def dequantize(x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, *, axis: int = 1) -> np.ndarray:
    whole = x.astype(object)
    if zero is not None:
        whole = whole - _along(zero.astype(object), x.ndim, axis)
    return whole * _along(scale, x.ndim, axis)


def quantize(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, *, axis: int = 1) -> np.ndarray:
    low, high = LIMITS[zero.dtype]

    def stored(v: Fraction | float) -> int:
        if isinstance(v, float) and np.isinf(v):
            return high if v > 0 else low
        return min(max(_half_to_even(Fraction(v)) + int(zero), low), high)

    return np.array([stored(v) for v in (x / scale.reshape(())).reshape(-1)], dtype=zero.dtype).reshape(x.shape)


def _half_to_even(value: Fraction) -> int:
    below = value.numerator // value.denominator
    rest = value - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


@dataclass(frozen=True)
class Sliding:
    """A kernel over an image, as the attributes of Conv and of the pools state it."""

    kernel: list[int]
    strides: list[int]
    pads: list[int]
    dilations: list[int]
    sizes: list[int]

    @classmethod
    def of(
        cls,
        image: Sequence[int],
        kernel: list[int],
        *,
        strides: list[int] | None = None,
        pads: list[int] | None = None,
        dilations: list[int] | None = None,
        ceil_mode: int = 0,
        auto_pad: bytes | str = "NOTSET",
    ) -> Sliding:
        rank, mode = len(kernel), auto_pad.decode() if isinstance(auto_pad, bytes) else auto_pad
        strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, list(pads or [0] * 2 * rank)
        sizes = []
        for k, length in enumerate(image):
            extent = (kernel[k] - 1) * dilations[k] + 1
            if mode.startswith("SAME"):
                size = -(-length // strides[k])
                total = max(0, (size - 1) * strides[k] + extent - length)
                halves = (total // 2, total - total // 2)
                pads[k], pads[rank + k] = halves if mode == "SAME_UPPER" else halves[::-1]
            else:
                room = length + pads[k] + pads[rank + k] - extent
                size = (-(-room // strides[k]) if ceil_mode else room // strides[k]) + 1
                if (size - 1) * strides[k] >= length + pads[k]:
                    size -= 1  # a window must not begin in the padding behind the data
            sizes.append(size)
        return cls(kernel, strides, pads, dilations, sizes)

    def fold(self, plane: np.ndarray, folded: Callable[[list[tuple[Any, tuple[int, ...]]]], Any]) -> np.ndarray:
        """``folded`` gets, for every window, (element or None in the padding, place in the kernel)."""
        result = np.empty(self.sizes, dtype=object)
        for place in product(*map(range, self.sizes)):
            seen = []
            for tap in product(*map(range, self.kernel)):
                at = tuple(
                    p * stride + t * dilation - pad
                    for p, stride, t, dilation, pad in zip(
                        place, self.strides, tap, self.dilations, self.pads, strict=False
                    )
                )
                inside = all(0 <= a < n for a, n in zip(at, plane.shape, strict=True))
                seen.append((plane[at] if inside else None, tap))
            result[place] = folded(seen)
        return result


def _slide(x: np.ndarray, kernel: Sequence[int], folded: Callable[..., Any], **how: Any) -> np.ndarray:
    return Sliding.of(x.shape, list(kernel), **how).fold(x, folded)


def conv(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    kernel_shape: list[int] | None = None,
    group: int = 1,
    **how: Any,
) -> np.ndarray:
    assert kernel_shape in (None, list(w.shape[2:])) and w.shape[1] * group == x.shape[1]
    planes = []
    for o in range(len(w)):
        first = o * group // len(w) * w.shape[1]
        total: Any = Fraction(0) if b is None else b[o]
        for c, taps in enumerate(w[o]):

            def dot(seen: list[tuple[Any, tuple[int, ...]]], taps: np.ndarray = taps) -> Any:
                return sum((v * taps[tap] for v, tap in seen if v is not None), Fraction(0))

            total = total + _slide(x[0, first + c], w.shape[2:], dot, **how)
        planes.append(total)
    return np.stack(planes)[np.newaxis]


def max_pool(x: np.ndarray, *, kernel_shape: list[int], **how: Any) -> np.ndarray:
    planes = [
        _slide(plane, kernel_shape, lambda seen: max(v for v, _ in seen if v is not None), **how) for plane in x[0]
    ]
    return np.stack(planes)[np.newaxis]


def average_pool(x: np.ndarray, *, kernel_shape: list[int], count_include_pad: int = 0, **how: Any) -> np.ndarray:
    def mean(seen: list[tuple[Any, tuple[int, ...]]]) -> Any:
        inside = [v for v, _ in seen if v is not None]
        return sum(inside, Fraction(0)) / (len(seen) if count_include_pad else len(inside))

    return np.stack([_slide(plane, kernel_shape, mean, **how) for plane in x[0]])[np.newaxis]


def global_average_pool(x: np.ndarray) -> np.ndarray:
    return np.array([plane.sum() / Fraction(plane.size) for plane in x[0]], dtype=object).reshape(
        1, -1, *[1] * (x.ndim - 2)
    )


def global_max_pool(x: np.ndarray) -> np.ndarray:
    return np.array([plane.max() for plane in x[0]], dtype=object).reshape(1, -1, *[1] * (x.ndim - 2))


def gemm(
    a: np.ndarray, b: np.ndarray, c: Any = 0, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> np.ndarray:
    a, b = a.T if transA else a, b.T if transB else b
    return Fraction(alpha) * a.dot(b) + Fraction(beta) * c


def clip(x: np.ndarray, low: np.ndarray | None = None, high: np.ndarray | None = None) -> np.ndarray:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def pad(x: np.ndarray, pads: np.ndarray, value: Any = Fraction(0), *, mode: bytes = b"constant") -> np.ndarray:
    before, behind = pads[: x.ndim], pads[x.ndim :]
    assert mode == b"constant" and (pads >= 0).all()
    whole = np.full([b + n + e for b, n, e in zip(before, x.shape, behind, strict=True)], None, dtype=object)
    whole.fill(np.asarray(value).reshape(-1)[0])
    whole[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))] = x
    return whole


def reshape(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return x.reshape([x.shape[k] if n == 0 else int(n) for k, n in enumerate(shape)])


OPERATORS: dict[str, Callable[..., np.ndarray]] = {
    "Abs": np.abs,
    "Add": lambda a, b: a + b,
    "AveragePool": average_pool,
    "Clip": clip,
    "Conv": conv,
    "DequantizeLinear": dequantize,
    "Div": lambda a, b: a / b,
    "Flatten": lambda x, axis=1: x.reshape(prod(x.shape[:axis]), -1),
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "Identity": lambda x: x,
    "MatMul": lambda a, b: a.dot(b),
    "MaxPool": max_pool,
    "Mul": lambda a, b: a * b,
    "Neg": np.negative,
    "Pad": pad,
    "QuantizeLinear": quantize,
    "Relu": lambda x: np.maximum(x, Fraction(0)),  # type: ignore[call-overload]
    "Reshape": reshape,
    "Squeeze": lambda x, axes: x.squeeze(tuple(int(a) for a in axes)),
    "Sub": lambda a, b: a - b,
    "Transpose": lambda x, perm=None: x.transpose(perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(int(a) for a in axes)),
}
