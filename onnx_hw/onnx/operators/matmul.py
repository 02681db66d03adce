"""Matrix products: MatMul, Gemm, Einsum; float matrices through BLAS, integer ones exactly."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.allowance import MAX_VALUE_BYTES, hold, spend
from onnx_hw.onnx.operators.dtypes import Array, is_integer, widen
from onnx_hw.onnx.operators.facts import Effect, Facts, Weights
from onnx_hw.onnx.operators.macs import known_type, matrix_macs
from onnx_hw.onnx.operators.registry import earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, Types, broadcast_shape, same_dtype


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a product by numpy's rule.

    Vectors are rows on the left and columns on the right; outer axes broadcast.

    Raises:
        ValueError: the inner lengths differ, an operand is a scalar, or the outer axes do not broadcast.
    """
    if not a or not b:
        raise ValueError("a matrix product needs operands of at least one axis")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"the last axis of A and the second last of B must be equal, not {list(a)} and {list(b)}")
    outer = broadcast_shape(*(TensorType(np.dtype(np.float32), shape[:-2]) for shape in (left, right)))
    return (*outer, *left[-2:-1][: len(a) - 1], *right[-1:][: len(b) - 1])


def matmul_type(a: TensorType, b: TensorType) -> TensorType:
    return TensorType(same_dtype(a, b), matmul_shape(a.shape, b.shape))


@operator(
    since=(1, 9, 13), types=matmul_type, facts=Facts(Effect.SUMS, matrix_macs, Weights(1, axis=-1, channel=-1, rank=2))
)
def MatMul(a: Array, b: Array) -> Array:
    return product(a, b)


def gemm_type(
    a: TensorType, b: TensorType, c: TensorType | None = None, *, transA: int = 0, transB: int = 0, **_: float
) -> TensorType:
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"A and B must be matrices, not of shapes {list(a.shape)} and {list(b.shape)}")
    shape = matmul_shape(a.shape[::-1] if transA else a.shape, b.shape[::-1] if transB else b.shape)
    y = TensorType(same_dtype(a, b, c), shape)
    if c is not None and broadcast_shape(y, c) != shape:
        raise ValueError(f"C must broadcast to {list(shape)}, but {list(c.shape)} does not")
    return y


@operator(
    since=(11, 13),
    types=gemm_type,
    facts=Facts(Effect.SUMS, matrix_macs, Weights(1, axis=-1, channel=-1, rank=2, turned="transB")),
)
def Gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """Return ``alpha * A' @ B' + beta * C``; ``C`` broadcasts to the product's shape."""
    y = product(a.T if transA else a, b.T if transB else b)
    if alpha != 1.0:
        y = (y * alpha).astype(a.dtype)
    if c is None:
        return y
    return y + (c if beta == 1.0 else (c * beta).astype(c.dtype))


earlier(Gemm, since=(7, 9), inputs=(3, 3))


@operator(since=(1, 6), types=gemm_type)
def Gemm_1(
    a: Array,
    b: Array,
    c: Array,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """Return ``alpha * A' @ B' + beta * C``; ``C`` broadcasts only where ``broadcast`` says so."""
    y = Gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    if not broadcast and c.shape != y.shape:
        raise ValueError(f"C must have the shape of the product, {list(y.shape)}, unless broadcast is 1")
    return y


def product(a: Array, b: Array) -> Array:
    """Return the matrix product in the operands' own type: half floats are summed in float32, integers wrap around.

    Integers go through the float64 routines of BLAS wherever no sum can leave the range that those represent exactly.
    """
    if is_integer(a.dtype):
        return integer_product(a, b).astype(a.dtype)
    _pay(a, b)
    if a.dtype.itemsize < 4:
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


def integer_product(a: Array, b: Array) -> Array:
    """Return the exact matrix product of integers: float64 or, where that cannot hold it, int64 (modulo 2^64)."""
    _pay(a, b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    if _largest(wide_a) * _largest(wide_b) * a.shape[-1] < 2**53:
        return np.matmul(wide_a, wide_b)
    return np.matmul(a.astype(np.int64), b.astype(np.int64))


def _pay(a: Array, b: Array) -> None:
    shape = matmul_shape(a.shape, b.shape)
    hold(shape, a.dtype)
    spend(0, products=prod(shape) * a.shape[-1])


def _largest(x: Array) -> float:
    return float(np.abs(x).max()) if x.size else 0.0


def det_type(x: TensorType) -> TensorType:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"X must hold square matrices, not {list(x.shape)}")
    return x.with_shape(x.shape[:-2])


@operator(since=(11, 22), types=det_type)
def Det(x: Array) -> Array:
    spend(0, products=x.size * x.shape[-1])
    return np.asarray(np.linalg.det(widen(x))).astype(x.dtype)


def einsum_type(*inputs: TensorType, equation: str) -> TensorType:
    """Infer the length of each letter of the result; the axes of an ellipsis broadcast."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    lengths, outer = _lengths(terms.split(","), inputs)
    letters = terms.replace(",", "").replace(".", "")
    if not arrow:
        result = "..." + "".join(sorted(letter for letter in lengths if letters.count(letter) == 1))
    before, dots, after = result.partition("...")
    if unknown := sorted({*before, *after} - {*lengths}):
        raise ValueError(f"its result must have letters of its inputs, not `{''.join(unknown)}`")
    middle = outer if dots else ()
    shape = (*(lengths[c] for c in before), *middle, *(lengths[c] for c in after))
    return TensorType(same_dtype(*inputs), shape)


def _lengths(terms: Sequence[str], inputs: Sequence[TensorType]) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return the length of each letter, and of the axes of the ellipses."""
    lengths: dict[str, int] = {}
    unnamed: list[tuple[int, ...]] = []
    for term, x in zip(terms, inputs, strict=True):
        before, dots, after = term.partition("...")
        free = x.ndim - len(before) - len(after)
        if free < 0 or (free and not dots):
            raise ValueError(f"the term {term} must name every axis of {list(x.shape)}")
        unnamed.append(x.shape[len(before) : len(before) + free])
        named = x.shape[: len(before)] + x.shape[len(before) + free :]
        for letter, length in zip(before + after, named, strict=True):
            if lengths.setdefault(letter, length) not in (length, 1) and length != 1:
                raise ValueError(f"index {letter} must have one length, not {lengths[letter]} and {length}")
            lengths[letter] = max(lengths[letter], length)
    return lengths, broadcast_shape(*(TensorType(inputs[0].dtype, shape) for shape in unnamed))


def einsum_macs(node: Node, inputs: Types, _: Types) -> int:
    """Count one for each combination of indices and operand but the first: a single operand is not a product."""
    terms = str(node.attributes["equation"]).replace(" ", "").partition("->")[0].split(",")
    lengths, outer = _lengths(terms, [known_type(inputs, k) for k in range(len(inputs))])
    return prod((*lengths.values(), *outer)) * (len(terms) - 1)


@operator(since=(12, 28), types=einsum_type, facts=Facts(macs=einsum_macs))
def Einsum(*inputs: Array, equation: str) -> Array:
    """Compute Einstein's summation, contracted pairwise through matrix products."""
    wide = [x if is_integer(x.dtype) else widen(x) for x in inputs]
    path, steps = _contraction(equation.replace(" ", ""), wide)
    spend(0, products=steps)
    return np.asarray(np.einsum(equation.replace(" ", ""), *wide, optimize=path)).astype(inputs[0].dtype)


def _contraction(equation: str, inputs: list[Array]) -> tuple[Any, int]:
    """Return an order of products without large intermediates, and the greatest number of its multiplications."""
    path, description = np.einsum_path(equation, *inputs, optimize=("greedy", MAX_VALUE_BYTES // 8))
    steps, largest = (
        float(description.split(f"{what}:")[1].split()[0]) for what in ("Optimized FLOP count", "Largest intermediate")
    )
    hold((int(largest),))
    return path, int(steps)
