"""Table of operators that ``onnx-hw ops`` prints: generated from the registry, so that it cannot be out of date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from onnx_hw.onnx.graph.signatures import operator_names, versions_of
from onnx_hw.onnx.operators import operators
from onnx_hw.onnx.operators.registry import INTERNAL


@dataclass(frozen=True)
class OperatorRow:
    """Row of the table: an operator.

    Attributes:
        domain: "" for the default one.
        name: the operator's.
        versions: opset versions that published it, ascending.
        meanings: those of them from which on another function of ours holds; empty when we have no function.
    """

    domain: str
    name: str
    versions: tuple[int, ...]
    meanings: tuple[int, ...]

    @property
    def reference(self) -> bool:
        """Whether the reference computes it."""
        return bool(self.meanings)


def rows() -> tuple[OperatorRow, ...]:
    """Return every operator that the default domain ever had, and those of other domains that we compute; by name."""
    ours: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for operator in operators():
        if operator.domain == INTERNAL:
            continue
        ours.setdefault((operator.domain, operator.op_type), []).append(operator.versions)
    names = set(ours).union(("", name) for name in operator_names(""))
    result = []
    for domain, name in sorted(names):
        groups = ours.get((domain, name), [])
        versions = versions_of(domain, name) or tuple(sorted({version for group in groups for version in group}))
        result.append(OperatorRow(domain, name, versions, tuple(group[0] for group in groups)))
    return tuple(result)


def markdown(table: Iterable[OperatorRow], hardware: Mapping[tuple[str, str], str]) -> str:
    """Format the rows as a table; ``hardware`` says for each (domain, operator) what becomes of it there."""
    lines = ["| operator | opset versions | reference | hardware |", "|---|---|---|---|"]
    for row in table:
        name = f"{row.domain}.{row.name}" if row.domain else row.name
        versions = ", ".join(map(str, row.versions))
        reference = "yes" if row.reference else "no"
        built = hardware.get((row.domain, row.name), "no")
        lines.append(f"| {name} | {versions} | {reference} | {built} |")
    return "\n".join(lines) + "\n"
