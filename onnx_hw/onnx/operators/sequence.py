"""Sequences (Python lists of arrays) and optional values (None when empty)."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Graph, Value
from onnx_hw.onnx.operators.allowance import STEPS_PER_CALL, bytes_of, hold, spend
from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code
from onnx_hw.onnx.operators.registry import Call, earlier, operator
from onnx_hw.onnx.operators.tensor_type import like_first, normal_axis

Sequence = list[Array]


@operator(since=11, dynamic=True)
def SequenceEmpty(*, dtype: int | None = None) -> Sequence:
    """Return an empty sequence of tensors of that type, by default float."""
    dtype_of_code(1 if dtype is None else dtype)
    return []


@operator(since=11, dynamic=True)
def SequenceConstruct(*inputs: Array) -> Sequence:
    return list(inputs)


@operator(since=11, dynamic=True)
def SequenceAt(sequence: Sequence, position: Array) -> Array:
    return sequence[_position(position, len(sequence), len(sequence) - 1)]


@operator(since=11, dynamic=True)
def SequenceErase(sequence: Sequence, position: Array | None = None) -> Sequence:
    """Remove the element at ``position``, by default the last one."""
    index = len(sequence) - 1 if position is None else _position(position, len(sequence), len(sequence) - 1)
    return sequence[:index] + sequence[index + 1 :]


@operator(since=11, dynamic=True)
def SequenceInsert(sequence: Sequence, tensor: Array, position: Array | None = None) -> Sequence:
    """Insert a tensor before ``position``, by default at the end."""
    index = len(sequence) if position is None else _position(position, len(sequence), len(sequence))
    return [*sequence[:index], tensor, *sequence[index:]]


@operator(since=11, dynamic=True)
def SequenceLength(sequence: Sequence) -> Array:
    return np.array(len(sequence), np.int64)


@operator(since=17, dynamic=True)
def SequenceMap(sequence: Sequence, *others: Any, body: Graph, call: Call) -> tuple[Sequence, ...]:
    """Run the body for each element, together with the elements of other sequences and with tensors."""
    results: list[Sequence] = [[] for _ in body.outputs]
    room = 0
    for k, element in enumerate(sequence):
        spend(STEPS_PER_CALL)
        inputs = [element, *(other[k] if isinstance(other, list) else other for other in others)]
        for result, value in zip(results, call.run_graph(body, inputs), strict=True):
            result.append(value)
            room += bytes_of(value)
        hold((room,), np.int8)
    return tuple(results)


@operator(since=11, dynamic=True)
def ConcatFromSequence(sequence: Sequence, *, axis: int, new_axis: int = 0) -> Array:
    """Join the elements along an axis, or stack them on a new one."""
    hold((bytes_of(sequence),), np.int8)
    return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)


@operator(since=(11, 24), dynamic=True)
def SplitToSequence(x: Array, split: Array | None = None, *, axis: int = 0, keepdims: int = 1) -> Sequence:
    """Cut into parts of one length (a scalar ``split``; the last may be shorter), of these lengths, or slices."""
    along = normal_axis(axis, x.ndim)
    total = x.shape[along]
    if split is None:
        parts = np.split(x, total, along) if total else []
        return parts if keepdims else [np.squeeze(part, along) for part in parts]
    if split.ndim == 0:
        return np.split(x, range(int(split), total, int(split)), along)
    if int(split.sum()) != total:
        raise ValueError(f"the parts {split.tolist()} must add up to {total}")
    return np.split(x, np.cumsum(split)[:-1], along)


@operator(since=(15, 28), dynamic=True)
def Optional(x: Any = None, *, type: Value | None = None) -> Any:
    """Return the value itself, or None: an empty optional of that type."""
    if x is None and type is None:
        raise ValueError("an empty optional must have a type")
    return x


@operator(since=(15, 18, 28), types=like_first)
def OptionalGetElement(x: Any) -> Any:
    if x is None:
        raise ValueError("the optional must hold a value")
    return x


@operator(since=(18, 28), dynamic=True)
def OptionalHasElement(x: Any = None) -> Array:
    return np.array(x is not None)


earlier(OptionalHasElement, since=15, inputs=(1, 1))


def _position(position: Array, length: int, most: int) -> int:
    """Return a position counted from the front; raise ``ValueError`` where it is out of range."""
    stated = int(position.reshape(()))
    if not -length <= stated <= most:
        raise ValueError(f"position must be within {-length}..{most}, not {stated}")
    return stated + length if stated < 0 else stated
