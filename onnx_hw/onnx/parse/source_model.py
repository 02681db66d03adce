"""The content of an ONNX file as plain values, before it is judged: names not resolved, functions not inlined.

Every object knows its place in the file (``where``), such as ``graph.node[12](Conv "c1").attribute[axis]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_hw.messages.text import quote
from onnx_hw.onnx.graph.model import OnnxTensor

#: A dimension: a number, a variable's name, or None when nothing is said.
Dimension = int | str | None


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value.

    Attributes:
        kind: ``tensor``, ``sparse_tensor``, ``sequence``, ``map``, ``optional``, ``opaque``.
        element: name of the element type, for the two tensor kinds.
        shape: of the two tensor kinds; None for unknown rank.
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
    """A graph's input, output, or ``value_info`` entry.

    Attributes:
        type: None when none is given, or when it was refused.
        untyped: none is given.
    """

    name: str
    type: Type | None
    where: str
    untyped: bool = False


@dataclass(frozen=True, slots=True)
class SourceConstant:
    """A dense or sparse initializer; ``tensor`` is None when its data was refused."""

    name: str
    tensor: OnnxTensor | None
    where: str


@dataclass(frozen=True, slots=True)
class SourceAttribute:
    """One attribute of a node.

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
    """One node; ``domain`` is "" for the default domain, however it was spelled."""

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
        """How messages name the operator: with its domain unless it is the default one."""
        name = f"{self.domain}::{self.op_type}" if self.domain else self.op_type
        return name if name.isprintable() and 0 < len(name) <= 80 else quote(name)

    @property
    def place(self) -> str:
        """``where`` with what a person knows the node by: ``graph.node[12](Conv "c1")``."""
        label = self.name or next((name for name in self.outputs if name), "")
        return f"{self.where}({self.operator}{' ' + quote(label) if label else ''})"

    @property
    def graphs(self) -> tuple[SourceGraph, ...]:
        """Every subgraph among the attributes."""
        found: list[SourceGraph] = []
        for attribute in self.attributes:
            values = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
            found.extend(value for value in values if isinstance(value, SourceGraph))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """A graph or subgraph, everything in file order."""

    name: str
    nodes: tuple[SourceNode, ...]
    inputs: tuple[SourceValue, ...]
    outputs: tuple[SourceValue, ...]
    values: tuple[SourceValue, ...]
    constants: tuple[SourceConstant, ...]
    where: str


#: The identity of a function: domain, name, overload.
FunctionKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A model-local function.

    Attributes:
        attributes: names of the attributes without a default.
        defaults: attributes with their default values.
        opsets: imported version by domain.
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
    """A whole file; ``producer`` is the exporter's name and version, for people."""

    ir_version: int
    opsets: dict[str, int]
    graph: SourceGraph
    functions: tuple[SourceFunction, ...]
    producer: str
