"""The report's JSON Schema and its description, both generated from the dataclasses.

``python -m onnx_hw.report.json_schema DOCS`` writes them into a folder again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from onnx_hw.report.model import Report

SCHEMA_FILE = "report.schema.json"
DESCRIPTION_FILE = "report.md"

INTRODUCTION = """\
# report.json

Every `onnx-hw build` writes `report.json` into its folder; with `--json` the same text goes to standard output. Beside
it lies `report.html`: the same facts as a page that opens in a browser, without a network. A section is `null` when the
build ended before the stage that fills it (`--stop-after`). The JSON Schema is
[`report.schema.json`](report.schema.json). Both files are generated: `python -m onnx_hw.report.json_schema docs`.

Cycles are clock cycles of the circuit; resources are counted in the chip's own units
([boards.md](boards.md)): LUT4, flip-flops, and multipliers and block RAMs of its family.
"""


def json_schema() -> dict[str, Any]:
    """The schema, draft 2020-12: every key is required, no other is allowed."""
    definitions = {section.__name__: _object(section) for section in sections() if section is not Report}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "report.json of onnx-hw",
        **_object(Report),
        "$defs": definitions,
    }


def description() -> str:
    """The description in Markdown: a table of keys for every section."""
    parts = [INTRODUCTION]
    for section in sections():
        rows = [f"| `{name}` | {_shown(type_)} | {text} |" for name, type_, text in keys(section)]
        title = "The report" if section is Report else section.__name__
        parts.append(
            "\n".join([f"## {title}", "", section.__doc__ or "", "", "| key | type | meaning |", "|---|---|---|"])
        )
        parts[-1] += "\n" + "\n".join(rows) + "\n"
    return "\n".join(parts)


def sections() -> list[type]:
    """The report's dataclass and every other one that it holds, each before those it mentions."""
    found: list[type] = [Report]
    for section in found:
        found.extend(inner for _, type_, _ in keys(section) for inner in _dataclasses(type_) if inner not in found)
    return found


def keys(section: type) -> Iterator[tuple[str, Any, str]]:
    """Name, type and meaning of each key."""
    hints = get_type_hints(section, include_extras=True)
    for item in fields(section):
        type_, meaning = get_args(hints[item.name])
        yield item.name, type_, meaning


def _dataclasses(type_: Any) -> list[type]:
    if hasattr(type_, "__dataclass_fields__"):
        return [type_]
    return [found for argument in get_args(type_) for found in _dataclasses(argument)]


def _object(section: type) -> dict[str, Any]:
    properties = {name: {"description": meaning, **_schema(type_)} for name, type_, meaning in keys(section)}
    return {
        "description": section.__doc__,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def _schema(type_: Any) -> dict[str, Any]:
    if type_ is Any:
        return {}
    if type_ in _PLAIN:
        return {"type": _PLAIN[type_]}
    if hasattr(type_, "__dataclass_fields__"):
        return {"$ref": f"#/$defs/{type_.__name__}"}
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(argument) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    assert origin is Mapping, f"the report holds no {type_}"
    return {"type": "object", "additionalProperties": _schema(arguments[1])}


def _shown(type_: Any) -> str:
    """A type for readers: ``list of [Core](#core)``."""
    if type_ is Any:
        return "anything"
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if hasattr(type_, "__dataclass_fields__"):
        return f"[{type_.__name__}](#{type_.__name__.lower()})"
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return " or ".join(_shown(argument) for argument in arguments)
    if origin is tuple:
        return f"list of {_shown(arguments[0])}"
    return f"object of {_shown(arguments[1])}"


def write(folder: Path) -> None:
    """Write both files."""
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    (folder / SCHEMA_FILE).write_text(text, encoding="utf-8")
    (folder / DESCRIPTION_FILE).write_text(description(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
