"""Rules for the main graph: its inputs and outputs have a type with a shape, and defaults fit their input."""

from __future__ import annotations

from onnx_hw.messages.text import quote
from onnx_hw.onnx.graph.model import OnnxTensor
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.source_model import SourceGraph, SourceModel, SourceValue, Type

_WITH_SHAPE = ("tensor", "sparse_tensor")


def check_graph(model: SourceModel, findings: Findings) -> None:
    """Check the main graph's inputs, outputs and initializers, and note those that nobody reads."""
    graph = model.graph
    for value in graph.inputs:
        _check_border("input", value, findings)
    for value in graph.outputs:
        _check_border("output", value, findings)
    _check_defaults(graph, findings)
    _check_same_declaration(graph, findings)


def _check_border(what: str, value: SourceValue, findings: Findings) -> None:
    name = quote(value.name)
    if value.type is None:
        # A type that was given and refused has been reported by its reader.
        if value.untyped:
            findings.must(f"{what}-type", f"{what} {name} of the main graph must have a type", value.where)
        return
    if value.type.kind in _WITH_SHAPE and value.type.shape is None:
        report = findings.must if what == "input" else findings.habit
        report(
            f"{what}-shape",
            f"{what} {name} of the main graph must have a shape; its dimensions may be unknown, their number not",
            value.where,
            "" if what == "input" else "--lenient infers it",
        )


def _check_defaults(graph: SourceGraph, findings: Findings) -> None:
    constants = {constant.name: constant for constant in graph.constants}
    for value in graph.inputs:
        constant = constants.get(value.name)
        if constant is None or constant.tensor is None or value.type is None:
            continue
        if not _fits(constant.tensor, value.type):
            findings.must(
                "default-mismatch",
                f"the default of input {quote(value.name)} must be {value.type}, "
                f"not {constant.tensor.element_type}{list(constant.tensor.array.shape)}",
                constant.where,
            )


def _fits(tensor: OnnxTensor, kind: Type) -> bool:
    if kind.kind != "tensor" or kind.element != tensor.element_type:
        return False
    if kind.shape is None:
        return True
    lengths = tensor.array.shape
    return len(lengths) == len(kind.shape) and all(
        not isinstance(declared, int) or declared == length
        for declared, length in zip(kind.shape, lengths, strict=True)
    )


def _check_same_declaration(graph: SourceGraph, findings: Findings) -> None:
    """Check ``value_info``: it may repeat an input or output, but not contradict it."""
    border = {value.name: value for value in (*graph.outputs, *graph.inputs)}
    for value in graph.values:
        other = border.get(value.name)
        if other is None or value.type is None or other.type is None:
            continue
        if not compatible(value.type, other.type):
            findings.must(
                "value-info-contradicts",
                f"value {quote(value.name)} is declared as {value.type} here and as {other.type} at {other.where}",
                value.where,
            )


def compatible(one: Type, other: Type) -> bool:
    """Tell whether two declarations can both be true of one value."""
    if (one.kind, one.element, one.key) != (other.kind, other.element, other.key):
        return False
    if one.inner is not None and other.inner is not None and not compatible(one.inner, other.inner):
        return False
    if one.shape is None or other.shape is None:
        return True
    return len(one.shape) == len(other.shape) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(one.shape, other.shape, strict=True)
    )
