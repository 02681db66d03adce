"""Cast of a float model of any float type to float32: it is quantized to integers in any case.

Inputs and outputs keep their types, with a Cast behind each input and before each output. float16 and bfloat16 lose
nothing but their own rounding; double is rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_hw.onnx.evaluate.unroll_control_flow import rename_values
from onnx_hw.onnx.graph.element_types import BY_CODE, BY_NAME
from onnx_hw.onnx.graph.fresh_name import unused_name
from onnx_hw.onnx.graph.model import Graph, Model, Node, OnnxTensor, Value

OTHER_FLOATS = frozenset(("float16", "bfloat16", "double"))
"""Float types other than float32."""

VERSION = 13
"""Opset of the inserted nodes."""

TYPE_ATTRIBUTES = frozenset(("to", "dtype", "output_dtype", "output_datatype"))
"""Attributes that hold the number of an element type."""


def cast_to_float32(model: Model) -> Model:
    """Return the same function, computed in float32; the folded model itself when all its floats are float32."""
    graph = model.graph
    used = {value.element_type for value in (*graph.inputs, *graph.outputs, *graph.values.values())}
    return model if used.isdisjoint(OTHER_FLOATS) else replace(model, graph=_with_casts(_converted(graph), graph))


def _converted(graph: Graph) -> Graph:
    """Return the graph with every float type replaced, those of its inputs and outputs too."""
    types = {**graph.values, **{value.name: value for value in (*graph.inputs, *graph.outputs)}}
    return replace(
        graph,
        nodes=tuple(replace(node, attributes=_attributes(node.attributes)) for node in graph.nodes),
        inputs=_values(graph.inputs),
        outputs=_values(graph.outputs),
        constants={
            name: _float32(array) if name in types and types[name].element_type in OTHER_FLOATS else array
            for name, array in graph.constants.items()
        },
        values={value.name: value for value in _values(graph.values.values())},
    )


def _values(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(replace(v, element_type="float") if v.element_type in OTHER_FLOATS else v for v in values)


def _float32(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # an infinite constant is refused where it is used
        return array.astype(np.float32)


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _attribute(name, value) for name, value in attributes.items()}


def _attribute(name: str, value: Any) -> Any:
    if isinstance(value, Graph):
        return _converted(value)
    if isinstance(value, OnnxTensor):
        return OnnxTensor("float", _float32(value.array)) if value.element_type in OTHER_FLOATS else value
    if isinstance(value, np.ndarray):
        return _float32(value) if value.dtype in (np.float16, np.float64) else value
    if name in TYPE_ATTRIBUTES and isinstance(value, int) and value in BY_CODE and BY_CODE[value].name in OTHER_FLOATS:
        return BY_NAME["float"].code
    return value


def _with_casts(graph: Graph, original: Graph) -> Graph:
    """Return the converted graph between Casts, where the original has other types."""
    others = (v.name for v in (*original.inputs, *original.outputs) if v.element_type in OTHER_FLOATS)
    inside = {name: unused_name(f"{name}/float32", graph.values, graph.constants) for name in others}
    before = [_cast(v.name, inside[v.name], "float") for v in original.inputs if v.name in inside]
    given = {value.name for value in original.inputs}
    after = [_cast(inside[v.name], v.name, v.element_type) for v in original.outputs if v.name in inside.keys() - given]
    values = {**graph.values, **{new: replace(graph.values[old], name=new) for old, new in inside.items()}}
    return replace(
        graph,
        nodes=(*before, *(rename_values(node, inside) for node in graph.nodes), *after),
        inputs=original.inputs,
        outputs=original.outputs,
        constants={inside.get(name, name): array for name, array in graph.constants.items()},
        values={**values, **{v.name: v for v in (*original.inputs, *original.outputs)}},
    )


def _cast(source: str, result: str, element_type: str) -> Node:
    attributes = {"to": BY_NAME[element_type].code}
    return Node(f"{result}/cast", "Cast", "", VERSION, (source,), (result,), attributes)
