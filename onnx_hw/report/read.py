"""``report.json`` read back: the same value, or what is wrong with the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.report.model import Report
from onnx_hw.runtime.options import BuildOptions

REPORT = "report.json"


def read_report(folder: Path) -> Report:
    """The report of a build.

    Args:
        folder: of the build, or its ``report.json``.

    Raises:
        UserError: there is none, or this version of onnx-hw did not write it.
    """
    path = folder if folder.name == REPORT and not folder.is_dir() else folder / REPORT
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        hint = "give the folder that `onnx-hw build` has written"
        raise user_error(
            "no-report", f"a build's folder must hold {REPORT}, which {reason}", where=str(path), hint=hint
        ) from None
    except (ValueError, RecursionError) as error:
        raise _unlike(path, f"it is no JSON: {error}") from None
    try:
        report = from_json(Report, stored)
    except _Unlike as error:
        raise _unlike(path, str(error)) from None
    assert isinstance(report, Report)
    return report


def options_of(report: Report, folder: Path) -> BuildOptions:
    """What the build in a folder was asked to do.

    Raises:
        UserError: it came to no design, or was asked for by another version of onnx-hw.
    """
    if report.asked is None or report.design is None:
        hint = "build it again, at least to the stage `schedule`"
        raise user_error("no-design", "the build must have come to a design", where=str(folder), hint=hint)
    try:
        options = from_json(BuildOptions, report.asked.options, "asked.options")
    except _Unlike as error:
        raise _unlike(folder / REPORT, str(error)) from None
    assert isinstance(options, BuildOptions)
    return replace(options, out=folder)


class _Unlike(Exception):
    """A value that is not of its type; the message says where and why."""


def from_json(type_: Any, value: Any, place: str = "the report") -> Any:
    """A value of a type, from what JSON made of it. Keys with defaults may be missing."""
    if get_origin(type_) is Annotated:
        return from_json(get_args(type_)[0], value, place)
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return from_json(inner, value, place)
    if isinstance(type_, type) and issubclass(type_, (Path, Enum)):
        return _spelled(type_, value, place)
    if is_dataclass(type_):
        return _section(type_, value, place)
    if origin is tuple:
        _require(isinstance(value, list), place, "a list")
        return tuple(from_json(arguments[0], entry, f"{place}[{k}]") for k, entry in enumerate(value))
    if origin is Mapping:
        _require(isinstance(value, dict), place, "an object")
        return {key: from_json(arguments[1], entry, f"{place}.{key}") for key, entry in value.items()}
    if type_ is Any:
        return value
    plain = (int, float) if type_ is float else type_
    _require(isinstance(value, plain) and (type_ is bool or not isinstance(value, bool)), place, type_.__name__)
    return value


def _section(type_: Any, value: Any, place: str) -> Any:
    _require(isinstance(value, dict), place, "an object")
    hints = get_type_hints(type_, include_extras=True)
    known = {field.name: field for field in fields(type_)}
    for name in value:
        _require(name in known, f"{place}.{name}", "left out")
    for name, field in known.items():
        needed = field.default is MISSING and field.default_factory is MISSING
        _require(name in value or not needed, f"{place}.{name}", "there")
    return type_(**{name: from_json(hints[name], entry, f"{place}.{name}") for name, entry in value.items()})


def _spelled(type_: type[Path] | type[Enum], value: Any, place: str) -> Path | Enum:
    """A path, or one of several choices, from its text."""
    try:
        return type_(value)
    except (TypeError, ValueError):
        raise _Unlike(f"{place} must be a {type_.__name__.lower()}") from None


def _require(holds: bool, place: str, what: str) -> None:
    if not holds:
        raise _Unlike(f"{place} must be {what}")


def _unlike(path: Path, why: str) -> UserError:
    hint = "build it again"
    return user_error(
        "report-format", f"{REPORT} must be as this version of onnx-hw writes it; {why}", where=str(path), hint=hint
    )
