"""Recommendations for names (C identifiers) and for features (no newer than the IR version). Real files break both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from onnx_hw.messages.text import quote
from onnx_hw.onnx.check.functions import all_nodes
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.source_model import SourceGraph, SourceModel, SourceValue, Type

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

#: IR version that brought a kind of type.
_KIND_SINCE = {"sequence": 6, "map": 6, "sparse_tensor": 8, "optional": 8}


def check_names(model: SourceModel, findings: Findings) -> None:
    """Warn once for all names of a kind, with their number: there may be thousands."""
    graphs = list(_graphs(model))
    names = {graph.name for graph in graphs if graph.name}
    for graph in graphs:
        names.update(value.name for value in (*graph.inputs, *graph.outputs))
        names.update(constant.name for constant in graph.constants)
        for node in graph.nodes:
            names.update((node.name, *node.outputs))
    _report(names, "name-not-identifier", "names should be C identifiers", findings)
    variables = {
        dimension
        for graph in graphs
        for value in (*graph.inputs, *graph.outputs, *graph.values)
        for dimension in _dimensions(value.type)
    }
    _report(variables, "dimension-not-identifier", "names of dimensions should be C identifiers", findings)
    _check_ir_version(model, graphs, findings)


def _report(names: Iterable[str], code: str, rule: str, findings: Findings) -> None:
    others = sorted(name for name in names if name and not _IDENTIFIER.fullmatch(name))
    if others:
        findings.should(code, f"{rule}; {len(others)} are not, such as {quote(others[0])}")


def _dimensions(kind: Type | None) -> Iterator[str]:
    while kind is not None:
        yield from (dimension for dimension in kind.shape or () if isinstance(dimension, str))
        kind = kind.inner


def _graphs(model: SourceModel) -> Iterator[SourceGraph]:
    yield model.graph
    for node in all_nodes(model.graph.nodes):
        yield from node.graphs
    for function in model.functions:
        for node in all_nodes(function.nodes):
            yield from node.graphs


def _check_ir_version(model: SourceModel, graphs: Iterable[SourceGraph], findings: Findings) -> None:
    """Warn of features that the file's IR version lacks; harmless here, but other readers may stumble."""
    newest: dict[str, int] = {}
    for graph in graphs:
        for constant in graph.constants:
            if constant.tensor is not None:
                element = BY_NAME[constant.tensor.element_type]
                newest[element.name] = element.since_ir
            if ".sparse_initializer" in constant.where:
                newest["sparse initializers"] = 6
        for value in (*graph.inputs, *graph.outputs, *graph.values):
            newest.update(_features(value))
        for node in graph.nodes:
            if node.overload:
                newest["overloads"] = 10
    for feature, since in sorted(newest.items()):
        if since > model.ir_version > 0:
            findings.should(
                "newer-feature", f"{feature} needs IR version {since}; the file says {model.ir_version}", "ir_version"
            )


def _features(value: SourceValue) -> Iterator[tuple[str, int]]:
    kind = value.type
    while kind is not None:
        if kind.element in BY_NAME:
            yield kind.element, BY_NAME[kind.element].since_ir
        if kind.kind in _KIND_SINCE:
            yield kind.kind, _KIND_SINCE[kind.kind]
        kind = kind.inner
