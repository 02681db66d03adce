"""Blocked weights (MatMulNBits of com.microsoft): 2 to 8 bits, packed, in blocks of inputs with a scale each.

Specification: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Facts
from onnx_hw.onnx.operators.macs import matrix_macs
from onnx_hw.onnx.operators.matmul import MatMul
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import TensorType


def matmul_nbits_type(
    a: TensorType,
    b: TensorType,
    scales: TensorType,
    zero_points: TensorType | None = None,
    g_idx: TensorType | None = None,
    bias: TensorType | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    weight_prepacked: int = 0,
    **_: int,
) -> TensorType:
    if not 2 <= bits <= 8 or block_size < 1 or K < 1 or N < 1:
        raise ValueError(f"bits must be 2 to 8 and block_size, K and N positive, not {bits}, {block_size}, {K}, {N}")
    if weight_prepacked:
        raise ValueError(f"weight_prepacked must be 0, the order that is specified, not {weight_prepacked}")
    if a.shape[-1:] != (K,):
        raise ValueError(f"A must end with {K} columns, not be of shape {list(a.shape)}")
    blocks = -(-K // block_size)
    sizes = {"B": (b, N * blocks * _bytes(block_size, bits)), "scales": (scales, N * blocks), "bias": (bias, N)}
    sizes["g_idx"] = g_idx, K
    if zero_points is not None:
        packed = zero_points.dtype == np.uint8
        sizes["zero_points"] = zero_points, N * _bytes(blocks, bits) if packed else N * blocks
    for name, (tensor, size) in sizes.items():
        if tensor is not None and tensor.size != size:
            raise ValueError(f"{name} must have {size} elements, not the shape {list(tensor.shape)}")
    return TensorType(a.dtype, (*a.shape[:-1], N))


@operator(
    since=1,
    domain="com.microsoft",
    types=matmul_nbits_type,
    facts=Facts(macs=matrix_macs),
)
def MatMulNBits(
    a: Array,
    b: Array,
    scales: Array,
    zero_points: Array | None = None,
    g_idx: Array | None = None,
    bias: Array | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Array:
    """Return ``a @ weights + bias``."""
    del accuracy_level, weight_prepacked  # less accurate products are only allowed; another order is refused
    counts, steps = weights_of_blocks(b, scales, zero_points, g_idx, K=K, N=N, block_size=block_size, bits=bits)
    y = MatMul(a, (counts * steps).astype(a.dtype))
    return y if bias is None else y + bias


def weights_of_blocks(
    b: Array,
    scales: Array,
    zero_points: Array | None,
    g_idx: Array | None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int,
) -> tuple[Array, Array]:
    """Return weights (K, N) as ``counts * steps``, both float64; counts are integers unless a zero point is not."""
    blocks = -(-K // block_size)
    block = np.arange(K) // block_size if g_idx is None else g_idx.astype(np.int64).reshape(-1)
    integers = unpack_bits(b.reshape(N, blocks, -1), bits, block_size).reshape(N, -1)[:, :K]
    if zero_points is None:
        zeros = np.full((N, blocks), 1 << (bits - 1), dtype=np.float64)
    elif zero_points.dtype == np.uint8:
        zeros = unpack_bits(zero_points.reshape(N, -1), bits, blocks).astype(np.float64)
    else:
        zeros = zero_points.reshape(N, blocks).astype(np.float64)
    steps = scales.reshape(N, blocks).astype(np.float64)
    return (integers - zeros[:, block]).T, steps[:, block].T


def unpack_bits(packed: Array, bits: int, count: int) -> Array:
    """Unpack ``count`` integers of some bits from the bytes of the last axis, the lowest bits first; int64."""
    ones = np.unpackbits(packed.astype(np.uint8), axis=-1, bitorder="little")[..., : count * bits]
    return ones.reshape(*packed.shape[:-1], count, bits).astype(np.int64) @ (1 << np.arange(bits))


def _bytes(count: int, bits: int) -> int:
    return -(-count * bits // 8)
