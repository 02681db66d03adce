"""The table of operator signatures says what the ``onnx`` package's schemas say.

``python tests/onnx/test_schema_signatures.py`` writes the table anew, after an update of the package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).resolve().parents[2] / "onnx_hw" / "onnx" / "graph" / "signatures.txt"

HEADER = """\
# Signatures of every operator of the standard domains, by the opset version that brought them.
#
#   domain NAME                         the operators that follow belong to it; none: the default domain
#   types NUMBER = NAME ...             a set of types, for the lines that follow
#   NAME VERSION (INPUTS) (OUTPUTS) {ATTRIBUTES} VARIABLE=NUMBER ...
#   NAME VERSION deprecated             withdrawn at this version
#
# A parameter is NAME:TYPE or NAME:VARIABLE. "?" marks an optional one, "*N" a variadic one of one type, of which at
# least N must be given, "~N" a variadic one whose types may differ. An attribute is NAME:KIND, "!" marks a required
# one.
"""


def type_name(text: str) -> str:
    """``seq(tensor(float))`` in our words: ``sequence(float)``."""
    text = re.sub(r"tensor\((\w+)\)", r"\1", text.replace(" ", ""))
    return text.replace("seq(", "sequence(")


def render(schemas) -> str:
    """The whole table."""
    lines, sets, body = [HEADER], dict[Any, Any](), list[Any]()
    for domain in sorted({schema.domain for schema in schemas}):
        if domain:
            body.append(f"\ndomain {domain}")
        mine = [schema for schema in schemas if schema.domain == domain]
        body.extend(row(schema, sets) for schema in sorted(mine, key=lambda s: (s.name, s.since_version)))
    lines.extend(f"types {number} = {names}" for names, number in sets.items())
    return "\n".join([*lines, "", *body]) + "\n"


def row(schema, sets) -> str:
    if schema.deprecated:
        return f"{schema.name} {schema.since_version} deprecated"
    variables = {}
    for constraint in schema.type_constraints:
        names = " ".join(sorted(type_name(text) for text in constraint.allowed_type_strs))
        variables[constraint.type_param_str] = sets.setdefault(names, len(sets) + 1)
    attributes = [
        f"{name}{'!' if attribute.required else ''}:{attribute.type.name.lower()}"
        for name, attribute in sorted(schema.attributes.items())
    ]
    parts = [
        schema.name,
        str(schema.since_version),
        f"({' '.join(map(parameter, schema.inputs))})",
        f"({' '.join(map(parameter, schema.outputs))})",
        f"{{{' '.join(attributes)}}}",
        *(f"{variable}={number}" for variable, number in variables.items()),
    ]
    return " ".join(parts)


def parameter(formal) -> str:
    option = formal.option.name
    mark = {"Single": "", "Optional": "?"}.get(option, f"{'*' if formal.is_homogeneous else '~'}{formal.min_arity}")
    return f"{formal.name}{mark}:{type_name(formal.type_str)}"


def published_schemas():
    from onnx import defs

    return defs.get_all_schemas_with_history()


def test_the_table_is_what_the_package_says():
    onnx = pytest.importorskip("onnx")
    from onnx_hw.onnx.parse.opsets import NEWEST

    if onnx.defs.onnx_opset_version() != NEWEST[""]:
        pytest.skip(f"the table was written for opset {NEWEST['']}, onnx {onnx.__version__} has another one")
    assert TABLE.read_text() == render(published_schemas()), f"run `python {Path(__file__).name}` to write it anew"


if __name__ == "__main__":
    TABLE.write_text(render(published_schemas()))
