"""Builder of the nodes of one hop: buffers before windows, and how values lie over time.

``stream_model`` walks over a model with it; ``stream_rules`` says for each operator what it becomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.graph.fresh_name import unused_name
from onnx_hw.onnx.graph.model import Model, Node, StatePair, Value
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of, node_location

VERSION = 13
"""Opset of the inserted nodes."""


@dataclass(frozen=True)
class OverTime:
    """Value over time.

    Attributes:
        axis: axis of time.
        rate: steps of a hop.
        lag: number of steps by which it comes later than in the whole network.
    """

    axis: int
    rate: int
    lag: int


class IndivisibleHop(Exception):
    """A hop does not hold a whole number of strides."""

    def __init__(self, stride: int) -> None:
        super().__init__(stride)
        self.stride = stride


class HopBuilder:
    """Nodes of a hop so far.

    Attributes:
        over: values over time, by name.
        now: names of values of the last step.
        fixed: names of constants, and of numbers that integers among them stand for.
        nodes, constants, values, inputs: those of the model of a hop so far.
        outputs, states: outputs that are states, and the pairs.
        length: the number of steps of the inputs.
    """

    def __init__(self, model: Model, axes: Mapping[str, int], hop: int) -> None:
        self.model, self.graph, self.hop = model, model.graph, hop
        self.shapes = {name: value.shape for name, value in model.graph.values.items()}
        self.shapes |= {value.name: value.shape for value in model.graph.inputs}
        self.shapes |= {name: array.shape for name, array in model.graph.constants.items()}
        self.over = {name: OverTime(axis, hop, 0) for name, axis in axes.items()}
        self.length = {self.length_of(name, axis) for name, axis in axes.items()}
        self.now: set[str] = set()
        self.fixed = set(model.graph.constants)
        self.nodes: list[Node] = []
        self.makers: dict[str, Node] = {}
        self.constants = dict(model.graph.constants)
        self.values = {name: value for name, value in model.graph.values.items() if name in self.constants}
        self.inputs = [self.hop_of(value, self.over[value.name]) for value in model.graph.inputs]
        self.outputs, self.states = list[Value](), list[StatePair]()
        self.types = {value.name: value.element_type for value in (*model.graph.inputs, *model.graph.values.values())}
        self.taken = {*self.types, *self.constants, *(name for node in model.graph.nodes for name in node.outputs)}

    def require_last(self, node: Node, name: str) -> None:
        """Refuse a last step that needs what comes later."""
        time = self.over[name]
        if self.length_of(name, time.axis) != next(iter(self.length)) * time.rate // self.hop - time.lag:
            raise self.refused(node, "the last step must not need padding behind the sequence")

    def aligned(self, node: Node) -> tuple[list[str], OverTime]:
        """Return the inputs of a node, of which the earlier ones wait for the latest, and its result over time."""
        times = [self.over[name] for name in node.inputs if name in self.over]
        ranks = [len(self.shape_of(name)) for name in node.inputs if name in self.over]
        if len({(time.axis - rank, time.rate) for time, rank in zip(times, ranks, strict=True)}) > 1:
            raise self.refused(node, "the sequences that it joins must have as many steps on one axis")
        latest = max(time.lag for time in times)
        names = [
            self.with_buffer(node, name, 0, latest - self.over[name].lag) if name in self.over else name
            for name in node.inputs
        ]
        rank = len(self.shape_of(node.outputs[0]))
        return names, OverTime(times[0].axis - ranks[0] + rank, times[0].rate, latest)

    def with_buffer(self, node: Node, name: str, more: int, wait: int) -> str:
        """Return the steps of a hop with the ``more`` steps before them, all of them ``wait`` steps later.

        Integers are buffered where the value is made of some.
        """
        time, maker = self.over[name], self.makers.get(name)
        if more + wait == 0:
            return name
        scalar = maker is not None and all(self.size_of(other) == 1 for other in maker.inputs[1:] if other)
        first = 0.0
        if maker is not None and scalar and facts_of(maker).effect is Effect.DEQUANTIZES:
            stored = maker.inputs[0]
            zero = self.constants.get(maker.inputs[2]) if len(maker.inputs) > 2 and maker.inputs[2] else np.zeros(1)
            first = float(zero.reshape(-1)[0]) if zero is not None else 0.0
        else:
            stored, maker = name, None
        length, places = more + wait, list(self.shape_of(name))
        if length > 0:
            places[time.axis] = length
            entering = self.fresh(f"{name}/{node.label}/buffer_in")
            leaving = self.fresh(f"{name}/{node.label}/buffer_out")
            self.inputs.append(Value(entering, self.types[stored], tuple(places)))
            self.add_pair(entering, leaving, first)
            whole = self.add_made("Concat", (entering, stored), axis=time.axis)
            self.add_cut(node, whole, -length, np.iinfo(np.int32).max, time.axis, leaving)
        else:
            whole = stored
        if wait or length < 0:
            whole = self.add_cut(node, whole, max(0, -length), max(0, -length) + more + time.rate, time.axis)
        if maker is None:
            return whole
        result = self.fresh(f"{whole}/dequantized")
        self.add(replace(maker, name="", outputs=(result,)), (whole, *maker.inputs[1:]))
        return result

    def add_cut(self, node: Node, name: str, first: int, end: int, axis: int, result: str = "") -> str:
        parts = [
            self.add_constant(node, what, np.array([k]))
            for what, k in (("first", first), ("end", end), ("along", axis))
        ]
        return self.add_made("Slice", (name, *parts), result)

    def add_made(self, op_type: str, inputs: Sequence[str], result: str = "", **attributes: int) -> str:
        """Add a node; return the name of its result."""
        result = result or self.fresh(f"{inputs[0]}/{op_type.lower()}")
        self.nodes.append(Node("", op_type, "", VERSION, tuple(inputs), (result,), attributes))
        return result

    def add(self, node: Node, inputs: Sequence[str]) -> None:
        made = replace(node, inputs=tuple(inputs))
        self.nodes.append(made)
        self.makers |= dict.fromkeys(made.outputs, made)

    def gives(self, node: Node, time: OverTime) -> None:
        self.over |= {name: time for name in node.outputs if name}

    def add_pair(self, entering: str, leaving: str, first: float) -> None:
        self.states.append(StatePair(entering, leaving, first))
        self.outputs.append(Value(leaving, "", None))

    def add_constant(self, node: Node, what: str, array: np.ndarray) -> str:
        name = self.fresh(f"{node.label}/streaming_{what}")
        self.constants[name] = array.astype(np.int64)
        self.values[name] = Value(name, "int64", array.shape)
        return name

    def fresh(self, wish: str) -> str:
        name = unused_name(wish, self.taken)
        self.taken.add(name)
        return name

    def hop_of(self, value: Value, time: OverTime) -> Value:
        shape = list(value.shape or ())
        shape[time.axis] = time.rate
        return replace(value, shape=tuple(shape))

    def shape_of(self, name: str) -> tuple[int, ...]:
        shape = self.shapes.get(name)
        if shape is None or not all(isinstance(length, int) for length in shape):
            problem = f"a streamed model must have fixed shapes; that of `{name}` is unknown"
            raise UserError(Problem("streaming", problem, "--streaming", "set sizes: --dim NAME=N", "arguments"))
        return tuple(length for length in shape if isinstance(length, int))

    def size_of(self, name: str) -> int:
        return int(self.constants[name].size) if name in self.constants else 0

    def length_of(self, name: str, axis: int) -> int:
        return self.shape_of(name)[axis]

    def refused(self, node: Node | None, what: str) -> UserError:
        where = "" if node is None else node_location(node)
        message = what if node is None else f"{node.op_type} cannot be streamed: {what}"
        hint = "cut the model before this node (--cut-at), or leave --streaming out"
        return UserError(Problem("streaming", message, where, hint, "arguments"))
