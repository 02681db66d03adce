"""Rules for element types: the operators' inputs and outputs and the declarations of the file must agree."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

import numpy as np

from onnx_hw.messages.text import quote
from onnx_hw.onnx.graph.element_types import BY_CODE, element_type_of
from onnx_hw.onnx.graph.model import Graph, Model, Node, OnnxTensor, Value
from onnx_hw.onnx.graph.signatures import Parameter, Signature, signature_of
from onnx_hw.onnx.parse.diagnostics import Findings

_SHAPE = re.compile(r"\[[^]]*\]")

#: Operators whose result type an attribute names: attribute, and the type when it is absent ("" means input 0's).
_TYPE_ATTRIBUTES: Final = {
    "Cast": ("to", ""),
    "EyeLike": ("dtype", ""),
    "RandomNormal": ("dtype", "float"),
    "RandomUniform": ("dtype", "float"),
    "RandomNormalLike": ("dtype", ""),
    "RandomUniformLike": ("dtype", ""),
    "Bernoulli": ("dtype", ""),
    "Multinomial": ("dtype", "int32"),
    "QuantizeLinear": ("output_dtype", "uint8"),
    "HannWindow": ("output_datatype", "float"),
    "HammingWindow": ("output_datatype", "float"),
    "BlackmanWindow": ("output_datatype", "float"),
}


def check_types(model: Model, findings: Findings) -> None:
    """Check every node of the main graph and its subgraphs; functions are inlined already."""
    _check_graph(model.graph, {}, findings)


def element_types(graph: Graph) -> Mapping[str, str]:
    """Return the type of each value without shapes, as signatures name it, as far as it is known; else ""."""
    return _check_graph(graph, {}, Findings())


def _check_graph(graph: Graph, outer: MutableMapping[str, str], findings: Findings) -> MutableMapping[str, str]:
    """Check a graph; return the type of each value after the whole graph, "" for unknown."""
    types: MutableMapping[str, str] = ChainMap({}, outer)
    for value in graph.inputs:
        types[value.name] = type_without_shape(value)
    for name in graph.constants:
        types[name] = type_without_shape(graph.values[name])
    for node in graph.nodes:
        results = _node_results(node, types, findings)
        for name, computed in zip(node.outputs, results, strict=True):
            if not name:
                continue
            declared = type_without_shape(graph.values[name]) if name in graph.values else ""
            if computed and declared and computed != declared:
                findings.must(
                    "declared-type",
                    f"value {quote(name)} is declared as {declared}, but {node.op_type} gives {computed}",
                    node_location(node),
                )
            types[name] = computed or declared
    produced = {name for node in graph.nodes for name in node.outputs}  # compared above
    for value in graph.outputs:
        declared, computed = type_without_shape(value), types.get(value.name, "")
        if declared and computed and declared != computed and value.name not in produced:
            findings.must("declared-type", f"output {quote(value.name)} is declared as {declared}, but is {computed}")
    return types


def type_without_shape(value: Value) -> str:
    """Return a value's type without shapes, as signatures name it: ``float``, ``sequence(float)``."""
    return _SHAPE.sub("", value.element_type)


def node_location(node: Node) -> str:
    """Return the location of a node for messages: ``graph.node[12](Conv "c1")``."""
    return f"{node.where}({node.op_type} {quote(node.label)})"


def _node_results(node: Node, types: MutableMapping[str, str], findings: Findings) -> list[str]:
    """Check the types of a node's inputs; return those of its outputs."""
    bodies = {
        name: _check_graph(graph, types, findings)
        for name, graph in node.attributes.items()
        if isinstance(graph, Graph)
    }
    signature = signature_of(node.domain, node.op_type, node.version)
    if signature is None or signature.deprecated:
        return [""] * len(node.outputs)
    bound = _bind_inputs(node, signature, types, findings)
    if node.op_type == "If" and not node.domain:
        return _branch_results(node, bodies, findings)
    return [
        _result(parameter, node, bound, types) for parameter in _expand_parameters(signature.outputs, len(node.outputs))
    ]


def _branch_results(node: Node, bodies: Mapping[str, Mapping[str, str]], findings: Findings) -> list[str]:
    """Return the types of an If: those of its branches, which must agree."""
    results = []
    names = [[value.name for value in node.attributes[branch].outputs] for branch in ("then_branch", "else_branch")]
    for index, pair in enumerate(zip(*names, strict=True)):
        one, other = (
            bodies[branch].get(name, "") for branch, name in zip(("then_branch", "else_branch"), pair, strict=True)
        )
        if one and other and one != other:
            findings.must(
                "branch-types-differ",
                f"output {index} of both branches must have one type; it is {one} in one and {other} in the other",
                node_location(node),
            )
        results.append(one or other)
    return results


def _expand_parameters(parameters: Sequence[Parameter], count: int) -> list[Parameter]:
    """Yield one parameter for each of ``count`` values."""
    return [parameters[min(index, len(parameters) - 1)] for index in range(count)] if parameters else []


def _bind_inputs(node: Node, signature: Signature, types: Mapping[str, str], findings: Findings) -> dict[str, str]:
    """Return the type that each variable of the signature stands for at this node."""
    bound: dict[str, str] = {}
    giver: dict[str, str] = {}
    for parameter, name in zip(_expand_parameters(signature.inputs, len(node.inputs)), node.inputs, strict=False):
        actual = types.get(name, "") if name else ""
        if not actual:
            continue
        if actual not in parameter.types:
            findings.must(
                "input-type",
                f"input {parameter.name} of {node.op_type} (opset {signature.since}) must be "
                f"{_either(parameter.types)}; {quote(name)} is {actual}",
                node_location(node),
            )
        elif parameter.variable and parameter.same:
            expected = bound.setdefault(parameter.variable, actual)
            giver.setdefault(parameter.variable, name)
            if expected != actual:
                findings.must(
                    "input-types-differ",
                    f"inputs of {node.op_type} must have one type; {quote(giver[parameter.variable])} is {expected}, "
                    f"{quote(name)} is {actual}",
                    node_location(node),
                    "insert a Cast",
                )
    return bound


def _either(types: frozenset[str]) -> str:
    names = sorted(types)
    return ", ".join(names[:-1]) + f" or {names[-1]}" if len(names) > 1 else names[0]


def _result(parameter: Parameter, node: Node, bound: Mapping[str, str], types: Mapping[str, str]) -> str:
    if parameter.variable in bound and parameter.same:
        return bound[parameter.variable]
    if len(parameter.types) == 1:
        return next(iter(parameter.types))
    if node.domain:
        return ""
    if node.op_type in _TYPE_ATTRIBUTES:
        attribute, default = _TYPE_ATTRIBUTES[node.op_type]
        return _named_type(node.attributes.get(attribute)) or default or types.get(node.inputs[0], "")
    if node.op_type == "ConstantOfShape":
        value: Any = node.attributes.get("value", np.zeros(1, np.float32))
        return value.element_type if isinstance(value, OnnxTensor) else element_type_of(value.dtype).name
    return ""


def _named_type(code: Any) -> str:
    """Return the element type that an attribute names, by number or (opset 1) by upper-case name; "" for none."""
    if isinstance(code, str):
        return code.lower()
    return BY_CODE[code].name if isinstance(code, int) and code in BY_CODE else ""
