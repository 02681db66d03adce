"""The integer network: a graph of a few hardware operators on integer tensors.

``Network`` is the value in the middle of the house. Its meaning (``golden.py``), its timing (``timing/``) and its
circuit (``assemble.py``) are three views of it. Nothing in it computes with floats; grids ride along so that a report
can speak in real units. The graph has no loop but those that pass a ``feedback`` input, which leads to the next step
(``ops/previous_step.py``) or to the next frame (``ops/kept_state.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.messages.html import render_value
from onnx_hw.messages.text import printable
from onnx_hw.ops.stream_order import HostOrder
from onnx_hw.ops.tensor import Tensor

if TYPE_CHECKING:
    from onnx_hw.onnx.graph.model import Model, Value
    from onnx_hw.ops.operator import Operator


@dataclass(frozen=True)
class NetworkNode:
    """One hardware operator in its place.

    ``inputs`` and ``outputs`` name tensors, in the order of the operator's ports; ``origin`` lists the names of the
    ONNX nodes this one stands for.
    """

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    origin: tuple[str, ...] = ()

    def __repr__(self) -> str:
        typed = zip(self.outputs, self.operator.results(), strict=True)
        results = ", ".join(f"{name}: {type_}" for name, type_ in typed)
        return printable(f"{self.name}: {results} = {self.operator!r}({', '.join(self.inputs)})")


@dataclass(frozen=True)
class Boundary:
    """Border between an ONNX tensor and the hardware.

    The stream carries ``array.reshape(-1)[order]`` of the ONNX tensor's array (one frame, leading batch of 1 kept in
    ``onnx_shape``), viewed as ``tensors[tensor].shape``.

    Attributes:
        tensor: name of the hardware tensor.
        onnx_name: name of the ONNX value that holds exactly these integers.
        onnx_shape: its shape in the model.
        onnx_dtype: its numpy dtype.
        order: (size,) int64, stream position -> flat index in the ONNX array.
        line: (slope, offset), float64, broadcast to ``onnx_shape``, where the ONNX value does not hold the integers but
            the numbers slope · integer + offset; None where it holds the integers.
    """

    tensor: str
    onnx_name: str
    onnx_shape: tuple[int, ...]
    onnx_dtype: np.dtype[Any]
    order: np.ndarray = field(repr=False, compare=False)
    line: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False, compare=False)

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        """Return what the ONNX value holds where the tensor has integers, (..., *onnx_shape): these, or on its line."""
        if self.line is None:
            return integers
        slope, offset = self.line
        return np.asarray(slope * integers + offset)

    @property
    def host_order(self) -> HostOrder:
        """How the host sends or takes the stream's elements, in NHWC order."""
        return HostOrder(self.onnx_shape, self.order)


@dataclass(frozen=True)
class Network:
    """A graph of hardware operators, with the ONNX nodes left to the host around it.

    Attributes:
        name: the model's name.
        nodes: in topological order, but for feedback inputs, which may be made by a later node.
        entries: types of the tensors that enter, by name.
        inputs, outputs: where the hardware meets the ONNX model.
        grids: what integers stand for, by tensor name: for reports, nothing is computed with it.
        head, tail: the ONNX model's nodes that run on the host before and after the hardware, or None where there is
            nothing to do. ``head`` maps the graph's inputs to the ONNX values named by ``inputs`` and ``handed``;
            ``tail`` maps those of ``outputs`` and ``handed`` to graph outputs.
        results: the graph's outputs, by name and in order: each is one of ``outputs``, ``handed`` or made by the tail.
        handed: graph inputs and values of the head that do not pass the hardware, but are read by the tail or are
            graph outputs.
        arguments: the graph's inputs, in order; none where the network does not come from a model.
        held: every ONNX value whose integers a tensor of the network holds, the model's own at ``inputs`` and
            ``outputs`` included: what golden and the model have in common.
        macs: multiply-accumulates of the ONNX nodes that nodes stand for, by the names in ``origin``.
        approximate: by name, how far golden may be from the model in a value that the tail makes of sums of tabled
            numbers, and the numbers that golden rounds from the model's, in steps of the integers that follow a Softmax
            or a normalization; all others are exact.
    """

    name: str
    nodes: tuple[NetworkNode, ...]
    entries: Mapping[str, Tensor]
    inputs: tuple[Boundary, ...]
    outputs: tuple[Boundary, ...]
    grids: Mapping[str, Grid] = field(default_factory=dict)
    head: Model | None = None
    tail: Model | None = None
    results: tuple[str, ...] = ()
    handed: tuple[str, ...] = ()
    arguments: tuple[Value, ...] = ()
    held: tuple[Boundary, ...] = ()
    macs: Mapping[str, int] = field(default_factory=dict)
    approximate: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """The type of every tensor, by name: as it enters, or as its operator makes it."""
        produced = (
            zip(node.outputs, results, strict=False) for node, results in zip(self.nodes, self.made, strict=True)
        )
        return {**self.entries, **{name: tensor for pairs in produced for name, tensor in pairs}}

    @cached_property
    def made(self) -> tuple[tuple[Tensor, ...], ...]:
        """The types of every node's results, which may take a while: asked for once."""
        return tuple(node.operator.results() for node in self.nodes)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops: nodes that all depend on each other, in the network's order."""
        return _find_loops(self)

    @cached_property
    def keepers(self) -> tuple[NetworkNode, ...]:
        """The nodes that keep a state from frame to frame."""
        return tuple(node for node in self.nodes if node.operator.keeps)

    @cached_property
    def one_frame(self) -> Network:
        """The network of one frame, into which the kept states enter as other tensors do; itself without any."""
        if not self.keepers:
            return self
        entering = {name: self.tensors[name] for node in self.keepers for name in node.outputs}
        others = tuple(node for node in self.nodes if not node.operator.keeps)
        return replace(self, nodes=others, entries={**self.entries, **entering})

    @cached_property
    def groups(self) -> tuple[Loop, ...]:
        """The nodes in an order in which values can be computed: a node alone, or those of a loop together."""
        return _in_order_of_meaning(self) if self.loops else tuple((node,) for node in self.nodes)

    def producer(self, tensor: str) -> tuple[NetworkNode, int] | None:
        """Return the node and output index that make a tensor; None for an input of the network."""
        return self._producers.get(tensor)

    def consumers(self, tensor: str) -> tuple[tuple[NetworkNode, int], ...]:
        """Return every (node, input index) that reads a tensor."""
        return self._consumers.get(tensor, ())

    @cached_property
    def fed_back(self) -> frozenset[tuple[str, int]]:
        """(node, input index) of every input that a later node makes, or the node itself."""
        places = {node.name: k for k, node in enumerate(self.nodes)}
        return frozenset(
            (node.name, k)
            for node in self.nodes
            for k, tensor in enumerate(node.inputs)
            if (made := self.producer(tensor)) is not None and places[made[0].name] >= places[node.name]
        )

    def behind(self, node: str) -> set[str]:
        """Return the names of all nodes that a node's results reach, its own among them."""
        return {node} | _reached(self.node(node), lambda n: _readers(self, n))

    def before(self, node: str) -> set[str]:
        """Return the names of all nodes whose results reach a node, its own among them."""
        return {node} | _reached(self.node(node), lambda n: _makers(self, n))

    @cached_property
    def _producers(self) -> dict[str, tuple[NetworkNode, int]]:
        return {tensor: (node, k) for node in reversed(self.nodes) for k, tensor in enumerate(node.outputs)}

    @cached_property
    def _consumers(self) -> dict[str, tuple[tuple[NetworkNode, int], ...]]:
        readers: dict[str, tuple[tuple[NetworkNode, int], ...]] = {}
        for node in self.nodes:
            for k, tensor in enumerate(node.inputs):
                readers[tensor] = (*readers.get(tensor, ()), (node, k))
        return readers

    def node(self, name: str) -> NetworkNode:
        return next(node for node in self.nodes if node.name == name)

    def __repr__(self) -> str:
        return "\n".join([f"Network {printable(self.name)}", *(f"  {node!r}" for node in self.nodes)])

    def _repr_html_(self) -> str:
        def given(node: NetworkNode) -> str:
            return ", ".join(
                f"{name}: {made!r}" for name, made in zip(node.outputs, node.operator.results(), strict=True)
            )

        rows = [(node.name, repr(node.operator), ", ".join(node.inputs), given(node)) for node in self.nodes]
        facts = {"on the host before": _host(self.head), "on the host after": _host(self.tail)}
        return render_value(f"Network {self.name}", facts, "Nodes", ("node", "operator", "reads", "gives"), rows)


def _host(part: Model | None) -> str:
    return "nothing" if part is None else ", ".join(node.op_type for node in part.graph.nodes)


# ---- loops -----------------------------------------------------------------------------------------------------------

Loop = tuple[NetworkNode, ...]
"""Nodes of a loop, or one node that is on none."""


def _find_loops(network: Network) -> tuple[Loop, ...]:
    """Return the loops of a network, none of which share a node; each passes a feedback input."""
    loops: list[Loop] = []
    for node in network.nodes:
        if not node.operator.feedback or any(node in loop for loop in loops):
            continue
        names = _reached(node, lambda n: _readers(network, n)) & _reached(node, lambda n: _makers(network, n))
        if names:
            loops.append(tuple(other for other in network.nodes if other.name in names))
    return tuple(loops)


def _in_order_of_meaning(network: Network) -> tuple[Loop, ...]:
    group = {node.name: (node,) for node in network.nodes} | {
        node.name: loop for loop in network.loops for node in loop
    }
    ordered: dict[str, Loop] = {}  # by the name of the group's first node
    for node in network.nodes:
        waiting = [group[node.name]]
        while waiting:
            missing = [
                group[maker.name]
                for member in waiting[-1]
                for maker in _makers(network, member)
                if group[maker.name] is not waiting[-1] and group[maker.name][0].name not in ordered
            ]
            waiting += missing
            if not missing:
                done = waiting.pop()
                ordered[done[0].name] = done
    return tuple(ordered.values())


def _makers(network: Network, node: NetworkNode) -> list[NetworkNode]:
    return [made[0] for tensor in node.inputs if (made := network.producer(tensor)) is not None]


def _readers(network: Network, node: NetworkNode) -> list[NetworkNode]:
    return [reader for tensor in node.outputs for reader, _ in network.consumers(tensor)]


def _reached(node: NetworkNode, following: Callable[[NetworkNode], Iterable[NetworkNode]]) -> set[str]:
    """Return the names of the nodes to which ways of one step or more lead."""
    names: set[str] = set()
    pending = [node]
    while pending:
        for other in following(pending.pop()):
            if other.name not in names:
                names.add(other.name)
                pending.append(other)
    return names
