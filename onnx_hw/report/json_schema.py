"""JSON Schema of the report and its description in Markdown, both generated from the dataclasses.

``python -m onnx_hw.report.json_schema DOCS`` writes both files into a folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from msgspec.json import schema_components

from onnx_hw.report.model import Report

SCHEMA_FILE = "report.schema.json"
DESCRIPTION_FILE = "report.md"
REFERENCE = "#/$defs/"

INTRODUCTION = """\
# report.json

Every `onnx-hw build` writes `report.json` into its folder; with `--json` the same text goes to standard output. Next
to it lies `report.html`: the same facts as a page, one file that loads nothing. Its plots and its graph are made by
uPlot and dagre (both MIT), which it embeds; without scripts its tables remain. A section is `null` when
the build ended before the stage that fills it (`--stop-after`). The JSON Schema is
[`report.schema.json`](report.schema.json). Both files are generated: `python -m onnx_hw.report.json_schema docs`.

**Does the circuit compute what golden says?** The section `links` says it, and no other needs to be read:
`links.golden_circuit` for the simulated circuit, `links.circuit_netlist` for the netlist that is placed and routed,
`links.netlist_bitstream` for the file that is loaded into the chip.
Each has the `values` and `cycles` that were compared, how many of them are `wrong`, and the first `difference` in
words.

Cycles are clock cycles of the circuit; resources are counted in the chip's own units
([boards.md](boards.md)): LUT4, flip-flops, and multipliers and block RAMs of its family.
"""


def json_schema() -> dict[str, Any]:
    """Return the schema, draft 2020-12: every key is required, no other key is allowed."""
    _, types = schema_components([Report], ref_template=REFERENCE + "{name}")
    definitions = {section.__name__: _object(section, types[section.__name__]) for section in sections()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "report.json of onnx-hw",
        **definitions.pop(Report.__name__),
        "$defs": definitions,
    }


def _object(section: type, types: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one section: the types from msgspec, the meanings from the dataclass."""
    properties = {name: {"description": meaning, **types["properties"][name]} for name, meaning in keys(section)}
    for entry in properties.values():
        entry.pop("default", None)  # what is written holds every key
    return {
        "description": section.__doc__,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def sections() -> list[type]:
    """Return the dataclass of the report and every other one that it holds, each before those it mentions."""
    order: list[type] = [Report]
    for section in order:
        hints = get_type_hints(section).values()
        order.extend(inner for hint in hints for inner in _dataclasses(hint) if inner not in order)
    return order


def _dataclasses(type_: Any) -> list[type]:
    if is_dataclass(type_):
        return [type_]  # type: ignore[list-item] # never an instance
    return [inner for argument in get_args(type_) for inner in _dataclasses(argument)]


def keys(section: type) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of each key."""
    for name, hint in get_type_hints(section, include_extras=True).items():
        yield name, hint.__metadata__[0]


def description() -> str:
    """Return the description in Markdown: a table of keys for every section."""
    schema = json_schema()
    parts = [INTRODUCTION]
    for title, section in {"The report": schema, **schema["$defs"]}.items():
        head = [f"## {title}", "", section["description"], "", "| key | type | meaning |", "|---|---|---|"]
        rows = [
            f"| `{key}` | {_in_words(entry)} | {entry['description']} |" for key, entry in section["properties"].items()
        ]
        parts.append("\n".join([*head, *rows]) + "\n")
    return "\n".join(parts)


def _in_words(schema: dict[str, Any]) -> str:
    """Return a type for readers: ``list of [Core](#core)``."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFERENCE)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_in_words, schema["anyOf"]))
    match schema.get("type"):
        case None:
            return "anything"
        case "array":
            return f"list of {_in_words(schema['items'])}"
        case "object":
            return f"object of {_in_words(schema.get('additionalProperties', {}))}"
        case plain:
            return str(plain)


def write(folder: Path) -> None:
    """Write both files."""
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    (folder / SCHEMA_FILE).write_text(text, encoding="utf-8")
    (folder / DESCRIPTION_FILE).write_text(description(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
