"""Result of ``onnx-hw check``: the verdict of the specification, and the obstacles to a circuit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from rich.console import Group
from rich.text import Text

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import abridged, to_json
from onnx_hw.onnx.load.check_file import CheckReport
from onnx_hw.report.fact import Fact

MAX_ENTRY = 200  # characters of a value's name and type


@dataclass(frozen=True)
class CheckResult:
    """Result of both checks.

    Attributes:
        report: result of the check against the ONNX specification.
        obstacles: reasons why no circuit can be built; None where that was not checked, or the file is not valid.
        board: board that it was checked for; empty where that was not checked.
        command: command that builds the model; empty where nothing can be built.
    """

    report: CheckReport
    obstacles: tuple[Problem, ...] | None = None
    board: str = ""
    command: str = ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.report.problems, *(self.obstacles or ()))

    def with_hardware(self, error: UserError | None, board: str = "", command: str = "") -> CheckResult:
        """Return the result with what prevents hardware; what is in the report already is there once, with all hints.

        Args:
            error: result of ``commands.check.check_hardware``.
            board, command: see above.
        """
        obstacles = () if error is None else error.problems
        known = [(problem.code, problem.where) for problem in self.report.problems]
        if not known:
            return CheckResult(self.report, obstacles, board, command if not obstacles else "")
        same = known == [(problem.code, problem.where) for problem in obstacles]
        return CheckResult(replace(self.report, problems=obstacles)) if same else self

    def to_json(self) -> str:
        """Return JSON with the keys of ``report``, and ``obstacles``."""
        obstacles = None if self.obstacles is None else [asdict(obstacle) for obstacle in self.obstacles]
        return to_json({**self.report.to_json(), "obstacles": obstacles})

    def shown(self) -> Group:
        """Return the verdict and the contents of the file, for the terminal."""
        report = self.report
        verdict = Text(f"{abridged(report.path)}: {self._verdict()}")
        facts = _summary(report) if report.summary else {}
        notes = [Fact("note", Text(note)) for note in report.notes]
        following = [Fact("next", Text(f"`{self.command}`"))] if self.command else []
        return Group(verdict, *(Fact(name, Text(text)) for name, text in facts.items()), *notes, *following)

    def _verdict(self) -> str:
        number = len(self.problems)
        problems = f"{number} problem{'s' if number != 1 else ''}"
        if not self.report.valid:
            return f"not a valid ONNX model, {problems}"
        if self.problems:
            return f"valid ONNX that cannot be built, {problems}"
        return "valid ONNX" if self.obstacles is None else f"can be built for {self.board}"


def _summary(report: CheckReport) -> dict[str, str]:
    summary = report.summary
    count_of = summary["nodes"].items()
    nodes = ", ".join(_named(f"{count} {name}" if count > 1 else name) for name, count in count_of)
    opsets = ", ".join(_named(f"{domain} {version}") for domain, version in summary["opsets"].items())
    return {
        "inputs": ", ".join(map(_named, summary["inputs"])) or "none",
        "outputs": ", ".join(map(_named, summary["outputs"])) or "none",
        "nodes": f"{sum(summary['nodes'].values())}: {nodes}",
        "constants": f"{summary['parameters']:,} elements",
        "opsets": f"{opsets}; IR version {summary['ir_version']}",
    }


def _named(entry: str) -> str:
    return abridged(entry, MAX_ENTRY)
