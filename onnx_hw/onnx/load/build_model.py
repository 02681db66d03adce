"""Construction of the ``Model`` from the checked values: resolved names, frozen defaults, Constants as constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.messages.text import quote
from onnx_hw.onnx.check.signatures import check_node
from onnx_hw.onnx.evaluate.dimensions import substitute_dimensions
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Graph, Model, Node, OnnxTensor, Value
from onnx_hw.onnx.graph.signatures import standard_domains
from onnx_hw.onnx.load.inline_functions import Body, Inliner
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.opsets import NEWEST
from onnx_hw.onnx.parse.source_model import SourceGraph, SourceModel, SourceNode, SourceValue, Type


def build_model(source: SourceModel, path: Path | None, findings: Findings) -> Model:
    """Build the ``Model`` of a file in which nothing was refused; notable facts go to ``findings.notes``."""
    builder = GraphBuilder(source.ir_version, Inliner.of(source), findings)
    graph = builder.build(source.graph, Body(source.opsets))
    lengths = _lengths_of_defaults(source.graph, graph, findings)
    if lengths:
        bound = ", ".join(f"{name} = {length}" for name, length in lengths.items())
        findings.note(f"dimensions are bound by defaults of inputs: {bound}")
        graph = substitute_dimensions(graph, lengths)
    name = path.stem if path is not None else source.graph.name
    return Model(name, graph, source.opsets, source.ir_version, path, tuple(findings.notes), source.producer)


@dataclass(frozen=True)
class GraphBuilder:
    """Builder of the graphs of one model, with functions inlined."""

    ir_version: int
    inliner: Inliner
    findings: Findings

    def build(self, source: SourceGraph, body: Body) -> Graph:
        """Build one graph or subgraph, whose names mean what ``body`` says."""
        inlined = len(self.inliner.values)
        constants: dict[str, np.ndarray] = {}
        values: dict[str, Value] = {}
        for value in (*source.values, *source.inputs, *source.outputs):
            values[value.name] = to_value(value)
        for constant in source.constants:
            assert constant.tensor is not None, "a model with refused tensors is not built"
            self._add_constant(constant.name, constant.tensor, constant.where, constants, values)
        listed = [value.name for value in source.inputs]
        defaults = tuple(name for name in listed if name in constants)
        self._note_defaults(defaults)
        nodes = []
        for node, node_body in self.inliner.nodes(source.nodes, body):
            tensor = constant_result(node)
            if tensor is None:
                nodes.append(self._node(node, node_body))
            else:
                self._add_constant(node.outputs[0], tensor, node.location, constants, values)
        for value in self.inliner.values[inlined:]:
            values.setdefault(value.name, to_value(value))
        del self.inliner.values[inlined:]
        return Graph(
            name=source.name,
            nodes=tuple(nodes),
            inputs=tuple(values[name] for name in listed if name not in constants),
            outputs=tuple(to_value(value) for value in source.outputs),
            constants=constants,
            values=values,
            defaults=defaults,
        )

    def _note_defaults(self, names: Sequence[str]) -> None:
        """Note the inputs with a default, which are frozen to it.

        Before IR version 4 listing constants as inputs was the only way to write them; since then it is a choice.
        """
        if names and self.ir_version >= 4:
            shown = ", ".join(quote(name) for name in names[:3]) + (", …" if len(names) > 3 else "")
            self.findings.note(f"inputs with a default value are frozen to it: {len(names)} ({shown})")

    def _add_constant(
        self, name: str, tensor: OnnxTensor, where: str, constants: dict[str, np.ndarray], values: dict[str, Value]
    ) -> None:
        """Add a constant. Its type is that of its data; a declaration may only agree."""
        known = Value(name, tensor.element_type, tensor.array.shape)
        if name in values and not _agrees(values[name], known):
            self.findings.must(
                "declared-type", f"constant {quote(name)} is declared as {values[name]!r}, but is {known!r}", where
            )
        constants[name] = tensor.array
        values[name] = known

    def _node(self, source: SourceNode, body: Body) -> Node:
        version = body.opsets.get(source.domain) or (1 if source.domain else NEWEST[""])
        if body.names is not None and source.domain in standard_domains():
            # Omitted arguments and attributes of the call may leave a node of the function without what it needs.
            check_node(source, version, self.findings)
        return Node(
            name=source.name,
            op_type=source.op_type,
            domain=source.domain,
            version=version,
            inputs=source.inputs,
            outputs=source.outputs,
            attributes={attribute.name: self._attribute(attribute.value, body) for attribute in source.attributes},
            where=source.where,
        )

    def _attribute(self, value: Any, body: Body) -> Any:
        if isinstance(value, tuple):
            return tuple(self._attribute(item, body) for item in value)
        if isinstance(value, SourceGraph):
            return self.build(*self.inliner.graph(value, body))
        if isinstance(value, OnnxTensor) and BY_NAME[value.element_type].native:
            return value.array
        if isinstance(value, Type):
            return _typed("", value)
        return value


def _agrees(declared: Value, known: Value) -> bool:
    if declared.element_type not in ("", known.element_type):
        return False
    shape = known.shape or ()
    return declared.shape is None or (
        len(declared.shape) == len(shape)
        and all(not isinstance(a, int) or a == b for a, b in zip(declared.shape, shape, strict=True))
    )


def _lengths_of_defaults(source: SourceGraph, graph: Graph, findings: Findings) -> dict[str, int]:
    """Return the lengths that frozen defaults of inputs give to the dimension variables of their shapes."""
    lengths: dict[str, int] = {}
    ambiguous = set()
    for value in source.inputs:
        if value.name not in graph.constants or value.type is None or value.type.shape is None:
            continue
        for dimension, length in zip(value.type.shape, graph.constants[value.name].shape, strict=True):
            if isinstance(dimension, str) and lengths.setdefault(dimension, length) != length:
                ambiguous.add(dimension)
                findings.should(
                    "dimension-contradicts",
                    f"dimension {quote(dimension)} should be one number; by the defaults of the graph's inputs it is "
                    f"{lengths[dimension]} and {length}",
                    value.where,
                    "the shapes are inferred without this name",
                )
    return {dimension: length for dimension, length in lengths.items() if dimension not in ambiguous}


def to_value(source: SourceValue) -> Value:
    """Convert a value with its type, as far as it is declared."""
    return Value(source.name, "", None) if source.type is None else _typed(source.name, source.type)


def _typed(name: str, kind: Type) -> Value:
    if kind.kind == "tensor":
        return Value(name, kind.element, kind.shape)
    return Value(name, str(kind), None)


def constant_result(node: SourceNode) -> OnnxTensor | None:
    """Return the tensor that a Constant node produces; None for any other node."""
    if node.op_type != "Constant" or node.domain or len(node.attributes) != 1:
        return None
    kind, value = node.attributes[0].kind, node.attributes[0].value
    if kind in ("tensor", "sparse_tensor"):
        assert isinstance(value, OnnxTensor)
        return value
    if kind in ("float", "floats"):
        return OnnxTensor("float", np.array(value, np.float32))
    if kind in ("int", "ints"):
        return OnnxTensor("int64", np.array(value, np.int64))
    array = np.empty(() if kind == "string" else len(value), object)
    array[...] = value
    return OnnxTensor("string", array)
