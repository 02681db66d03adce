"""A network under construction, and the questions every lowering asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import TypeGuard, TypeVar

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import fractions
from onnx_hw.ir.network import Boundary, NetworkNode
from onnx_hw.lower.layout.stream_layout import MOST_MOVED, Layout, default_layout, image_layout, near_layout
from onnx_hw.lower.values import Clipped, FunctionValue, IntegerStream, Operand, Pending, QuantizedConstant, Real
from onnx_hw.messages.errors import Problem
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.tensor import Tensor

LONGEST_RISE = 1 << 20
"""Arguments for which it is checked that a function rises."""

Hardware = IntegerStream | Real | FunctionValue
T = TypeVar("T", bound=Hardware)

INTEGER_TYPES = {f"{sign}int{bits}": Int(bits, signed=not sign) for bits in (2, 4, 8, 16) for sign in ("", "u")}
"""ONNX element types that can be streams."""


class Obstacle(Exception):
    """Why a node cannot become hardware.

    Attributes:
        code: of the error, when nothing else can be done with the node.
        message: one sentence: what must be, what was.
        hint: how to change the model, or empty.
        needs: the value that would have to be quantized, if that would help, or empty.
    """

    def __init__(self, code: str, message: str, hint: str = "", needs: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.needs = code, message, hint, needs


@dataclass
class StreamInput:
    """A tensor that the host streams in; its order is free until its first consumer wants one.

    Attributes:
        onnx_name, shape, dtype: the ONNX value with these integers.
        order: stream position -> flat index in that value, or None while free.
        of: the ONNX value of real numbers that the integers stand for, where only that is one of the model; or empty.
    """

    onnx_name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    integer: Int
    order: np.ndarray | None = None
    of: str = ""


@dataclass(frozen=True)
class Padded:
    """How a tensor came out of a Pad: whoever slides a window over it can pad by himself.

    Attributes:
        value: before it.
        pads: (top, left, bottom, right).
        fill: the integer around.
        shape: ONNX shape of the result.
    """

    value: IntegerStream | Real
    pads: tuple[int, int, int, int]
    fill: int
    shape: tuple[int, ...]


@dataclass
class Builder:
    """Collects nodes, tensors and the meaning of ONNX values.

    Attributes:
        graph: the ONNX graph being imported.
        values: what each ONNX value is in hardware.
        pending: ONNX values that hardware makes when they are quantized.
        constants: quantized constants by the name of the real-valued ONNX value.
        padded: hardware tensors that are images with a constant around them.
        grids: what the integers of hardware tensors stand for, where the model says so.
        snapped: ONNX values of real numbers whose integers the model does not name.
    """

    graph: Graph
    values: dict[str, Hardware] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    constants: dict[str, QuantizedConstant] = field(default_factory=dict)
    padded: dict[str, Padded] = field(default_factory=dict)
    nodes: list[NetworkNode] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)
    entries: dict[str, StreamInput] = field(default_factory=dict)
    snapped: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    # ---- ONNX side ------------------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        """The known shape of an ONNX value."""
        if (unknown := self.unknown_shape(name)) is not None:
            raise unknown
        return tuple(self.graph.values[name].shape)  # type: ignore[arg-type]

    def unknown_shape(self, name: str) -> Obstacle | None:
        """That the shape of an ONNX value is not known, or None where it is."""
        value = self.graph.values.get(name)
        if value is not None and value.shape is not None and all(isinstance(d, int) for d in value.shape):
            return None
        return Obstacle(
            "shape-unknown",
            f"the shape of `{name}` must be known, not {value!r}",
            "bind its dimensions with --dim NAME=NUMBER",
        )

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

    def real(self, node: Node, k: int = 0, *, partial: bool = False) -> Real:
        """An input as real numbers; ``partial`` says that nothing needs to know how they lie on the stream."""
        value = self.values.get(node.inputs[k])
        if isinstance(value, Real) and (partial or not value.partial):
            return value
        raise self.unfit(node, k)

    def unfit(self, node: Node, k: int = 0) -> Obstacle:
        """Why an input is not what a node needs."""
        name = node.inputs[k]
        if isinstance(self.values.get(name), FunctionValue | Real) or name in self.pending:
            return Obstacle(
                "quantize-before",
                f"`{name}` must be quantized before {node.op_type}",
                f"put QuantizeLinear and DequantizeLinear between `{name}` and `{node.label}`",
                name,
            )
        return Obstacle("not-quantized", f"input `{name}` must come from a DequantizeLinear or an operator in hardware")

    # ---- hardware side --------------------------------------------------------------------------------------------

    def enter(self, name: str, shape: tuple[int, ...], integer: Int, dtype: np.dtype, of: str = "") -> IntegerStream:
        """A tensor that the host streams in; the arguments are those of ``StreamInput``."""
        self.entries[name] = StreamInput(name, shape, dtype, integer, of=of)
        return IntegerStream(name, shape, np.arange(int(np.prod(shape, dtype=np.int64))))

    def add(self, name: str, operator: Operator, inputs: Sequence[str], node: Node, output: str = "") -> str:
        """Append a hardware node with one output; returns its tensor's name."""
        name = self._unique(name, {n.name for n in self.nodes})
        output = self._unique(output or name, set(self.tensors) | set(self.entries))
        self.nodes.append(NetworkNode(name, operator, tuple(inputs), (output,), (node.label,)))
        (self.tensors[output],) = operator.results()
        return output

    @staticmethod
    def _unique(name: str, taken: set[str]) -> str:
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}#{number}", number + 1
        return unique

    def data(self, node: Node, k: int = 0) -> IntegerStream | Real:
        """An input as integers or real numbers."""
        value = self.values.get(node.inputs[k])
        return value if isinstance(value, IntegerStream) else self.real(node, k)

    def elements(self, node: Node, k: int = 0, *, partial: bool = False) -> Hardware:
        """An input of a node to which only places matter; ``partial`` as in ``real``."""
        value = self.values.get(node.inputs[k])
        if isinstance(value, IntegerStream) or (isinstance(value, FunctionValue) and (partial or not value.partial)):
            return value
        return self.real(node, k, partial=partial)

    def operand(self, node: Node, k: int = 0) -> IntegerStream | Operand:
        """An input of a node that may wait until it is quantized."""
        name = node.inputs[k]
        if name in self.pending:
            return self.pending[name]
        if name in self.values:
            return self.values[name]
        raise self.unfit(node, k)

    def rises(self, value: IntegerStream | Operand) -> TypeGuard[Hardware]:
        """Whether the greatest integer on the stream of a value always stands for its greatest number."""
        match value:
            case IntegerStream():
                return True
            case Real():
                return not value.partial
            case FunctionValue() if not value.partial:
                first, last = self.settled(value).range
                if last - first >= LONGEST_RISE:
                    return False
                return not (np.diff(value.numbers(np.arange(first, last + 1)[None, :])) < 0).any()
            case _:
                return False

    def least(self, value: Operand) -> Fraction | float:
        """A number that no element of a value is below."""
        match value:
            case Real():
                first, _ = self.settled(value).range
                low = min(slope * first + offset for slope, offset in value.lines())
                return low if value.low is None else max(low, value.low)
            case FunctionValue():
                first, last = self.settled(value).range
                if last - first < LONGEST_RISE:
                    return float(value.numbers(np.arange(first, last + 1)[None, :]).min())
            case Clipped() if value.low is not None:
                return value.low
        return -inf

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

    def positions(self, value: Hardware) -> np.ndarray:
        """(size,) int64: logical flat index -> stream position of a value whose order is fixed."""
        order = self.stream_order(value)
        assert order is not None
        return Layout((1, 1, order.size), order).where

    def want(self, value: T, layout: Layout, node: Node) -> T:
        """A value on a stream of this layout: itself, if it has it or its order is free, else rearranged."""
        tensor, known = self._settle(value, layout), self.stream_order(value)
        if np.array_equal(known, layout.order) and tensor.shape == layout.shape:  # type: ignore[arg-type]
            return value
        return self.moved(value, np.arange(value.where.size), value.shape, node, layout)

    def moved(
        self,
        value: T,
        origin: np.ndarray,
        shape: tuple[int, ...],
        node: Node,
        layout: Layout | None = None,
        fill: int = 0,
    ) -> T:
        """A value whose element k (flat) is element ``origin[k]`` of another, or the integer ``fill`` where that is -1.

        Args:
            shape: of the result.
            layout: of its stream; None for one that is like that of the data.

        Raises:
            Obstacle: no element is left, or too many; or the scales of the channels do not fit the new ones.
        """
        if origin.size > MOST_MOVED:
            raise Obstacle(
                "too-many-moved",
                f"at most {MOST_MOVED:,} elements can change places, not {origin.size:,}, those of {list(shape)}",
            )
        tensor = self.settled(value)
        source = np.where(origin >= 0, self.positions(value)[origin], -1)
        layout = layout or near_layout(source.reshape(shape))
        source = source[layout.order]
        if (source < 0).all():
            raise Obstacle("nothing-left", f"some of the data `{node.inputs[0]}` must be left in the result")
        if not tensor.dtype.min <= fill <= tensor.dtype.max:
            raise Obstacle(
                "fill-value", f"the integer {fill}, which stands for the new elements, is not a {tensor.dtype!r}"
            )
        new = replace(value, shape=shape, where=layout.where)
        if isinstance(new, FunctionValue) and len(new.numbers(np.array([[tensor.range[0]]]))) > 1:
            raise self.unfit(node)  # the channels' functions would have to move along
        if isinstance(new, Real):
            slope, offset = (_per_new_channel(v, source, layout.shape[2], node) for v in (new.slope, new.offset))
            new = replace(new, slope=slope, offset=offset)
        operator = Rearrange(tensor, layout.shape, source, fill)
        return replace(new, tensor=self.add(f"{node.label}/rearrange", operator, [value.tensor], node))

    def image(self, value: T, node: Node) -> tuple[T, Tensor]:
        """A value of shape (1, channels, *space) as a stream (height, width, channels); 1-D space has height 1."""
        value = self.want(value, layout_of_image(value.shape), node)
        return value, self.tensors[value.tensor]

    def vector(self, value: Hardware, node: Node) -> tuple[str, np.ndarray]:
        """A value as one long vector: (tensor of shape (1, 1, size), stream position -> logical flat index)."""
        size = value.where.size
        order = self.stream_order(value)
        if order is None:
            order = np.arange(size)
            self.want(value, Layout((1, 1, size), order), node)
        tensor = self.tensors[value.tensor]
        if tensor.shape[:2] == (1, 1):
            return value.tensor, order
        return self.flat(value.tensor, node), order

    def flat(self, tensor: str, node: Node) -> str:
        """The elements of a tensor on one pixel, in stream order."""
        size = self.tensors[tensor].size
        flatten = Rearrange(self.tensors[tensor], (1, 1, size), np.arange(size))
        return self.add(f"{node.label}/flatten", flatten, [tensor], node)

    def rows(self, value: T, channels: int, node: Node) -> T:
        """A value of shape (..., channels) as a stream whose pixels are its rows, however they lie in an image."""
        rows = value.where.size // channels
        tensor = self.tensors.get(value.tensor)
        fits = tensor is not None and tensor.pixels == rows
        shape = tensor.shape if tensor is not None and fits else (1, rows, channels)
        return self.want(value, Layout(shape, np.arange(value.where.size)), node)

    def settled(self, value: Hardware) -> Tensor:
        """The tensor of a value whose user takes any order: an input gets the order of an image, or its own."""
        return self._settle(value, default_layout(value.shape))

    def _settle(self, value: Hardware, layout: Layout) -> Tensor:
        """The tensor of a value; an input whose order is still free gets this one."""
        entry = self.entries.get(value.tensor)
        if entry is not None and entry.order is None:
            entry.order = value.where[layout.order]
            self.tensors[value.tensor] = Tensor(layout.shape, entry.integer)
        return self.tensors[value.tensor]

    def boundary(self, value: IntegerStream | Real, onnx_name: str, dtype: np.dtype) -> Boundary:
        """Where the integers of an ONNX value leave the hardware, under a name of their own."""
        order = self.stream_order(value)
        assert order is not None
        return Boundary(value.tensor, onnx_name, value.shape, dtype, order)


SCALES_MOVE = "scales-move"
"""Code of the obstacle that elements of channels with scales of their own would come to lie in one channel."""


def layout_of_image(shape: tuple[int, ...]) -> Layout:
    """That of a value [1, channels, *space]."""
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Obstacle("rank", f"the data must be [1, channels, height, width], not {list(shape)}")
    return image_layout(shape)


def _per_new_channel(
    numbers: tuple[Fraction, ...], source: np.ndarray, channels: int, node: Node
) -> tuple[Fraction, ...]:
    """Numbers of the channels an element comes from, as numbers of the channels it goes to."""
    if len(numbers) == 1:
        return numbers
    from_channel = np.where(source >= 0, source % len(numbers), -1).reshape(-1, channels)
    chosen = []
    for column in from_channel.T:
        found = {numbers[channel] for channel in set(column.tolist()) - {-1}}
        if len(found) > 1:
            raise Obstacle(
                SCALES_MOVE,
                f"the data `{node.inputs[0]}` of {node.op_type} must have one scale, not one per channel",
                "put QuantizeLinear and DequantizeLinear before it",
            )
        chosen.append(found.pop() if found else numbers[0])
    return tuple(chosen)
