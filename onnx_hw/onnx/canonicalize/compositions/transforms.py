"""Linear operators with fixed factors, as products with constants: CumSum, DFT, STFT."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, composed
from onnx_hw.onnx.graph.model import Node


def along_axis(composer: Composer, data: str, axis: int, matrix: np.ndarray, rank: int) -> str:
    """Multiply the numbers along an axis of data with ``rank`` axes by a matrix (inputs, outputs)."""
    order = [*(k for k in range(rank) if k != axis), axis]
    product = composer.add("MatMul", composer.transposed(data, order), composer.constant(matrix))
    return composer.transposed(product, [order.index(k) for k in range(rank)])


@composed("CumSum", meaning="as MatMul with a constant")
def cumsum(composer: Composer, node: Node) -> str:
    data, axis = composer.real(node), int(composer.constant_input(1).reshape(-1)[0])
    shape = composer.shape(data)
    axis %= len(shape)
    before, behind = np.arange(shape[axis])[:, None], np.arange(shape[axis])[None, :]
    if node.attributes.get("reverse", 0):
        before, behind = behind, before
    is_counted = before < behind if node.attributes.get("exclusive", 0) else before <= behind
    return along_axis(composer, data, axis, is_counted, len(shape))


@composed("DFT", meaning="as MatMul with a constant")
def dft(composer: Composer, node: Node) -> str:
    """Compose a transform of real or complex numbers [..., n, ..., 1 or 2] along one axis."""
    data = composer.real(node)
    shape, rank = composer.shape(data), len(composer.shape(data))
    axis = int(node.attributes.get("axis", 1)) if node.version < 20 else -2
    if node.version >= 20 and len(node.inputs) > 2 and node.inputs[2]:
        axis = int(composer.constant_input(2).reshape(-1)[0])
    axis %= rank
    length = shape[axis]
    if len(node.inputs) > 1 and node.inputs[1]:
        length = int(composer.constant_input(1).reshape(-1)[0])
    is_inverse = bool(node.attributes.get("inverse", 0))
    composer.require(axis < rank - 1 and not (is_inverse and node.attributes.get("onesided", 0)))
    result = composer.shape(node.outputs[0])
    times, bins = np.arange(min(shape[axis], length)), np.arange(result[axis])
    matrix = np.zeros((shape[axis], shape[-1], len(bins), 2))
    matrix[: len(times)] = _waves(times, bins, length, is_inverse)[:, : shape[-1]]
    order = [*(k for k in range(rank) if k not in (axis, rank - 1)), axis, rank - 1]
    others = [shape[k] for k in order[:-2]]
    turned = composer.transposed(data, order)
    flat = composer.add("Reshape", turned, composer.lengths((*others, shape[axis] * shape[-1])))
    product = composer.add("MatMul", flat, composer.constant(matrix.reshape(shape[axis] * shape[-1], -1)))
    product = composer.add("Reshape", product, composer.lengths((*others, len(bins), 2)))
    return composer.transposed(product, [order.index(k) for k in range(rank)])


@composed("STFT", meaning="as Conv with constant weights")
def stft(composer: Composer, node: Node) -> str:
    """Compose the transforms of overlapping frames of a real signal: a Conv whose weights are windowed waves."""
    data = composer.real(node)
    shape, result = composer.shape(data), composer.shape(node.outputs[0])
    composer.require(len(shape) == 2 or shape[2] == 1)
    step, length, window = int(composer.constant_input(1).reshape(-1)[0]), 0, np.ones(1)
    if len(node.inputs) > 2 and node.inputs[2]:
        window = composer.constant_input(2).astype(np.float64)
        length = window.size
    if len(node.inputs) > 3 and node.inputs[3]:
        length = int(composer.constant_input(3).reshape(-1)[0])
    composer.require(length > 0 and window.size in (1, length))
    waves = _waves(np.arange(length), np.arange(result[2]), length, False)[:, 0] * window[:, None, None]
    kernel = composer.constant(waves.transpose(1, 2, 0).reshape(-1, 1, length))
    signal = composer.add("Reshape", data, composer.lengths((shape[0], 1, prod(shape[1:]))))
    frames = composer.add("Conv", signal, kernel, version=11, strides=(step,))
    turned = composer.add("Transpose", frames, perm=(0, 2, 1))
    return composer.add("Reshape", turned, composer.lengths(result))


def _waves(times: np.ndarray, bins: np.ndarray, length: int, is_inverse: bool) -> np.ndarray:
    """Return the factors of a transform, float64 (times, real and imaginary input, bins, real and imaginary output)."""
    angles = 2 * np.pi * (times[:, None] * bins[None, :] % length) / length
    cosine, sine = np.cos(angles), np.sin(angles) * (1 if is_inverse else -1)
    waves = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)
    return waves / length if is_inverse else waves
