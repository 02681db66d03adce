"""Network under construction, and the base classes of the values that its streams carry.

A lowering adds hardware nodes to it and sets the order of elements that it needs. The classes of values are in
``lower/values/``: a new kind of value is one class in one file there, which overrides methods of ``LoweredValue``.

Layout is an explicit index array. Every hardware tensor has a *base* order; ``where`` maps each flat index of the ONNX
value, in its logical shape, to a position of that base. Reshape and Transpose only change ``where`` and ``shape``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Boundary, NetworkNode
from onnx_hw.lower.layout.stream_layout import (
    MAX_MOVED_ELEMENTS,
    Layout,
    StreamInput,
    default_layout,
    layout_of_image,
    near_layout,
)
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.quantizers import Quantizer
from onnx_hw.onnx.graph.loops import is_delay
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.tensor import Tensor

Bound = Fraction | None
"""Least or greatest number of a value; None for no bound."""


class LoweredValue:
    """Meaning of an ONNX value for the lowering. The default methods are those of a kind that supports no operation.

    Attributes:
        is_integers: the value consists of the model's own integers, not of real numbers.
        is_pending: no stream carries the value yet; hardware makes it when it is quantized.
        quantizes_inside: a quantizer of this value is applied to another value, element by element.
    """

    is_integers: ClassVar[bool] = False
    is_pending: ClassVar[bool] = False
    quantizes_inside: ClassVar[bool] = False

    if TYPE_CHECKING:  # a dataclass would take an inherited property for the default of its field

        @property
        def shape(self) -> tuple[int, ...]:
            """Shape of the ONNX value."""

    @classmethod
    def cast(cls, value: LoweredValue | None) -> Self | None:
        """Return a value if it is of this kind, else None."""
        return value if isinstance(value, cls) else None

    def streams(self) -> list[StreamValue]:
        """Return the values on streams that this value is made of."""
        raise NotImplementedError

    def clip(self, low: Bound, high: Bound) -> LoweredValue:
        """Return ``min(max(value, low), high)``, element by element."""
        raise NotImplementedError

    def keeps_order(self, builder: NetworkBuilder) -> bool:
        """Return whether the greatest integer on the stream always stands for the greatest number."""
        return False

    def least(self, builder: NetworkBuilder) -> Fraction | float:
        """Return a number that no element is below."""
        return -inf

    def ends(self, builder: NetworkBuilder) -> list[Fraction] | None:
        """Return the numbers of the least and the greatest integer of every channel; None where they are not known."""
        return None

    def integer_for(self, builder: NetworkBuilder, number: Fraction | float) -> int | None:
        """Return the integer on the stream that stands for a number in every channel; None where there is not one."""
        return None

    def quantized(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        """Build the integers that stand for this value on a grid with one scale.

        Raises:
            Obstacle: hardware cannot do that.
        """
        raise builder.obstacle(node)

    def quantized_in_steps(self, builder: NetworkBuilder, node: Node, quantizer: Quantizer) -> IntegerStream:
        """Build the integers of a quantizer with a scale per channel or with rising thresholds.

        Raises:
            Obstacle: hardware cannot do that.
        """
        raise builder.obstacle(node)

    def negated(self, builder: NetworkBuilder, node: Node) -> StreamValue | None:
        """Build the numbers with the other sign; None where that is not possible at no cost."""
        return None

    def for_channel_grids(self, builder: NetworkBuilder, node: Node) -> LoweredValue:
        """Return the value as a quantizer with a scale per channel or with thresholds can take it."""
        return self

    def on_stream(self, builder: NetworkBuilder, node: Node) -> StreamValue | None:
        """Build real numbers on a stream from a pending value that nothing quantizes; None where that is impossible."""
        return None

    def as_summands(self, builder: NetworkBuilder, node: Node, *, zeros: bool) -> Any:
        """Build the data of an average or a sum: a ``Real`` without bounds.

        Args:
            zeros: whether zeros are added, too; then an integer must stand for 0.

        Raises:
            Obstacle: the data must be quantized.
        """
        raise builder.obstacle(node)

    def of_both_operands(self, function: Callable[[Any, str], Any]) -> LoweredValue | None:
        """Return the sum of a linear function of two operands that cannot share a stream; None for other values.

        Args:
            function: maps a ``Real`` and the name of the operand, ``first`` or ``second``, to a ``Real``.
        """
        return None

    def without_pads(self, builder: NetworkBuilder) -> tuple[LoweredValue, tuple[int, int, int, int]] | None:
        """Return the image and its pads (top, left, bottom, right), if no maximum depends on the pads; else None."""
        return None


@dataclass(frozen=True)
class StreamValue(LoweredValue):
    """Value whose elements are on a stream.

    Attributes:
        tensor: name of the hardware tensor.
        shape: shape of the ONNX value.
        where: (size,) int64: logical flat index -> position in the tensor's base order.
    """

    tensor: str
    shape: tuple[int, ...]
    where: np.ndarray = field(repr=False)

    is_linear: ClassVar[bool] = True
    """Each number is ``clip(slope · x + offset)`` of its integer x; integers stand for themselves."""

    @property
    def is_complete(self) -> bool:
        """Whether ``where`` names every position of the stream once."""
        return True

    @property
    def is_clipped(self) -> bool:
        """Whether the numbers have bounds."""
        return False

    @property
    def has_one_scale(self) -> bool:
        """Whether integers of all channels stand for the same numbers, a linear function of them, apart from bounds."""
        return True

    @property
    def scale_key(self) -> Hashable | None:
        """Scale of the integers, to be compared with other values; None where channels differ."""
        return None

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        """Return the float64 numbers of integers: (1 or channels, n) to (1 or channels, n)."""
        raise NotImplementedError

    def streams(self) -> list[StreamValue]:
        return [self]

    def whole(self, size: int) -> Self:
        """Return all numbers of the tensor, of ``size`` elements, in its own order."""
        return replace(self, shape=(size,), where=np.arange(size))

    def differs_by_channel(self, builder: NetworkBuilder) -> bool:
        """Return whether integers of several channels stand for different numbers: then only quantized ones move."""
        return False

    def moved_by(
        self, builder: NetworkBuilder, node: Node, shape: tuple[int, ...], layout: Layout, source: np.ndarray
    ) -> Self:
        """Return the meaning of the elements after a move; the tensor is still the old one.

        Args:
            layout: order of the result on its stream.
            source: stream position of the result -> stream position of the operand, or -1.

        Raises:
            Obstacle: the scales of the channels do not fit the new ones.
        """
        return replace(self, shape=shape, where=layout.where)

    def concatenated_as(
        self, tensor: str, shape: tuple[int, ...], where: np.ndarray, parts: Sequence[StreamValue]
    ) -> Self:
        """Return the concatenation of values of this kind and scale, which is on ``tensor``."""
        return replace(self, tensor=tensor, shape=shape, where=where)


@dataclass(frozen=True)
class IntegerStream(StreamValue):
    """Integers of the model on a stream."""

    is_integers: ClassVar[bool] = True

    @property
    def scale_key(self) -> Hashable | None:
        return "integers"

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        return integers.astype(np.float64)

    def keeps_order(self, builder: NetworkBuilder) -> bool:
        return True

    def integer_for(self, builder: NetworkBuilder, number: Fraction | float) -> int | None:
        return None if isinstance(number, float) else int(number)


T = TypeVar("T", bound=StreamValue)


@dataclass
class NetworkBuilder:
    """Collection of hardware nodes and tensors, and of the meaning of ONNX values in hardware.

    Attributes:
        graph: the ONNX graph that is lowered.
        values: ONNX values on streams, by name.
        pending: ONNX values that hardware makes when they are quantized, by name.
        nodes: hardware nodes, in topological order.
        tensors: types of hardware tensors, by name.
        grids: grid of the integers of hardware tensors, by name, where the model states it.
        entries: tensors that the host streams in, by name.
        approximate: greatest distance of the numbers that golden rounds from the model's, in steps, by ONNX name.
        splits_functions: whether a function that is too large for a table becomes the difference of two rising ones.
        loadable: whether constants that depend on weights and scales must be such as can be loaded at run time.
    """

    graph: Graph
    values: dict[str, StreamValue] = field(default_factory=dict)
    pending: dict[str, LoweredValue] = field(default_factory=dict)
    nodes: list[NetworkNode] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)
    entries: dict[str, StreamInput] = field(default_factory=dict)
    approximate: dict[str, float] = field(default_factory=dict)
    splits_functions: bool = False
    loadable: bool = False

    @cached_property
    def has_loops(self) -> bool:
        """Whether the graph has loops over time: a step is a row of a tensor in hardware."""
        return any(map(is_delay, self.graph.nodes))

    def obstacle(self, node: Node, k: int = 0) -> Obstacle:
        """Return the obstacle that input ``k`` is not of the kind that a node needs."""
        name = node.inputs[k]
        value = self.values.get(name)
        if name in self.pending or (value is not None and not value.is_integers):
            return Obstacle(
                "quantize-before",
                f"`{name}` must be quantized before {node.op_type}",
                f"put QuantizeLinear and DequantizeLinear between `{name}` and `{node.label}`",
                name,
            )
        return Obstacle("not-quantized", f"input `{name}` must come from a DequantizeLinear or an operator in hardware")

    def define(self, name: str, value: LoweredValue) -> None:
        """Set the meaning of an ONNX value: on a stream, or pending."""
        stream = StreamValue.cast(value)
        if stream is None:
            self.pending[name] = value
        else:
            self.values[name] = stream

    # ---- nodes and tensors ----------------------------------------------------------------------------------------

    def add_input(
        self, name: str, shape: tuple[int, ...], integer: Int, dtype: np.dtype, of: str = ""
    ) -> IntegerStream:
        """Add a tensor that the host streams in; the arguments are those of ``StreamInput``."""
        self.entries[name] = StreamInput(name, shape, dtype, integer, of=of)
        return IntegerStream(name, shape, np.arange(int(np.prod(shape, dtype=np.int64))))

    def add(self, name: str, operator: Operator, inputs: Sequence[str], node: Node, output: str = "") -> str:
        """Append a hardware node with one output; return the name of its tensor."""
        name = self._unique(name, {n.name for n in self.nodes})
        output = self._unique(output or name, set(self.tensors) | set(self.entries))
        self.nodes.append(NetworkNode(name, operator, tuple(inputs), (output,), (node.label,)))
        (self.tensors[output],) = operator.results()
        return output

    @staticmethod
    def _unique(name: str, used: set[str]) -> str:
        number = 2
        unique = name
        while unique in used:
            unique, number = f"{name}#{number}", number + 1
        return unique

    def carry_grid(self, source: str, result: str) -> None:
        """Give a result tensor the grid of its source: equal integers stand for equal numbers."""
        if source in self.grids:
            self.grids[result] = self.grids[source]

    def integer_type(self, value: StreamValue) -> Int:
        """Return the type of the integers on a value's stream."""
        entry = self.entries.get(value.tensor)
        return entry.integer if entry is not None else self.tensors[value.tensor].dtype

    # ---- order of elements ----------------------------------------------------------------------------------------

    def stream_order(self, value: StreamValue) -> np.ndarray | None:
        """Return stream position -> logical flat index of a value; None while the host may still choose."""
        entry = self.entries.get(value.tensor)
        logical = np.empty(value.where.size, dtype=np.int64)
        logical[value.where] = np.arange(value.where.size)
        if entry is None:
            return logical
        return None if entry.order is None else logical[entry.order]

    def positions(self, value: StreamValue) -> np.ndarray:
        """Return (size,) int64: logical flat index -> stream position of a value whose order is fixed."""
        order = self.stream_order(value)
        assert order is not None
        return Layout((1, 1, order.size), order).where

    def materialize(self, value: StreamValue) -> Tensor:
        """Return the tensor of a value for a reader of any order: a free input gets an image's order, or its own."""
        return self._fix_order(value, default_layout(value.shape))

    def request_layout(self, value: T, layout: Layout, node: Node) -> T:
        """Return a value on a stream of a layout: itself if it has that order or its order is free, else rearranged."""
        tensor, known = self._fix_order(value, layout), self.stream_order(value)
        if np.array_equal(known, layout.order) and tensor.shape == layout.shape:  # type: ignore[arg-type]
            return value
        return self.moved(value, np.arange(value.where.size), value.shape, node, layout)

    def _fix_order(self, value: StreamValue, layout: Layout) -> Tensor:
        """Return the tensor of a value; an input whose order is still free gets this one."""
        entry = self.entries.get(value.tensor)
        if entry is not None and entry.order is None:
            entry.order = value.where[layout.order]
            self.tensors[value.tensor] = Tensor(layout.shape, entry.integer)
        return self.tensors[value.tensor]

    def moved(
        self,
        value: T,
        origin: np.ndarray,
        shape: tuple[int, ...],
        node: Node,
        layout: Layout | None = None,
        fill: int = 0,
    ) -> T:
        """Build a value whose element k (flat) is element ``origin[k]`` of another, or ``fill`` where that is -1.

        Args:
            shape: shape of the result.
            layout: layout of its stream; None for the one nearest to the order of the data.
            fill: integer of the new elements.

        Raises:
            Obstacle: no element is left, or too many; or the scales of the channels do not fit the new ones.
        """
        if (count := origin.size) > MAX_MOVED_ELEMENTS:
            limit = f"at most {MAX_MOVED_ELEMENTS:,} elements can change places"
            raise Obstacle("too-many-moved", f"{limit}, not {count:,}, those of {list(shape)}")
        tensor = self.materialize(value)
        source = np.where(origin >= 0, self.positions(value)[origin], -1)
        layout = layout or near_layout(source.reshape(shape))
        source = source[layout.order]
        if (source < 0).all():
            raise Obstacle("nothing-left", f"some of the data `{node.inputs[0]}` must be left in the result")
        if not tensor.dtype.min <= fill <= tensor.dtype.max:
            raise Obstacle(
                "fill-value", f"the integer {fill}, which stands for the new elements, is not a {tensor.dtype!r}"
            )
        result = value.moved_by(self, node, shape, layout, source)
        operator = Rearrange(tensor, layout.shape, source, fill)
        return replace(result, tensor=self.add(f"{node.label}/rearrange", operator, [value.tensor], node))

    def placed(self, value: T, origin: np.ndarray, node: Node, fill: int = 0) -> T:
        """Build a value of another one's elements; add no hardware if each of them occurs once.

        Args:
            origin: flat index in ``value`` of each element, or -1 for ``fill``; it has the shape of the result.
        """
        flat, shape = origin.reshape(-1).astype(np.int64), origin.shape
        if flat.size == value.where.size and (np.bincount(flat[flat >= 0], minlength=flat.size) == 1).all():
            return replace(value, shape=shape, where=value.where[flat])
        if (flat >= 0).all() and (not value.is_complete or value.differs_by_channel(self)):
            return replace(value, shape=shape, where=value.where[flat], partial=True)  # type: ignore[call-arg]
        return self.moved(value, flat, shape, node, fill=fill)

    def image(self, value: T, node: Node) -> tuple[T, Tensor]:
        """Build a value [1, channels, *space] as a stream (height, width, channels); 1-D space has height 1."""
        value = self.request_layout(value, layout_of_image(value.shape), node)
        return value, self.tensors[value.tensor]

    def vector(self, value: StreamValue, node: Node) -> tuple[str, np.ndarray]:
        """Build a value as one long vector: (tensor of shape (1, 1, size), stream position -> logical flat index)."""
        size = value.where.size
        order = self.stream_order(value)
        if order is None:
            order = np.arange(size)
            self.request_layout(value, Layout((1, 1, size), order), node)
        is_flat = self.tensors[value.tensor].shape[:2] == (1, 1)
        return value.tensor if is_flat else self.flat(value.tensor, node), order

    def flat(self, tensor: str, node: Node) -> str:
        """Build a tensor whose elements are on one pixel, in stream order; return its name."""
        size = self.tensors[tensor].size
        flatten = Rearrange(self.tensors[tensor], (1, 1, size), np.arange(size))
        return self.add(f"{node.label}/flatten", flatten, [tensor], node)

    def rows(self, value: T, channels: int, node: Node) -> T:
        """Build a value [..., channels] as a stream whose pixels are its rows, in an image of any height and width."""
        rows = value.where.size // channels
        tensor = self.tensors.get(value.tensor)  # in an image of one row, it changes before a loop, not in it
        fits = tensor is not None and tensor.pixels == rows and not (self.has_loops and tensor.shape[0] == 1)
        free = (rows, 1, channels) if self.has_loops else (1, rows, channels)
        if self.has_loops and len(value.shape) == 3 and min(value.shape[:2]) > 1:  # sequences: time comes first
            free = value.shape[0], value.shape[1], channels
        shape = tensor.shape if tensor is not None and fits else free
        return self.request_layout(value, Layout(shape, np.arange(value.where.size)), node)

    def boundary(self, value: StreamValue, onnx_name: str, dtype: np.dtype) -> Boundary:
        """Return the boundary where the integers of a value leave the hardware, with their own ONNX name and dtype."""
        order = self.stream_order(value)
        assert order is not None
        return Boundary(value.tensor, onnx_name, value.shape, dtype, order)
