"""Exception for everything that a user can cause, and the exit codes of the command line.

Every message has the same shape: what must be, what was given, where in *the user's* file, how to fix it.
Any exception that is not a ``UserError`` is a bug of onnx-hw.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from onnx_hw.messages.text import abridged, printable


class ExitCode(IntEnum):
    """Exit code that the process returns to the shell."""

    OK = 0
    USAGE = 1  # the model or the arguments
    DOES_NOT_FIT = 2  # resources, or an asked-for clock
    TOOL_FAILED = 3  # yosys, nextpnr, a compiler ...
    MISMATCH = 4  # golden differs from the model, or the circuit from golden
    BUG = 70  # of onnx-hw itself; EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130


@dataclass(frozen=True)
class Problem:
    """Independent fault of the user's input, of a tool or of the machine.

    Attributes:
        code: stable, searchable identifier such as ``conv-dilation``.
        message: one sentence that stands alone: what must be, and what was given instead.
        where: place in the user's own file, such as ``graph.node[12](Conv "c1").attribute[axis]``.
        hint: how to fix it, or empty.
        stage: ``parse``, ``validate``, ``external``, ``capability``, ``arguments`` ...

    Message, place and hint are each one printable line of bounded length, whatever names stand in them.
    """

    code: str
    message: str
    where: str = ""
    hint: str = ""
    stage: str = ""

    def __post_init__(self) -> None:
        for name in ("message", "where", "hint"):
            object.__setattr__(self, name, abridged(getattr(self, name)))

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.message}", *self.details()]
        if self.where:
            lines.append(f"  where  {self.where}")
        if self.hint:
            lines.append(f"  hint   {self.hint}")
        return "\n".join(lines)

    def details(self) -> list[str]:
        """Return the lines below the message, indented."""
        return []


@dataclass(frozen=True)
class ToolProblem(Problem):
    """Failure of a tool, with the last lines of its log."""

    last_words: tuple[str, ...] = ()

    def details(self) -> list[str]:
        return [f"    {printable(line)}" for line in self.last_words]


class UserError(Exception):
    """Exception of one or several problems that the user can mend, all reported at once."""

    def __init__(self, *problems: Problem, exit_code: ExitCode = ExitCode.USAGE):
        if not problems:
            raise ValueError("a UserError must carry at least one problem")
        super().__init__(*problems)
        self.problems = problems
        self.exit_code = exit_code

    def __str__(self) -> str:
        return "\n\n".join(str(problem) for problem in self.problems)


def user_error(
    code: str,
    message: str,
    *,
    where: str = "",
    hint: str = "",
    stage: str = "",
    exit_code: ExitCode = ExitCode.USAGE,
) -> UserError:
    """Return a ``UserError`` with a single problem."""
    return UserError(Problem(code, message, where, hint, stage), exit_code=exit_code)
