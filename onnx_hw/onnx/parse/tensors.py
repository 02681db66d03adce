"""Conversion of one tensor of the file to a numpy array, after every claim it makes was checked against its bytes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.element_types import BY_CODE, ElementType
from onnx_hw.onnx.graph.model import OnnxTensor
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.external_data import SideFiles
from onnx_hw.onnx.parse.strings import decode_text

_DATA_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "raw_data")
_EXTERNAL = 1


def read_tensor(
    message: Any, where: str, findings: Findings, files: SideFiles, raw_data: bytes | memoryview | None = None
) -> OnnxTensor | None:
    """Decode a ``TensorProto``; None after reporting what is wrong with it. ``raw_data`` may be kept apart from it.

    The array is read-only where it views the file's own bytes, row-major, of ``ElementType.dtype``.
    """
    before = findings.refusals
    element = element_type(message.data_type, where, findings)
    count = element_count(message.dims, where, findings)
    if message.HasField("segment"):
        findings.must("tensor-segment", "a tensor must be stored whole, not in segments", where, "save the model again")
    filled = [name for name in _DATA_FIELDS if len(getattr(message, name))]
    if raw_data is not None:
        filled.append("raw_data")
    if message.data_location not in (0, _EXTERNAL):
        findings.must("tensor-location", f"data_location must be 0 or 1, not {message.data_location}", where)
    external = message.data_location == _EXTERNAL
    if external and filled:
        findings.must("tensor-two-data", f"an external tensor must not carry {filled[0]} as well", where)
    elif len(filled) > 1:
        findings.must("tensor-two-data", f"a tensor must have one data field, not {' and '.join(filled)}", where)
    if message.external_data and not external:
        findings.should("external-dead", "external_data is ignored, because data_location does not say EXTERNAL", where)
    if element is None or count is None or findings.refusals > before:
        return None
    data = message.raw_data if raw_data is None else raw_data
    array = _array(message, data, element, count, filled[0] if filled else "", where, findings, files)
    if array is None or findings.refusals > before:
        return None
    try:
        return OnnxTensor(element.name, array.reshape(tuple(message.dims)))
    except ValueError:  # zero elements, but a product of the other dimensions that numpy cannot index
        findings.must("tensor-dims", f"the dimensions {list(message.dims)} are too large", where, stage="capability")
        return None


def element_type(code: int, where: str, findings: Findings) -> ElementType | None:
    """Return the element type of a number in the file; None after reporting that the number has none."""
    if code in BY_CODE:
        return BY_CODE[code]
    known = f"one of 1..{max(BY_CODE)}"
    actual = "missing or UNDEFINED" if code == 0 else str(code)
    findings.must("element-type", f"the element type must be {known}; it is {actual}", where)
    return None


def element_count(dims: Any, where: str, findings: Findings) -> int | None:
    """Return the product of the dimensions as an exact integer; None after reporting impossible dimensions."""
    if any(dim < 0 for dim in dims):
        findings.must("tensor-dims", f"dimensions must not be negative, as in {_shown(dims)}", where)
        return None
    count: int = prod(dims)
    if count >= 1 << 63:
        findings.must("tensor-dims", f"the number of elements of {_shown(dims)} must fit into 63 bits", where)
        return None
    return count


def _shown(dims: Any) -> str:
    return str(list(dims[:8]))[:-1] + (", …]" if len(dims) > 8 else "]")


def _array(
    message: Any,
    raw_data: bytes | memoryview,
    element: ElementType,
    count: int,
    filled: str,
    where: str,
    findings: Findings,
    files: SideFiles,
) -> np.ndarray | None:
    """Decode the flat array of values."""
    if message.data_location == _EXTERNAL:
        return _external(message, element, count, where, findings, files)
    if count == 0:
        if filled:
            findings.must("tensor-length", f"a tensor without elements must have no {filled}", where)
        return np.empty(0, element.dtype)
    if not filled:
        findings.must("tensor-no-data", f"the tensor has {count:,} elements by its dimensions, but no data", where)
        return None
    if filled == "raw_data":
        if element.name == "string":
            findings.must("tensor-field", "strings must be in string_data, not raw_data", where)
            return None
        return _raw(raw_data, element, count, where, findings)
    if filled != element.typed_field:
        findings.must(
            "tensor-field", f"{element.name} must be in {element.typed_field} or raw_data, not {filled}", where
        )
        return None
    if element.name == "string":
        return _strings(message.string_data, count, where, findings)
    return _typed(getattr(message, filled), element, count, where, findings)


def _external(
    message: Any, element: ElementType, count: int, where: str, findings: Findings, files: SideFiles
) -> np.ndarray | None:
    if element.name == "string":
        findings.must("tensor-field", "strings must be in string_data, not in external data", where)
        return None
    entries = [
        (decode_text(entry.key, where, findings), decode_text(entry.value, where, findings))
        for entry in message.external_data
    ]
    data = files.data(entries, raw_bytes(element, count), where, findings)
    return None if data is None else _raw(data, element, count, where, findings)


def raw_bytes(element: ElementType, count: int) -> int:
    """Return the number of bytes of ``count`` elements in raw_data: packed without gaps, the last byte padded."""
    return -(-element.bits * count // 8)


def _raw(
    data: bytes | memoryview, element: ElementType, count: int, where: str, findings: Findings
) -> np.ndarray | None:
    """Decode raw data: fixed width, little-endian, row-major; narrower than a byte: lowest bits first."""
    needed = raw_bytes(element, count)
    whole_groups = -(-count // 4) * 3  # some writers pad 6-bit floats to whole groups of four in three bytes
    if len(data) != needed and not (element.bits == 6 and len(data) == whole_groups):
        findings.must(
            "tensor-length", f"{count:,} {element.name} need {needed:,} bytes of data, not {len(data):,}", where
        )
        return None
    if element.bits >= 8:
        codes = np.frombuffer(data, element.wire)
    else:
        codes = unpack(np.frombuffer(data, np.uint8), element.bits)
        _check_padding(codes[count:], element, where, findings)
        codes = codes[:count]
    if element.name == "bool":
        if count and codes.view(np.uint8).max() > 1:
            findings.should("bool-value", "bool bytes should be 0 or 1; any other value is read as true", where)
            codes = codes.view(np.uint8) != 0
        return codes
    return _decoded(codes, element)


def unpack(data: np.ndarray, bits: int) -> np.ndarray:
    """Unpack codes of 2, 4 or 6 bits from bytes (uint8, flat), lowest bits first; four 6-bit codes fill three bytes."""
    if bits == 6:
        data = np.concatenate([data, np.zeros(-len(data) % 3, np.uint8)])
        words = data.reshape(-1, 3).astype(np.uint32) @ np.array([1, 1 << 8, 1 << 16], np.uint32)
        per_word = 4
    else:
        words, per_word = data, 8 // bits
    codes = np.empty((len(words), per_word), np.uint8)
    for k in range(per_word):
        codes[:, k] = (words >> (k * bits)) & ((1 << bits) - 1)
    return codes.reshape(-1)


def _check_padding(padding: np.ndarray, element: ElementType, where: str, findings: Findings) -> None:
    if not padding.any():
        return
    report = findings.must if element.bits == 6 else findings.should
    report("tensor-padding", f"the unused bits after the last {element.name} must be zero; they are ignored", where)


def _typed(values: Any, element: ElementType, count: int, where: str, findings: Findings) -> np.ndarray | None:
    """Decode a typed field: one value an entry, but 4- and 2-bit types packed in bytes, complex in two entries."""
    per_entry = 8 // element.bits if element.bits in (2, 4) else 1
    complex_parts = 2 if element.dtype.kind == "c" else 1
    needed = -(-count // per_entry) * complex_parts
    if len(values) != needed:
        findings.must(
            "tensor-length",
            f"{count:,} {element.name} need {needed:,} entries of {element.typed_field}, not {len(values):,}",
            where,
        )
        return None
    carrier = {"float_data": "f4", "double_data": "f8", "int32_data": "i4", "int64_data": "i8", "uint64_data": "u8"}
    entries = np.fromiter(values, carrier[element.typed_field], needed)
    if complex_parts == 2:
        return entries.view(element.dtype)
    if element.typed_field in ("float_data", "double_data", "int64_data"):
        return entries
    low, high = _entry_range(element, per_entry)
    if entries.min() < low or entries.max() > high:
        findings.must(
            "tensor-range",
            f"entries of {element.typed_field} for {element.name} must be {low}..{high}",
            where,
            "bit patterns are stored unsigned, integers as their value",
        )
        return None
    if element.name == "float16":
        return entries.astype("u2").view(np.float16)
    if element.native:
        return entries.astype(element.dtype)
    codes = entries.astype(element.wire)
    if per_entry > 1:
        codes = unpack(codes, element.bits)
        _check_padding(codes[count:], element, where, findings)
        codes = codes[:count]
    return _decoded(codes, element)


def _entry_range(element: ElementType, per_entry: int) -> tuple[int, int]:
    """Return the range of one entry: numbers for native integers, unsigned bit patterns for everything else."""
    if element.name == "bool":
        return 0, 1
    if element.native and element.is_integer:
        info = np.iinfo(element.dtype)
        return int(info.min), int(info.max)
    return 0, (1 << element.bits * per_entry) - 1


def _strings(values: Any, count: int, where: str, findings: Findings) -> np.ndarray | None:
    if len(values) != count:
        findings.must("tensor-length", f"{count:,} strings are needed, not {len(values):,}", where)
        return None
    array = np.empty(count, object)
    for index, value in enumerate(values):
        array[index] = decode_text(value, f"{where}.string_data[{index}]", findings)
    return array


def _decoded(codes: np.ndarray, element: ElementType) -> np.ndarray:
    numbers = codes if element.narrow is None else codes.view(element.narrow)
    return numbers.astype(element.dtype, copy=False)
