"""Reading of an ONNX file: the only way by which a model comes in.

    bytes ──parse──▶ messages ──translate──▶ source values ──validate──▶ (the same) ──build──▶ Model

Each stage reports everything it finds; the first that refuses ends the reading with one ``UserError``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from onnx_hw.onnx.check.functions import check_functions, check_length
from onnx_hw.onnx.check.graph import check_graph
from onnx_hw.onnx.check.header import check_header, check_ir_version
from onnx_hw.onnx.check.names import check_names
from onnx_hw.onnx.check.scopes import check_scopes
from onnx_hw.onnx.check.shapes import check_shapes, with_inferred_shapes
from onnx_hw.onnx.check.signatures import check_signatures
from onnx_hw.onnx.check.subgraphs import check_subgraphs
from onnx_hw.onnx.check.types import check_types
from onnx_hw.onnx.evaluate.dimensions import bind_dimensions
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.load.build_model import build_model
from onnx_hw.onnx.load.cut_model import cut_model
from onnx_hw.onnx.load.pair_states import pair_states
from onnx_hw.onnx.load.stream_model import stream_model
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.external_data import SideFiles
from onnx_hw.onnx.parse.parse import parse_large_file
from onnx_hw.onnx.parse.source_model import SourceModel
from onnx_hw.onnx.parse.toposort import sort_model
from onnx_hw.onnx.parse.translate import Translator


def read(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    lenient: bool = False,
    newer: bool = False,
    dimensions: Mapping[str, int] | None = None,
    cut_at: Sequence[str] = (),
    state: Sequence[str] = (),
    streaming: bool = False,
) -> Model:
    """Read the model in an ONNX file.

    Args:
        path: the file; external data is looked for in its folder and nowhere else.
        strict: refuse what the specification only recommends against.
        lenient: accept, with a warning, what exporters are known to get wrong.
        newer: try a file of a newer IR or opset version than we know, as if it were the newest we know.
        dimensions: sizes for dimension variables, by name.
        cut_at: tensors that become the outputs; what they do not need is left out. Empty for the whole model.
        state: ``INPUT:OUTPUT`` of each state that is kept from frame to frame; see ``pair_states``.
        streaming: whether the model of a whole sequence becomes that of a hop; see ``stream_model``.

    Raises:
        UserError: everything that is wrong with the file, at once; ``Problem.stage`` is ``parse``, ``validate``,
            ``external`` or ``capability``.
    """
    findings = Findings(strict, lenient, newer)
    model = examine(Path(path), findings)
    findings.raise_problems()
    assert model is not None, "a file without a problem gives a model"
    paired = pair_states(cut_model(bind_dimensions(model, dimensions or {}), cut_at), state)
    return stream_model(paired).model if streaming else paired


def examine(path: Path, findings: Findings) -> Model | None:
    """Report everything there is to say about a file; return its model, or None when it cannot be built.

    Raises:
        UserError: stage ``parse``; the file holds no messages to examine.
    """
    message, raw_data = parse_large_file(path)
    files = SideFiles(path.parent)
    check_ir_version(message, findings)
    check_header(message, findings, files)
    if not message.HasField("graph") or not check_length(message.graph, findings):
        return None
    source = Translator(findings, files, message.ir_version, raw_data).model(message)
    del message, raw_data
    _check_source(source, findings)
    if findings.refusals:
        return None
    if findings.lenient:
        source = sort_model(source)
    model = build_model(source, path, findings)
    return None if findings.refusals else _check_model(model, findings)


def _check_source(source: SourceModel, findings: Findings) -> None:
    """Check what needs neither resolved names nor inlined functions."""
    check_graph(source, findings)
    check_scopes(source, findings)
    check_functions(source, findings)
    check_signatures(source, findings)
    check_subgraphs(source, findings)
    check_names(source, findings)


def _check_model(model: Model, findings: Findings) -> Model:
    """Check that types and shapes of the resolved graph fit; return the model with the inferred shapes."""
    check_types(model, findings)
    if findings.refusals:  # shapes of values whose types do not fit say nothing
        return model
    return with_inferred_shapes(model, check_shapes(model, findings))
