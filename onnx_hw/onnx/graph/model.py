"""ONNX graph as plain values: the result of ``read``, on which everything downstream works. No protobuf here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.messages.html import render_value
from onnx_hw.messages.text import printable

MAX_AXES = 63
"""Greatest number of axes: numpy's 64 without the one on which samples are stacked."""


@dataclass(frozen=True)
class Value:
    """Named tensor of the graph with its type.

    Attributes:
        name: as in the file.
        element_type: ONNX name of the element type in lower case, such as ``float``, ``int8``, ``uint4``, ``bfloat16``;
            for a value that is not a dense tensor its whole type, such as ``sequence(float[?,3])``; "" when unknown.
        shape: one entry per axis (an int, a dimension variable's name, or None when unknown), or None for unknown rank.
    """

    name: str
    element_type: str
    shape: tuple[int | str | None, ...] | None

    @property
    def size(self) -> int | None:
        """Number of elements; None where a length is not known."""
        lengths = [length for length in self.shape or () if isinstance(length, int)]
        return prod(lengths) if self.shape is not None and len(lengths) == len(self.shape) else None

    def __repr__(self) -> str:
        dims = "?" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        return printable(f"{self.name}: {self.element_type}[{dims}]")


@dataclass(frozen=True)
class OnnxTensor:
    """Array with its ONNX element type, which the dtype alone does not determine for types that numpy lacks.

    Attributes:
        element_type: ONNX name in lower case, as in ``Value``.
        array: the values in the dtype of ``graph.element_types``: bfloat16 and narrower floats in float32, 4-
            and 2-bit integers in (u)int8, strings as ``str`` in an object array.
    """

    element_type: str
    array: np.ndarray

    def __repr__(self) -> str:
        if self.array.size <= 8:
            return f"{self.element_type}{self.array.tolist()}"
        return f"{self.element_type}[{','.join(map(str, self.array.shape))}]"


@dataclass(frozen=True)
class Node:
    """Operator of the graph, bound to its opset.

    Attributes:
        name: the name in the file; it may be empty (``label`` never is).
        op_type, domain: the operator; ``domain`` is "" for the default domain, however it was spelled.
        version: the opset version imported for the domain.
        inputs, outputs: value names; "" marks an omitted optional one.
        attributes: int, float, str (bytes when it is not UTF-8), numpy array (``OnnxTensor`` for a type that numpy
            lacks), ``Graph``, ``Value`` without a name for a type, or tuples of them.
        where: place in the file, such as ``graph.node[12]``.
    """

    name: str
    op_type: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""

    @property
    def label(self) -> str:
        """Name by which a person finds the node in the model: the node's own, or its first output's."""
        return self.name or next((name for name in self.outputs if name), self.where)

    def __repr__(self) -> str:
        attributes = "".join(f", {key}={value!r}" for key, value in self.attributes.items())
        return printable(f"{', '.join(self.outputs)} = {self.op_type}({', '.join(self.inputs)}{attributes})")


@dataclass(frozen=True)
class Graph:
    """Graph whose nodes are in topological order.

    Attributes:
        inputs: the values that a caller must give (initializers that are also listed as inputs are not among them).
        defaults: names of constants that are also listed as inputs, so that a caller may override them.
        constants: initializers and results of Constant nodes, by name; each has its type in ``values``.
        values: the values whose type is known, by name.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: Mapping[str, np.ndarray]
    values: Mapping[str, Value] = field(default_factory=dict)
    defaults: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(
            [
                printable(f"Graph {self.name}({', '.join(map(repr, self.inputs))})"),
                *(f"  {node!r}" for node in self.nodes),
            ]
        )


@dataclass(frozen=True)
class StatePair:
    """Input and output of a model that are one state: what the output holds in a frame is the next frame's input.

    Attributes:
        input, output: names of both.
        first: every element of the input in the first frame.
    """

    input: str
    output: str
    first: float = 0.0


@dataclass(frozen=True)
class Model:
    """ONNX model that was validated: functions are inlined, operators are bound to their opset version.

    Attributes:
        name: a name for people: the file's stem, or the graph's name.
        graph: the main graph.
        opsets: the imported version of each domain.
        path: the file that it was read from; None if there was no file.
        notes: facts worth a line in the report (ignored training info, batch bound to 1, ...).
        producer: name and version of the program that wrote the file, or "".
        uncut_outputs: outputs of the file, where a cut has replaced them by others; see ``load.cut_model``.
        states: inputs and outputs that the circuit connects from frame to frame; see ``load.pair_states``.
    """

    name: str
    graph: Graph
    opsets: Mapping[str, int]
    ir_version: int
    path: Path | None = None
    notes: tuple[str, ...] = ()
    producer: str = ""
    uncut_outputs: tuple[Value, ...] = ()
    states: tuple[StatePair, ...] = ()

    @property
    def frame_inputs(self) -> tuple[Value, ...]:
        """Inputs of the graph that come with every frame: all but the states."""
        kept = {pair.input for pair in self.states}
        return tuple(value for value in self.graph.inputs if value.name not in kept)

    def __repr__(self) -> str:
        return f"Model {printable(self.name)}\n{self.graph!r}"

    def _repr_html_(self) -> str:
        graph = self.graph
        rows = [(node.label, node.op_type, ", ".join(node.inputs), ", ".join(node.outputs)) for node in graph.nodes]
        facts = {"inputs": ", ".join(map(repr, graph.inputs)), "outputs": ", ".join(map(repr, graph.outputs))}
        return render_value(f"Model {self.name}", facts, "Nodes", ("node", "operator", "reads", "gives"), rows)
