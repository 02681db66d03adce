"""Type of a tensor, and the type rules that many operators share.

A type rule has its operator's signature with ``TensorType`` in place of arrays, and returns the types of the outputs.
It is called only when every input's shape is known. It may give None for an output of which it knows nothing; a
``ValueError`` it raises becomes an error naming the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.dtypes import Array, name_of_dtype


@dataclass(frozen=True)
class TensorType:
    """Element type and shape of a tensor, with its ``value`` when that is known before the model runs."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    value: Array | None = field(default=None, compare=False, repr=False)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for length in self.shape:  # not np.prod: a claimed size may exceed 64 bits
            size *= length
        return size

    def with_shape(self, shape: Sequence[int]) -> TensorType:
        return TensorType(self.dtype, tuple(int(length) for length in shape))

    def with_dtype(self, dtype: Any) -> TensorType:
        return TensorType(np.dtype(dtype), self.shape)


Types = Sequence[TensorType | None]


class GraphTypes(Protocol):
    """Function from the types of a subgraph's inputs to those of its outputs; None where nothing is known."""

    def __call__(self, graph: Graph, inputs: Types, /) -> list[TensorType | None]: ...


@dataclass(frozen=True)
class TypeCall:
    """Node for whose outputs a type rule with the parameter ``call`` infers types, and the means to infer subgraphs.

    Attributes:
        graph_types: the function that infers the types of a subgraph's outputs, the names around it visible.
    """

    node: Node
    graph_types: GraphTypes

    @property
    def results(self) -> int:
        """Number of outputs of the node, omitted ones in the middle included."""
        return len(self.node.outputs)


def like_first(x: TensorType, *_: Any, **__: Any) -> TensorType:
    """Return the type of the first input."""
    return TensorType(x.dtype, x.shape)


def like_first_of(rank: int) -> Callable[..., TensorType]:
    """Make the rule ``like_first`` for a first input of this number of axes, or more."""

    def rule(x: TensorType, *_: Any, **__: Any) -> TensorType:
        must_have_axes(x, rank)
        return like_first(x)

    return rule


def onto_first(x: TensorType, *others: TensorType | None, **_: Any) -> TensorType:
    """Return the type of the first input, to which the others must broadcast (one-sidedly)."""
    for other in others:
        if other is not None and broadcast_shape(x, other) != x.shape:
            raise ValueError(f"{list(other.shape)} must broadcast to the shape of the data, {list(x.shape)}")
    return like_first(x)


def must_have_axes(x: TensorType, least: int, most: int | None = None) -> None:
    """Raise ``ValueError`` for a tensor with fewer axes, or more."""
    if x.ndim < least or (most is not None and x.ndim > most):
        expected = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"the data must have {expected} axes, not the shape {list(x.shape)}")


def bool_like_first(x: TensorType, *_: Any, **__: Any) -> TensorType:
    """Return a boolean for each element of the first input."""
    return x.with_dtype(np.bool_)


def broadcast(*inputs: TensorType, **_: Any) -> TensorType:
    """Broadcast all inputs, which have one element type, against each other."""
    return TensorType(same_dtype(*inputs), broadcast_shape(*inputs))


def broadcast_bool(*inputs: TensorType, **_: Any) -> TensorType:
    """Return a boolean for each element of the inputs, broadcast against each other."""
    same_dtype(*inputs)
    return TensorType(np.dtype(np.bool_), broadcast_shape(*inputs))


def same_dtype(*inputs: TensorType | None) -> np.dtype[Any]:
    """Return the one element type of all inputs, omitted ones left out; raise ``ValueError`` where they differ."""
    dtypes = [x.dtype for x in inputs if x is not None]
    for dtype in dtypes[1:]:
        if dtype != dtypes[0]:
            raise ValueError(
                f"all inputs must be of one element type, not {name_of_dtype(dtypes[0])} and {name_of_dtype(dtype)}"
            )
    return dtypes[0]


def broadcast_shape(*inputs: TensorType) -> tuple[int, ...]:
    """Return the shape to which all inputs broadcast (numpy's rule, which ONNX shares since opset 7).

    Raises:
        ValueError: they do not broadcast.
    """
    rank = max(x.ndim for x in inputs)
    result = []
    for axis in range(-rank, 0):
        lengths = {x.shape[axis] for x in inputs if x.ndim >= -axis} - {1}
        if len(lengths) > 1:
            shapes = " and ".join(str(list(x.shape)) for x in inputs)
            raise ValueError(f"shapes must broadcast against each other, but {shapes} do not")
        result.append(lengths.pop() if lengths else 1)
    return tuple(result)


def normal_axis(axis: int, rank: int) -> int:
    """Return the axis counted from the front; raise ``ValueError`` outside ``-rank .. rank - 1``."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis must be within {-rank}..{rank - 1}, not {axis}")
    return axis % rank


def normal_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return axes counted from the front, in their order; raise ``ValueError`` out of range, or for one twice."""
    result = tuple(normal_axis(int(axis), rank) for axis in axes)
    if len(set(result)) != len(result):
        raise ValueError(f"axes must be distinct, not {list(axes)}")
    return result
