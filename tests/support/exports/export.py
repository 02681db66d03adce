"""A float model under construction, as a converter writes it: maps of channels, nodes, names.

A map is what one layer hands to the next. ``shape`` is its shape in the file, the batch counted as 1; whether channels
come first or last is the converter's affair. The architectures (``architectures.py``) only know channels and sizes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference


@dataclass(frozen=True)
class Map:
    """Attributes:
    name: of the value.
    shape: (1, channels, *size), or (1, *size, channels) where ``last``.
    """

    name: str
    shape: tuple[int, ...]
    last: bool = False

    @property
    def channels(self) -> int:
        return self.shape[-1] if self.last else self.shape[1]

    @property
    def size(self) -> tuple[int, ...]:
        return self.shape[1:-1] if self.last else self.shape[2:]

    def like(self, name: str, channels: int | None = None, size: Sequence[int] | None = None) -> Map:
        """Another map with its axes in this order."""
        channels, size = channels or self.channels, tuple(self.size if size is None else size)
        return Map(name, (1, *size, channels) if self.last else (1, channels, *size), self.last)


class Export(ABC):
    """What all converters share.

    Attributes:
        batch: how the batch is declared: a number, or a name.
        open_size: whether height and width of the input are declared by names.
        normalization: what is said of a BatchNormalization.
        activations: the functions of this network, one of which follows each convolution.
        shapes: of the inputs, with a batch of 1.
        dimensions: what the names of the input's sizes stand for, if they are open.
    """

    opsets: tuple[int, ...]
    batches: tuple[int | str, ...]

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.opset = int(self.pick(*self.opsets))
        self.batch = self.pick(*self.batches)
        self.open_size = False
        self.activations: tuple[str, ...] = ("relu",)
        self.normalization: dict[str, Any] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dimensions: dict[str, int] = {}
        self.count = 0

    # ---- drawing ----------------------------------------------------------------------------------------------------

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def yes(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def pick(self, *choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    # ---- nodes ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def value_name(self, op_type: str) -> str:
        """A new one, as this converter gives them."""

    @abstractmethod
    def weight_name(self, what: str) -> str:
        """A new one, for weights, biases and statistics."""

    def numbered(self) -> int:
        self.count += 1
        return self.count

    def weights(self, array: np.ndarray, what: str = "weight") -> str:
        return self.initializer(np.asarray(array, dtype=np.float32), self.weight_name(what))

    def initializer(self, array: np.ndarray, name: str) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def drawn_weights(self, *shape: int, inputs: int) -> str:
        """Of a layer each of whose sums has so many terms: data keeps about its spread."""
        return self.weights(self.random.normal(0, 1.3 / np.sqrt(inputs), shape))

    def drawn_bias(self, channels: int) -> str:
        return self.weights(self.random.normal(0, 0.3, channels), "bias")

    def small(self, array: Any, dtype: Any = np.int64) -> str:
        """A constant that is no weight: sizes, axes, bounds."""
        return self.initializer(np.asarray(array, dtype=dtype), self.value_name("Constant"))

    def raw(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A node with one output, whose name comes back."""
        (output,) = self.several(op_type, inputs, 1, **attributes)
        return output

    def several(self, op_type: str, inputs: Sequence[str], results: int, **attributes: Any) -> list[str]:
        names = [self.value_name(op_type) for _ in range(results)]
        name = self.node_name(op_type, names[0])
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=name, **attributes))
        return names

    def node_name(self, op_type: str, output: str) -> str:
        return f"{op_type}_{len(self.nodes)}"

    def follow(self, op_type: str, x: Map, *more: str, **attributes: Any) -> Map:
        """A node that keeps the shape."""
        return Map(self.raw(op_type, [x.name, *more], **attributes), x.shape, x.last)

    def with_axes(self, op_type: str, x: str, axes: Sequence[int], since: int = 13, **attributes: Any) -> str:
        """Squeeze, ReduceMean ...: their axes were an attribute before they became an input."""
        if self.opset >= since:
            return self.raw(op_type, [x, self.small(list(axes))], **attributes)
        return self.raw(op_type, [x], axes=list(axes), **attributes)

    def scalar(self, number: float, x: Map) -> str:
        """An operand for a map."""
        return self.small(number, np.float32)

    # ---- layers -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def input(self, channels: int, size: tuple[int, ...]) -> Map: ...

    def declare_input(self, name: str, shape: tuple[int, ...], declared: Sequence[int | str]) -> None:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, declared))
        self.shapes[name] = shape
        pairs = zip(declared[1:], shape[1:], strict=True)
        self.dimensions |= {said: size for said, size in pairs if isinstance(said, str)}

    @abstractmethod
    def conv(
        self,
        x: Map,
        channels: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        group: int = 1,
        dilation: int = 1,
        activation: str = "none",
    ) -> Map:
        """Padded so that stride 1 keeps the size; with normalization or bias."""

    @abstractmethod
    def transposed_conv(self, x: Map, channels: int) -> Map:
        """Twice the size."""

    @abstractmethod
    def pool(self, x: Map, kind: str) -> Map:
        """About half the size; ``kind`` is Max or Average."""

    @abstractmethod
    def means(self, x: Map) -> Map:
        """Of each channel, size 1."""

    def summary(self, x: Map) -> Map:
        """Means of each channel, (1, channels)."""
        return self.flat(self.means(x))

    @abstractmethod
    def upsampled(self, x: Map) -> Map: ...

    @abstractmethod
    def concat(self, maps: Sequence[Map]) -> Map: ...

    @abstractmethod
    def split(self, x: Map) -> tuple[Map, Map]:
        """Two halves of the channels, of which there is an even number."""

    @abstractmethod
    def padded(self, x: Map) -> Map:
        """Larger by a row or column here and there."""

    @abstractmethod
    def flat(self, x: Map) -> Map:
        """(1, elements)."""

    @abstractmethod
    def dense(self, x: Map, outputs: int, activation: str = "none") -> Map: ...

    @abstractmethod
    def output(self, x: Map) -> None: ...

    def act(self, x: Map, kind: str | None = None) -> Map:
        """A function of every element, by name; by default one of the network's own."""
        kind = kind or self.pick(*self.activations)
        return x if kind == "none" else self.function(x, kind)

    @abstractmethod
    def function(self, x: Map, kind: str) -> Map: ...

    def normalized(self, x: Map) -> Map:
        """BatchNormalization of maps whose channels come first."""
        c = x.channels
        statistics = [
            self.weights(self.random.uniform(0.6, 1.4, c) * (-1 if self.yes(0.05) else 1), "gamma"),
            self.drawn_bias(c),
            self.weights(self.random.normal(0, 0.4, c), "running_mean"),
            self.weights(self.random.uniform(0.5, 1.6, c), "running_var"),
        ]
        return self.follow("BatchNormalization", x, *statistics, **self.normalization)

    def add(self, x: Map, y: Map) -> Map:
        return self.of_two("Add", x, y)

    def mul(self, x: Map, y: Map) -> Map:
        return self.of_two("Mul", x, y)

    def of_two(self, op_type: str, x: Map, y: Map) -> Map:
        return Map(self.raw(op_type, [x.name, y.name]), np.broadcast_shapes(x.shape, y.shape), x.last)

    def excited(self, x: Map, gate: str = "sigmoid") -> Map:
        """Squeeze and excitation."""
        hidden = max(2, x.channels // 4)
        y = self.conv(self.means(x), hidden, 1, activation="relu")
        scale = self.conv(y, x.channels, 1, activation=gate)
        return self.mul(x, scale) if self.yes(0.8) else self.mul(scale, x)

    def per_channel(self, x: Map, low: float, high: float, what: str = "scale") -> str:
        """A constant operand with a number for each channel."""
        axis = len(x.shape) - 1 if x.last else 1
        shape = [x.channels if k == axis else 1 for k in range(len(x.shape))]
        return self.weights(self.random.uniform(low, high, shape), what)

    def prepared(self, x: Map) -> Map:
        """What preprocessing there is in a network: (x - mean) / deviation, or x · scale + offset."""
        way = self.pick("none", "none", "none", "none", "mean", "scale", "node")
        if way == "mean":
            x = self.follow("Sub", x, self.per_channel(x, 0.3, 0.6, "mean"))
            return self.follow("Div", x, self.per_channel(x, 0.5, 1.5, "std"))
        if way == "scale":
            return self.follow("Add", self.follow("Mul", x, self.scalar(0.5, x)), self.scalar(-0.25, x))
        return self.normalized(x) if way == "node" and not x.last else x

    def attended(self, x: Map) -> Map:
        """Means and maxima over the channels say where to look."""
        axis = len(x.shape) - 1 if x.last else 1
        mean = Map(self.with_axes("ReduceMean", x.name, [axis], since=18, keepdims=1), x.shape, x.last)
        most = Map(self.with_axes("ReduceMax", x.name, [axis], since=18, keepdims=1), x.shape, x.last)
        both = self.concat([mean.like(mean.name, 1), most.like(most.name, 1)])
        return self.mul(x, self.conv(both, 1, 3, activation="sigmoid"))

    def shuffled(self, x: Map, groups: int = 2) -> Map:
        """Channels of each group in turn."""
        c, size = x.channels, x.size
        rank = len(size)
        if x.last:
            apart = self.raw("Reshape", [x.name, self.small([1, *size, groups, c // groups])])
            perm = [0, *range(1, rank + 1), rank + 2, rank + 1]
        else:
            apart = self.raw("Reshape", [x.name, self.small([1, groups, c // groups, *size])])
            perm = [0, 2, 1, *range(3, rank + 3)]
        turned = self.raw("Transpose", [apart], perm=perm)
        return x.like(self.raw("Reshape", [turned, self.small([1, *x.shape[1:]])]))

    # ---- the whole --------------------------------------------------------------------------------------------------

    def declared(self, shape: Sequence[int]) -> list[int | str]:
        return [self.batch, *shape[1:]]

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, self.graph_name, self.inputs, self.outputs, self.constants)
        model = helper.make_model(
            graph,
            producer_name=self.producer,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=8 if self.opset < 19 else 10,
        )
        return shape_inference.infer_shapes(model) if self.yes(0.7) else model

    graph_name = "graph"
    producer = ""

    def declare_output(self, name: str, shape: Sequence[int | str | None], element: int = TensorProto.FLOAT) -> None:
        if name not in (value.name for value in self.outputs):
            self.outputs.append(helper.make_tensor_value_info(name, element, shape))


def elements(x: Map) -> int:
    return prod(x.shape)
