"""Reads an ONNX file: the one door through which a model comes in.

    bytes ──parse──▶ messages ──translate──▶ source values ──validate──▶ (the same) ──build──▶ Model

Each stage reports everything it finds; the first that refuses ends the reading with one ``UserError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from onnx_hw.onnx.build import build_model
from onnx_hw.onnx.dimensions import bind_dimensions
from onnx_hw.onnx.external_data import SideFiles
from onnx_hw.onnx.findings import Findings
from onnx_hw.onnx.model import Model
from onnx_hw.onnx.parse import parse_file
from onnx_hw.onnx.translate import Translator


def read(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    lenient: bool = False,
    dimensions: Mapping[str, int] | None = None,
) -> Model:
    """The model in an ONNX file.

    Args:
        path: the file; external data is looked for in its folder and nowhere else.
        strict: refuse what the specification only recommends against.
        lenient: accept, with a warning, what exporters are known to get wrong.
        dimensions: sizes for dimension variables, by name.

    Raises:
        UserError: everything that is wrong with the file, at once; ``Problem.stage`` is ``parse``, ``validate``,
            ``external`` or ``capability``.
    """
    path = Path(path)
    findings = Findings(strict, lenient)
    message = parse_file(path)
    source = Translator(findings, SideFiles(path.parent), message.ir_version).model(message)
    findings.raise_problems()
    return bind_dimensions(build_model(source, path, findings), dimensions or {})
