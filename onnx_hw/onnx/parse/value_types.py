"""Types of values: element types, shapes, and the sequence, map and optional types around them."""

from __future__ import annotations

from typing import Any

from onnx_hw.onnx.graph.element_types import BY_CODE
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.source_model import Dimension, SourceValue, Type
from onnx_hw.onnx.parse.strings import decode_text
from onnx_hw.onnx.parse.tensors import element_type

_KINDS = ("tensor", "sparse_tensor", "sequence", "map", "optional", "opaque")
_MAP_KEYS = frozenset({"uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "string"})


def read_value(message: Any, name: str, where: str, findings: Findings) -> SourceValue:
    """Read a ``ValueInfoProto``. An absent type gives None; whether that is allowed depends on the place."""
    if not message.HasField("type"):
        return SourceValue(name, None, where, untyped=True)
    return SourceValue(name, read_type(message.type, where, findings), where)


def read_type(message: Any, where: str, findings: Findings) -> Type | None:
    """Read a ``TypeProto``; None after reporting what is wrong with it."""
    for kind in _KINDS:
        field = f"{kind}_type"
        if message.HasField(field):
            return _READERS[kind](kind, getattr(message, field), f"{where}.type", findings)
    findings.must("type-missing", "the type must say what kind of value it is", where)
    return None


def _tensor(kind: str, message: Any, where: str, findings: Findings) -> Type | None:
    element = element_type(message.elem_type, where, findings)
    shape = _shape(message.shape, where, findings) if message.HasField("shape") else None
    return None if element is None else Type(kind, element.name, shape)


def _shape(message: Any, where: str, findings: Findings) -> tuple[Dimension, ...]:
    return tuple(_dimension(dim, f"{where}.shape[{axis}]", findings) for axis, dim in enumerate(message.dim))


def _dimension(message: Any, where: str, findings: Findings) -> Dimension:
    """Read a dimension: a number, a name, or None for an unknown that equals no other."""
    if message.HasField("dim_value"):
        if message.dim_value >= 0:
            return int(message.dim_value)
        findings.habit(
            "dimension-negative",
            f"a dimension must be zero or more, not {message.dim_value}",
            where,
            "an unknown dimension is written without a number; --lenient reads it so",
        )
        return None
    if message.HasField("dim_param"):
        name = decode_text(message.dim_param, where, findings)
        if not name:
            findings.should("dimension-unnamed", "a dimension's name should not be empty; it is read as unknown", where)
            return None
        if name == "*":
            findings.should("dimension-star", "a dimension named * is read as one ordinary dimension", where)
        return name
    return None


def _inner(kind: str, message: Any, where: str, findings: Findings) -> Type | None:
    if not message.HasField("elem_type"):
        findings.must("type-missing", f"a {kind} must say the type of its elements", where)
        return None
    inner = read_type(message.elem_type, where, findings)
    return None if inner is None else Type(kind, inner=inner)


def _map(kind: str, message: Any, where: str, findings: Findings) -> Type | None:
    key = BY_CODE.get(message.key_type)
    if key is None or key.name not in _MAP_KEYS:
        actual = "missing" if key is None else key.name
        findings.must("map-key", f"a map's key must be an integer or string type; it is {actual}", where)
    if not message.HasField("value_type"):
        findings.must("type-missing", "a map must say the type of its values", where)
        return None
    inner = read_type(message.value_type, where, findings)
    return None if inner is None or key is None else Type(kind, inner=inner, key=key.name)


def _opaque(kind: str, message: Any, where: str, findings: Findings) -> Type:
    names = (decode_text(message.domain, where, findings), decode_text(message.name, where, findings))
    return Type(kind, element="::".join(name for name in names if name))


_READERS = {
    "tensor": _tensor, "sparse_tensor": _tensor, "sequence": _inner, "optional": _inner, "map": _map, "opaque": _opaque,
}  # fmt: skip
