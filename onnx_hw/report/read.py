"""Reading of ``report.json``: the same value, or what is wrong with the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.near_paths import hint_for_build_folder
from onnx_hw.messages.regular_file import require_regular_file
from onnx_hw.report.build_request import SCHEDULING, nested, plain
from onnx_hw.report.model import Report
from onnx_hw.runtime.options import BuildOptions

T = TypeVar("T")

REPORT = "report.json"


def read_report(folder: Path) -> Report:
    """Return the report of a build.

    Args:
        folder: folder of the build, or its ``report.json``.

    Raises:
        UserError: there is no report, or this version of onnx-hw did not write it.
    """
    path = folder if folder.name == REPORT and not folder.is_dir() else folder / REPORT
    try:
        stored = msgspec.json.decode(require_regular_file(path).read_bytes())
    except OSError as error:
        reason = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        hint = hint_for_build_folder(folder, REPORT, "give the folder that `onnx-hw build` has written")
        raise user_error(
            "no-report", f"a build's folder must hold {REPORT}, which {reason}", where=str(path), hint=hint
        ) from None
    except (ValueError, RecursionError) as error:
        raise _format_error(path, f"it is not JSON: {error}") from None
    return _convert(stored, Report, path)


def options_of(report: Report, folder: Path) -> BuildOptions:
    """Return the options of the build in a folder.

    Raises:
        UserError: the build came to no design, or another version of onnx-hw wrote its options.
    """
    if report.asked is None or report.design is None:
        hint = "build it again, at least to the stage `schedule`"
        raise user_error("no-design", "the build must have come to a design", where=str(folder), hint=hint)
    return replace(_convert(nested(report.asked.options), BuildOptions, folder / REPORT, "asked.options"), out=folder)


def _convert(stored: Any, type_: type[T], path: Path, section: str = "") -> T:
    """Return a dataclass from what JSON holds of it. Keys with defaults may be missing; others may not be there.

    Args:
        stored: objects, arrays, texts and numbers.
        path: the file, for the error.
        section: its section that ``stored`` is; empty for the whole report.

    Raises:
        UserError: ``stored`` is not of that type.
    """
    at = f"$.{section}" if section else "$"
    try:
        value = msgspec.convert(stored, type_, dec_hook=lambda inner, text: inner(text))
    except msgspec.ValidationError as error:
        reason = str(error).replace("`$", f"`{at}").replace(f".{SCHEDULING}.", ".")
        raise _format_error(path, reason) from None
    for key in _unknown_keys(stored, plain(value), at):
        raise _format_error(path, f"`{key}` must be left out")
    return value


def _unknown_keys(stored: Any, known: Any, at: str) -> Iterator[str]:
    """Yield the keys of ``stored`` that a value read from it does not have; msgspec ignores them in dataclasses."""
    if isinstance(stored, dict) and isinstance(known, dict):
        for key, entry in stored.items():
            if key in known:
                yield from _unknown_keys(entry, known[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}"
    elif isinstance(stored, list) and isinstance(known, tuple | list):
        for k, (entry, other) in enumerate(zip(stored, known, strict=True)):
            yield from _unknown_keys(entry, other, f"{at}[{k}]")


def _format_error(path: Path, reason: str) -> UserError:
    message = f"{REPORT} must be as this version of onnx-hw writes it; {reason}"
    return user_error("report-format", message, where=str(path), hint="build it again")
