"""Attributes of nodes: exactly one value, in the field its type says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_hw.messages.text import quote
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.source_model import SourceAttribute
from onnx_hw.onnx.parse.strings import decode_text

#: Attribute type number -> (kind, field of AttributeProto).
KINDS = {
    1: ("float", "f"),
    2: ("int", "i"),
    3: ("string", "s"),
    4: ("tensor", "t"),
    5: ("graph", "g"),
    6: ("floats", "floats"),
    7: ("ints", "ints"),
    8: ("strings", "strings"),
    9: ("tensors", "tensors"),
    10: ("graphs", "graphs"),
    11: ("sparse_tensor", "sparse_tensor"),
    12: ("sparse_tensors", "sparse_tensors"),
    13: ("type_proto", "tp"),
    14: ("type_protos", "type_protos"),
}
_LISTS = frozenset(field for kind, field in KINDS.values() if kind.endswith("s"))
_MESSAGES = frozenset({"tensor", "graph", "sparse_tensor", "type_proto"})
_ABSENT = {"float": 0.0, "int": 0, "string": ""}


@dataclass(frozen=True)
class AttributeReader:
    """Reader of attributes; ``values`` maps the kinds that hold messages to (message, where) -> value."""

    ir_version: int
    findings: Findings
    values: Any

    def read(self, message: Any, owner: str, index: int) -> SourceAttribute:
        """Read one ``AttributeProto`` of the node or function at ``owner``, and report what is wrong with it."""
        findings = self.findings
        name = decode_text(message.name, f"{owner}.attribute[{index}]", findings)
        where = f"{owner}.attribute[{name if name.isprintable() and name else index}]"
        if not name:
            findings.must("attribute-name", "an attribute must have a name", where)
        filled = [
            field
            for _, field in KINDS.values()
            if (len(getattr(message, field)) if field in _LISTS else message.HasField(field))
        ]
        kind, field = self._kind(message, filled, where)
        reference = decode_text(message.ref_attr_name, where, findings)
        if reference and filled:
            findings.must(
                "attribute-reference", f"a reference to {quote(reference)} must not carry a value ({filled[0]})", where
            )
        elif len(filled) > 1:
            fields = " and ".join(filled)
            findings.must("attribute-two-values", f"an attribute must have one value, not {fields}", where)
        elif filled and kind and filled[0] != field:
            findings.must("attribute-field", f"type {kind} must be in field {field}, not {filled[0]}", where)
        elif not filled and not reference and kind in _MESSAGES:
            findings.must("attribute-no-value", f"the attribute must have a value of type {kind}", where)
        elif kind and not reference:
            return SourceAttribute(name, kind, self._value(message, kind, field, bool(filled), where), "", where)
        return SourceAttribute(name, kind, None, reference, where)

    def _kind(self, message: Any, filled: list[str], where: str) -> tuple[str, str]:
        """Return the stated type, or before IR version 2 the type of the field that is set."""
        if message.type in KINDS:
            return KINDS[message.type]
        if message.type == 0 and self.ir_version == 1 and filled:
            return next(entry for entry in KINDS.values() if entry[1] == filled[0])
        actual = f"it is {message.type}" if message.type else "it is missing"
        self.findings.must("attribute-type", f"an attribute must say its type, 1..14; {actual}", where)
        return "", ""

    def _value(self, message: Any, kind: str, field: str, filled: bool, where: str) -> Any:
        if not filled and kind in _ABSENT:
            return _ABSENT[kind]  # proto3 writers leave out what is zero
        content = getattr(message, field)
        if kind in ("float", "int"):
            return content
        if kind in ("floats", "ints"):
            return tuple(content)
        if kind == "string":
            return _string(content)
        if kind == "strings":
            return tuple(map(_string, content))
        if kind in _MESSAGES:
            return self.values[kind](content, where)
        return tuple(self.values[kind[:-1]](item, f"{where}[{k}]") for k, item in enumerate(content))


def _string(data: bytes) -> str | bytes:
    """Decode text where it is UTF-8; an attribute may carry bytes, and the operator that reads them must judge."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
