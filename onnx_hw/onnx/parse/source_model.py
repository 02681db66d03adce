"""Content of an ONNX file as plain values, before it is judged: names not resolved, functions not inlined.

Every object knows its place in the file (``where``), such as ``graph.node[12](Conv "c1").attribute[axis]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_hw.messages.text import quote
from onnx_hw.onnx.graph.model import OnnxTensor

#: Dimension: a number, a variable's name, or None when it is not stated.
Dimension = int | str | None


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a value.

    Attributes:
        kind: ``tensor``, ``sparse_tensor``, ``sequence``, ``map``, ``optional``, ``opaque``.
        element: name of the element type, for the two tensor kinds.
        shape: the dimensions, for the two tensor kinds; None for unknown rank.
        inner: the type inside a sequence, optional or map; None elsewhere.
        key: name of a map's key type.
    """

    kind: str
    element: str = ""
    shape: tuple[Dimension, ...] | None = None
    inner: Type | None = None
    key: str = ""

    def __str__(self) -> str:
        if self.kind in ("tensor", "sparse_tensor"):
            dims = "…" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
            text = f"{self.element}[{dims}]"
            return text if self.kind == "tensor" else f"sparse_tensor({text})"
        if self.kind == "map":
            return f"map({self.key},{self.inner})"
        return self.kind if self.inner is None else f"{self.kind}({self.inner})"


@dataclass(frozen=True, slots=True)
class SourceValue:
    """Input, output, or ``value_info`` entry of a graph.

    Attributes:
        type: the type; None when the file states none, or when it was refused.
        untyped: whether the file states no type.
    """

    name: str
    type: Type | None
    where: str
    untyped: bool = False


@dataclass(frozen=True, slots=True)
class SourceConstant:
    """Dense or sparse initializer; ``tensor`` is None when its data was refused."""

    name: str
    tensor: OnnxTensor | None
    where: str


@dataclass(frozen=True, slots=True)
class SourceAttribute:
    """Attribute of a node.

    Attributes:
        kind: ``int``, ``float``, ``string``, ``tensor``, ``graph``, ``sparse_tensor``, ``type_proto``, or one of these
            with ``s`` for a list.
        value: int, float, str (bytes if not UTF-8), ``OnnxTensor`` (sparse ones expanded), ``SourceGraph``, ``Type``
            or a tuple of them; None for a reference, or when the value was refused.
        reference: name of the function's attribute this one takes its value from, or "".
    """

    name: str
    kind: str
    value: Any
    reference: str
    where: str


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Node in the file; ``domain`` is "" for the default domain, however it was spelled."""

    name: str
    op_type: str
    domain: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[SourceAttribute, ...]
    where: str

    def attribute(self, name: str) -> SourceAttribute | None:
        return next((attribute for attribute in self.attributes if attribute.name == name), None)

    @property
    def operator(self) -> str:
        """Name of the operator in messages: with its domain unless it is the default one."""
        name = f"{self.domain}::{self.op_type}" if self.domain else self.op_type
        return name if name.isprintable() and 0 < len(name) <= 80 else quote(name)

    @property
    def location(self) -> str:
        """``where`` with the name by which a person knows the node: ``graph.node[12](Conv "c1")``."""
        label = self.name or next((name for name in self.outputs if name), "")
        return f"{self.where}({self.operator}{' ' + quote(label) if label else ''})"

    @property
    def graphs(self) -> tuple[SourceGraph, ...]:
        """Subgraphs among the attributes."""
        graphs: list[SourceGraph] = []
        for attribute in self.attributes:
            values = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
            graphs.extend(value for value in values if isinstance(value, SourceGraph))
        return tuple(graphs)


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """Graph or subgraph, everything in the order of the file."""

    name: str
    nodes: tuple[SourceNode, ...]
    inputs: tuple[SourceValue, ...]
    outputs: tuple[SourceValue, ...]
    values: tuple[SourceValue, ...]
    constants: tuple[SourceConstant, ...]
    where: str


#: Identity of a function: domain, name, overload.
FunctionKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """Function that the model defines itself.

    Attributes:
        attributes: names of the attributes without a default.
        defaults: attributes with their default values.
        opsets: the imported version of each domain.
    """

    name: str
    domain: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    defaults: tuple[SourceAttribute, ...]
    nodes: tuple[SourceNode, ...]
    values: tuple[SourceValue, ...]
    opsets: dict[str, int]
    where: str

    @property
    def key(self) -> FunctionKey:
        return self.domain, self.name, self.overload


@dataclass(frozen=True, slots=True)
class SourceModel:
    """Content of a whole file; ``producer`` is the exporter's name and version, for people."""

    ir_version: int
    opsets: dict[str, int]
    graph: SourceGraph
    functions: tuple[SourceFunction, ...]
    producer: str
