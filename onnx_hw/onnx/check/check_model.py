"""The rules of the specification, in the order in which they are checked."""

from __future__ import annotations

from onnx_hw.onnx.check.functions import check_functions
from onnx_hw.onnx.check.graph import check_graph
from onnx_hw.onnx.check.names import check_names
from onnx_hw.onnx.check.scopes import check_scopes
from onnx_hw.onnx.check.shapes import check_shapes, with_found_shapes
from onnx_hw.onnx.check.signatures import check_signatures
from onnx_hw.onnx.check.subgraphs import check_subgraphs
from onnx_hw.onnx.check.types import check_types
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.source_model import SourceModel


def check_source(source: SourceModel, findings: Findings) -> None:
    """What can be told before names are resolved and functions inlined."""
    check_graph(source, findings)
    check_scopes(source, findings)
    check_functions(source, findings)
    check_signatures(source, findings)
    check_subgraphs(source, findings)
    check_names(source, findings)


def check_model(model: Model, findings: Findings) -> Model:
    """What can only be told of the resolved graph: that types and shapes fit. Takes the found shapes."""
    check_types(model, findings)
    if findings.refusals:  # shapes of values whose types do not fit say nothing
        return model
    return with_found_shapes(model, check_shapes(model, findings))
