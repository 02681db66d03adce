"""Report of ``onnx-hw check``: everything there is to say about a file, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.check.supported import check_capability
from onnx_hw.onnx.evaluate.dimensions import bind_dimensions
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.load.cut_model import cut_model
from onnx_hw.onnx.load.pair_states import pair_states, state_proposals
from onnx_hw.onnx.load.read import examine
from onnx_hw.onnx.load.stream_model import stream_model
from onnx_hw.onnx.parse.diagnostics import STAGES, Findings

COSMETIC_WARNINGS = frozenset(("model-domain", "name-not-identifier", "dimension-not-identifier"))
"""Warnings that nearly every exporter earns and that harm no reader."""


@dataclass(frozen=True)
class CheckReport:
    """Result of checking a file.

    Attributes:
        valid: whether it is an ONNX model by the specification.
        stage: the first stage that refuses it: ``parse``, ``validate``, ``external``, ``capability``; "" without one.
        problems: every refusal, those of the first stage first.
        warnings: faults that are accepted, but should be mended.
        notes: facts worth knowing.
        summary: ``producer``, ``ir_version``, ``opsets``, ``inputs``, ``outputs``, ``nodes`` (number by operator),
            ``parameters`` (elements of all constants); empty when the file is not valid.
        model: the model, cut and with its states; None when the file is refused. It is not part of the JSON.
    """

    path: str
    valid: bool
    stage: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: Mapping[str, Any]
    model: Model | None = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """Verdict: ``accepted``, ``unsupported`` (valid, but onnx-hw cannot build it), ``refused`` (not valid)."""
        if not self.valid:
            return "refused"
        return "unsupported" if self.problems else "accepted"

    @property
    def remarks(self) -> tuple[Problem, ...]:
        """Warnings that somebody should act upon."""
        return tuple(warning for warning in self.warnings if warning.code not in COSMETIC_WARNINGS)

    def to_json(self) -> dict[str, Any]:
        """Convert the report to plain lists and dictionaries."""
        stored = asdict(replace(self, model=None))
        del stored["model"]
        return {"verdict": self.verdict, **stored}


def check(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    lenient: bool = False,
    newer: bool = False,
    dimensions: Mapping[str, int] | None = None,
    cut_at: Sequence[str] = (),
    state: Sequence[str] = (),
    streaming: bool = False,
) -> CheckReport:
    """Check a file. The arguments are those of ``read``.

    Raises:
        UserError: stage ``arguments``; ``dimensions``, ``cut_at``, ``state`` or ``streaming`` do not fit the model.
            Faults of the file are in the report.
    """
    path = Path(path)
    findings = Findings(strict, lenient, newer)
    model = None
    try:
        model = examine(path, findings)
    except UserError as error:
        findings.problems.extend(error.problems)
    if model is not None and not findings.problems:
        model = pair_states(cut_model(bind_dimensions(model, dimensions or {}), cut_at), state)
        model = stream_model(model).model if streaming else model
        findings.notes.extend([*model.notes[len(findings.notes) :], *state_proposals(model)])
        check_capability(model, findings)
    problems = tuple(sorted(findings.problems, key=lambda problem: STAGES.index(problem.stage)))
    valid = all(problem.stage == "capability" for problem in problems)
    return CheckReport(
        path=str(path),
        valid=valid,
        stage=problems[0].stage if problems else "",
        problems=problems,
        warnings=tuple(findings.warnings),
        notes=tuple(findings.notes),
        summary=_summary(model) if valid and model is not None else {},
        model=model if valid else None,
    )


def _summary(model: Model) -> dict[str, Any]:
    graph = model.graph
    count: dict[str, int] = {}
    for node in graph.nodes:
        name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        count[name] = count.get(name, 0) + 1
    return {
        "producer": model.producer,
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opsets.items()},
        "inputs": [repr(value) for value in graph.inputs],
        "outputs": [repr(value) for value in graph.outputs],
        "nodes": dict(sorted(count.items())),
        "parameters": sum(int(array.size) for array in graph.constants.values()),
    }
