"""Collection of everything that is wrong, odd or worth a note in one file, so that all of it is reported at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import printable

#: The stages of reading, in order. A fault belongs to the first stage that can see it.
STAGES = ("parse", "validate", "external", "capability")

#: Number of findings of one code, after which further ones are only counted: a broken file of 10 000 nodes stays
#: readable.
SHOWN_PER_CODE = 25


@dataclass
class Findings:
    """Problems (refusals), warnings (accepted, but the author should act) and notes (facts for the report).

    Rules of the specification come in four strengths, each with its method:

    * ``must``: always a refusal;
    * ``should``: a warning, and a refusal under ``strict``;
    * ``habit``: a ``must`` that real exporters break: a refusal, and a warning under ``lenient``;
    * ``newer``: the file uses a version we do not know: a refusal, and a warning under ``try_newer``.

    ``refusals`` counts every refusal, also those too many to list.
    """

    strict: bool = False
    lenient: bool = False
    try_newer: bool = False
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: int = 0
    _seen: dict[str, int] = field(default_factory=dict)

    def must(self, code: str, message: str, where: str = "", hint: str = "", stage: str = "validate") -> None:
        """Refuse the file."""
        self._add(self.problems, code, message, where, hint, stage)

    def should(self, code: str, message: str, where: str = "", hint: str = "", stage: str = "validate") -> None:
        """Warn; refuse when strict."""
        self._add(self.problems if self.strict else self.warnings, code, message, where, hint, stage)

    def habit(self, code: str, message: str, where: str = "", hint: str = "", stage: str = "validate") -> None:
        """Refuse; warn when lenient."""
        self._add(self.warnings if self.lenient else self.problems, code, message, where, hint, stage)

    def newer(self, code: str, message: str, where: str = "", hint: str = "", stage: str = "validate") -> None:
        """Refuse a version we do not know; warn when we shall try."""
        self._add(self.warnings if self.try_newer else self.problems, code, message, where, hint, stage)

    def enough(self, code: str) -> bool:
        """Tell whether further findings of a code are only counted, so that hints for them are not needed."""
        return self._seen.get(code, 0) >= SHOWN_PER_CODE

    def note(self, text: str) -> None:
        """Keep a fact for the report, but only once."""
        if printable(text) not in self.notes:
            self.notes.append(printable(text))

    def _add(self, to: list[Problem], code: str, message: str, where: str, hint: str, stage: str) -> None:
        self.refusals += to is self.problems
        count = self._seen[code] = self._seen.get(code, 0) + 1
        if count <= SHOWN_PER_CODE:
            to.append(Problem(code, message, where, hint, stage))
        elif count == SHOWN_PER_CODE + 1:
            to.append(Problem(code, "further findings of this kind are not listed", "", "", stage))

    def failed(self, stage: str | None = None) -> bool:
        """Tell whether there is a refusal, of the given stage if any."""
        return any(stage is None or problem.stage == stage for problem in self.problems)

    def raise_problems(self) -> None:
        """Raise a ``UserError`` with every refusal, those of the earliest stage first."""
        if self.problems:
            raise UserError(*sorted(self.problems, key=lambda problem: STAGES.index(problem.stage)))
