"""Keywords of the Python functions in place of the command line's options, in errors and warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.translate_error import as_user_error

NAMES = {"clock": "clock_mhz", "dim": "dimensions", "latency": "latency_us"}
"""Keywords by option, where they differ in more than hyphens."""

_WORDS = """
accuracy-loss bits board calibration check clock cut-at dim engine fastest folding fps inputs latency lenient memory
multipliers newer no-bitstream-check no-gate-level no-witness out output-kind port precision random-calibration
resize seed sqnr state stop-after store streaming strict waves weights
"""
OPTIONS = frozenset(_WORDS.split())
"""Options of ``onnx-hw build`` and ``onnx-hw infer`` that are keywords of ``onnx_hw.build`` and ``onnx_hw.infer``."""

_COMMAND = re.compile(r"(`onnx-hw [^`]*`)")
_QUOTED = re.compile(r"`--([a-z][a-z-]*) ([^`\s]+)`")
_PLAIN = re.compile(r"(?<![\w`-])(`?)--([a-z][a-z-]*)(?: ([\w.]+=[\w.]+(?:,[\w.]+=[\w.]+)*|\d[\d.]*\d|\d))?")


def in_keywords(text: str) -> str:
    """Return a sentence with ``multipliers=3`` in place of ``--multipliers 3``.

    Options of other programs stay, and those of a whole command, which is for a shell.
    """
    return "".join(part if _COMMAND.fullmatch(part) else _in_sentence(part) for part in _COMMAND.split(text))


def _in_sentence(text: str) -> str:
    text = _QUOTED.sub(lambda match: f"`{_spelled(match[1], match[2]) or match[0][1:-1]}`", text)
    return _PLAIN.sub(lambda match: match[1] + (_spelled(match[2], match[3]) or match[0][len(match[1]) :]), text)


@contextmanager
def errors_in_keywords() -> Iterator[None]:
    """Raise every error that a user can mend as a ``UserError`` that names keywords in place of options.

    Programs that are missing or fail, and files that cannot be read, are such errors, too. It is also a decorator.
    """
    try:
        yield
    except Exception as error:
        known = as_user_error(error)
        if known is None:
            raise
        cause = None if known is error else error
        raise UserError(*map(_in_keywords, known.problems), exit_code=known.exit_code) from cause


def _in_keywords(problem: Problem) -> Problem:
    texts = {name: in_keywords(getattr(problem, name)) for name in ("message", "where", "hint")}
    return replace(problem, **texts)


def _spelled(option: str, value: str | None) -> str:
    """Return the keyword of an option, with its value if there is one; empty for an option of another program."""
    if option not in OPTIONS:
        return ""
    if option in ("no-witness", "no-gate-level", "no-bitstream-check"):
        return f"{option.removeprefix('no-').replace('-', '_')}=False"
    name = NAMES.get(option, option.replace("-", "_"))
    if value is None:
        return name
    if option == "state" and ":" in value:
        entering, _, leaving = value.partition(":")
        return f'{name}={{"{entering}": "{leaving}"}}'
    if "=" in value:
        pairs = [pair.partition("=") for pair in value.split(",")]
        spelled = ", ".join(f'"{key}": {number}' for key, _, number in pairs)
        return f"{name}={{{spelled}}}"
    return f"{name}={value}" if re.fullmatch(r"[\d.]+", value) else f'{name}="{value}"'
