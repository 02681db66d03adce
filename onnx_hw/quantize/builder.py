"""A network under construction, and the questions every lowering asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from onnx_hw.errors import Problem
from onnx_hw.integers import Int
from onnx_hw.network import Boundary, Quantization, Tensor
from onnx_hw.network import Node as HardwareNode
from onnx_hw.onnx.model import Graph, Node
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.window import Window
from onnx_hw.quantize.values import Integers, QuantizedConstant, Real, Sum, fractions

Hardware = Integers | Real

INTEGER_TYPES = {f"{sign}int{bits}": Int(bits, signed=not sign) for bits in (2, 4, 8, 16) for sign in ("", "u")}
"""ONNX element types that can be streams."""


class Obstacle(Exception):
    """Why a node cannot become hardware.

    Attributes:
        code: of the error, when nothing else can be done with the node.
        message: one sentence: what must be, what was.
        hint: how to change the model, or empty.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@dataclass
class Entry:
    """A tensor that the host streams in; its order is free until its first consumer wants one.

    Attributes:
        onnx_name, shape, dtype: the ONNX value with these integers.
        order: stream position -> flat index in that value, or None while free.
        stream_shape: (height, width, channels) once the order is fixed.
    """

    onnx_name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    integer: Int
    order: np.ndarray | None = None
    stream_shape: tuple[int, int, int] | None = None


@dataclass
class Builder:
    """Collects nodes, tensors and the meaning of ONNX values.

    Attributes:
        graph: the ONNX graph being imported.
        values: what each ONNX value is in hardware.
        sums: ONNX values that are sums of two tensors, which hardware makes when they are quantized.
        constants: quantized constants by the name of the real-valued ONNX value.
    """

    graph: Graph
    values: dict[str, Hardware] = field(default_factory=dict)
    sums: dict[str, Sum] = field(default_factory=dict)
    constants: dict[str, QuantizedConstant] = field(default_factory=dict)
    nodes: list[HardwareNode] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    quantization: dict[str, Quantization] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    # ---- ONNX side ------------------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        """The known shape of an ONNX value."""
        value = self.graph.values.get(name)
        if value is None or value.shape is None or any(not isinstance(d, int) for d in value.shape):
            raise Obstacle(
                "shape-unknown",
                f"the shape of `{name}` must be known, not {value!r}",
                "bind its dimensions with --dim NAME=NUMBER",
            )
        return tuple(value.shape)  # type: ignore[arg-type]

    def constant(self, name: str) -> np.ndarray | None:
        """A plain constant of the graph."""
        return self.graph.constants.get(name)

    def exact_constant(self, name: str) -> np.ndarray | None:
        """A constant, plain or quantized, as an object array of exact rationals."""
        if name in self.constants:
            return self.constants[name].exact()
        plain = self.constant(name)
        if plain is None:
            return None
        return np.array(fractions(plain), dtype=object).reshape(plain.shape)

    def real(self, node: Node, k: int = 0) -> Real:
        """An input as real numbers."""
        value = self.values.get(node.inputs[k])
        if isinstance(value, Real):
            return value
        if node.inputs[k] in self.sums:
            raise Obstacle(
                "after-sum", f"the sum of two tensors `{node.inputs[k]}` must be quantized before {node.op_type}"
            )
        raise Obstacle(
            "not-quantized",
            f"input `{node.inputs[k]}` must come from a DequantizeLinear or an operator in hardware",
        )

    # ---- hardware side --------------------------------------------------------------------------------------------

    def enter(self, name: str, shape: tuple[int, ...], element_type: str, dtype: np.dtype) -> Integers:
        """A tensor that the host streams in."""
        self.entries[name] = Entry(name, shape, dtype, INTEGER_TYPES[element_type])
        return Integers(name, shape, np.arange(int(np.prod(shape, dtype=np.int64))))

    def add(self, name: str, operator: Operator, inputs: Sequence[str], node: Node, output: str = "") -> str:
        """Append a hardware node with one output; returns its tensor's name."""
        name = self._unique(name, {n.name for n in self.nodes})
        output = self._unique(output or name, set(self.tensors) | set(self.entries))
        self.nodes.append(HardwareNode(name, operator, tuple(inputs), (output,), (node.label,)))
        (self.tensors[output],) = operator.results()
        return output

    @staticmethod
    def _unique(name: str, taken: set[str]) -> str:
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}#{number}", number + 1
        return unique

    def integer_type(self, value: Hardware) -> Int:
        """The type of the integers on the stream."""
        entry = self.entries.get(value.tensor)
        return entry.integer if entry is not None else self.tensors[value.tensor].dtype

    def stream_order(self, value: Hardware) -> np.ndarray | None:
        """Stream position -> logical flat index of the value; None while the host may still choose."""
        entry = self.entries.get(value.tensor)
        logical = np.empty(value.where.size, dtype=np.int64)
        logical[value.where] = np.arange(value.where.size)
        if entry is None:
            return logical
        return None if entry.order is None else logical[entry.order]

    def want(self, value: Hardware, order: np.ndarray, stream_shape: tuple[int, int, int]) -> Tensor:
        """The tensor of a value, whose stream must have this order (stream position -> logical flat index).

        Raises:
            Obstacle: it has another one.
        """
        entry = self.entries.get(value.tensor)
        if entry is not None and entry.order is None:
            entry.order, entry.stream_shape = value.where[order], stream_shape
            self.tensors[value.tensor] = Tensor(stream_shape, entry.integer)
        tensor = self.tensors[value.tensor]
        known = self.stream_order(value)
        if known is None or not np.array_equal(known, order) or tensor.shape != stream_shape:
            raise Obstacle(
                "reorder",
                f"the data would have to be reordered on its way here ({tensor!r} into {list(stream_shape)})",
                "a Transpose or Reshape between these layers is not only a change of layout",
            )
        return tensor

    def image(self, value: Hardware) -> tuple[Tensor, tuple[int, int, int]]:
        """A value of shape (1, channels, *space) as a stream (height, width, channels); 1-D space has height 1."""
        if len(value.shape) not in (3, 4) or value.shape[0] != 1:
            raise Obstacle("rank", f"the data must be [1, channels, height, width], not {list(value.shape)}")
        channels, *space = value.shape[1:]
        height, width = (1, *space) if len(space) == 1 else space
        order = np.arange(value.where.size).reshape(channels, height * width).T.reshape(-1)
        stream_shape = (height, width, channels)
        return self.want(value, order, stream_shape), stream_shape

    def vector(self, value: Hardware, node: Node) -> tuple[str, np.ndarray]:
        """A value as one long vector: (tensor of shape (1, 1, size), stream position -> logical flat index)."""
        size = value.where.size
        order = self.stream_order(value)
        if order is None:
            order = np.arange(size)
            self.want(value, order, (1, 1, size))
        tensor = self.tensors[value.tensor]
        if tensor.shape[:2] == (1, 1):
            return value.tensor, order
        # a window over the whole image emits its elements in stream order
        flatten = Window(tensor, kernel=tensor.shape[:2])
        return self.add(f"{node.label}/flatten", flatten, [value.tensor], node), order

    def rows(self, value: Hardware, channels: int) -> Tensor:
        """A value of shape (..., channels) as a stream whose pixels are its rows, however they lie in an image."""
        rows = value.where.size // channels
        tensor = self.tensors.get(value.tensor)
        shape = tensor.shape if tensor is not None and tensor.pixels == rows else (1, rows, channels)
        return self.want(value, np.arange(value.where.size), shape)

    def settled(self, value: Hardware) -> Tensor:
        """The tensor of a value whose user takes any order: an input gets the order of an image, or its own."""
        if value.tensor not in self.tensors:
            if len(value.shape) in (3, 4) and value.shape[0] == 1:
                self.image(value)
            else:
                self.want(value, np.arange(value.where.size), (1, 1, value.where.size))
        return self.tensors[value.tensor]

    def elementwise_where(self, value: Hardware) -> np.ndarray:
        """``where`` of a tensor that is made element by element in the order of a value's stream."""
        order = self.stream_order(value)
        assert order is not None
        where = np.empty_like(order)
        where[order] = np.arange(order.size)
        return where

    def boundary(self, value: Integers, onnx_name: str, dtype: np.dtype) -> Boundary:
        """Where an ONNX value of integers leaves the hardware."""
        order = self.stream_order(value)
        assert order is not None
        return Boundary(value.tensor, onnx_name, value.shape, dtype, order)

    def image_where(self, shape: tuple[int, ...]) -> np.ndarray:
        """``where`` of a fresh NHWC tensor for an ONNX value (1, channels, *space)."""
        channels = shape[1]
        space = int(np.prod(shape[2:], dtype=np.int64))
        return np.arange(channels * space).reshape(space, channels).T.reshape(-1)
