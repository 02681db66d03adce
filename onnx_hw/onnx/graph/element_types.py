"""Element types of ONNX tensors: their number, width, field of typed values, and the numpy dtype that holds them here.

numpy has no bfloat16, no 8-bit floats and nothing narrower than a byte. A tensor of such a type is held as its *values*
in the narrowest numpy dtype that represents every one of them exactly: bfloat16 and all narrower floats in float32, 4-
and 2-bit integers in (u)int8. NaN, infinities, the sign of zero and subnormal values survive. The name of the type is
kept with the array (``Value.element_type``), for it decides how results are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np


@dataclass(frozen=True)
class ElementType:
    """Element type of a tensor.

    Attributes:
        code: number in the file (TensorProto.DataType).
        name: ONNX name in lower case.
        bits: width of one element on the wire.
        typed_field: TensorProto field of values that are not raw bytes.
        since_ir: IR version that brought the type.
        dtype: numpy dtype that holds the values in memory.
        wire: numpy dtype of the stored bits, little-endian; narrower than a byte: of the unpacked codes.
        decode: from an array of ``wire`` codes to an array of ``dtype`` values; None when they are the same.
    """

    code: int
    name: str
    bits: int
    typed_field: str
    since_ir: int
    dtype: np.dtype[Any]
    wire: np.dtype[Any]
    decode: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False, compare=False)

    @property
    def native(self) -> bool:
        """Whether numpy has the type itself, so that the dtype of an array determines it."""
        return self.decode is None

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.dtype.kind in "iu"


def _native(code: int, name: str, dtype: str, field: str, since_ir: int = 1) -> ElementType:
    wire = np.dtype(dtype).newbyteorder("<")
    return ElementType(code, name, wire.itemsize * 8, field, since_ir, np.dtype(dtype), wire)


def _bfloat16_values(codes: np.ndarray) -> np.ndarray:
    """Return the values of bfloat16 codes: a bfloat16 is the upper half of a float32."""
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _looked_up(table: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda codes: table[codes]


def _small_float_table(exponent: int, mantissa: int, bias: int, specials: str) -> np.ndarray:
    """Return every value of a sign-exponent-mantissa format, by code.

    ``specials`` says which codes are not numbers: ``ieee`` (greatest exponent: infinities, then NaN), ``fn`` (all ones
    but the sign: NaN), ``fnuz`` (only minus zero: NaN), ``none``.
    """
    width = 1 + exponent + mantissa
    values = np.empty(1 << width, np.float64)
    for code in range(1 << width):
        sign = -1.0 if code >> (width - 1) else 1.0
        e, m = (code >> mantissa) & ((1 << exponent) - 1), code & ((1 << mantissa) - 1)
        values[code] = sign * (m + (1 << mantissa if e else 0)) * 2.0 ** (max(e, 1) - bias - mantissa)
        if specials == "ieee" and e == (1 << exponent) - 1:
            values[code] = np.nan if m else sign * np.inf
        if specials == "fn" and code & ((1 << (width - 1)) - 1) == (1 << (width - 1)) - 1:
            values[code] = np.nan
    if specials == "fnuz":
        values[1 << (width - 1)] = np.nan
    return values.astype(np.float32)


def _power_table() -> np.ndarray:
    """Return every value of float8e8m0, by code: 2^(code - 127), no sign, no zero; 0xFF is NaN."""
    values = np.array([2.0 ** (code - 127) for code in range(255)] + [np.nan])
    return values.astype(np.float32)


def _small_float(code: int, name: str, shape: tuple[int, int, int, str] | None, since_ir: int) -> ElementType:
    table = _power_table() if shape is None else _small_float_table(*shape)
    bits = int(table.size).bit_length() - 1
    wire = np.dtype(np.uint8)
    return ElementType(code, name, bits, "int32_data", since_ir, np.dtype(np.float32), wire, _looked_up(table))


def _small_integer(code: int, name: str, bits: int, signed: bool, since_ir: int) -> ElementType:
    dtype = np.dtype(np.int8 if signed else np.uint8)
    half = 1 << (bits - 1)
    table = np.array([c - 2 * half if signed and c >= half else c for c in range(2 * half)], dtype)
    return ElementType(code, name, bits, "int32_data", since_ir, dtype, np.dtype(np.uint8), _looked_up(table))


ELEMENT_TYPES: Final = (
    _native(1, "float", "float32", "float_data"),
    _native(2, "uint8", "uint8", "int32_data"),
    _native(3, "int8", "int8", "int32_data"),
    _native(4, "uint16", "uint16", "int32_data"),
    _native(5, "int16", "int16", "int32_data"),
    _native(6, "int32", "int32", "int32_data"),
    _native(7, "int64", "int64", "int64_data"),
    ElementType(8, "string", 0, "string_data", 1, np.dtype(object), np.dtype(object)),
    _native(9, "bool", "bool", "int32_data"),
    _native(10, "float16", "float16", "int32_data"),
    _native(11, "double", "float64", "double_data"),
    _native(12, "uint32", "uint32", "uint64_data"),
    _native(13, "uint64", "uint64", "uint64_data"),
    _native(14, "complex64", "complex64", "float_data"),
    _native(15, "complex128", "complex128", "double_data"),
    ElementType(16, "bfloat16", 16, "int32_data", 4, np.dtype(np.float32), np.dtype("<u2"), _bfloat16_values),
    _small_float(17, "float8e4m3fn", (4, 3, 7, "fn"), 9),
    _small_float(18, "float8e4m3fnuz", (4, 3, 8, "fnuz"), 9),
    _small_float(19, "float8e5m2", (5, 2, 15, "ieee"), 9),
    _small_float(20, "float8e5m2fnuz", (5, 2, 16, "fnuz"), 9),
    _small_integer(21, "uint4", 4, False, 10),
    _small_integer(22, "int4", 4, True, 10),
    _small_float(23, "float4e2m1", (2, 1, 1, "none"), 11),
    _small_float(24, "float8e8m0", None, 12),
    _small_integer(25, "uint2", 2, False, 13),
    _small_integer(26, "int2", 2, True, 13),
    _small_float(27, "float6e2m3", (2, 3, 1, "none"), 14),
    _small_float(28, "float6e3m2", (3, 2, 3, "none"), 14),
)

BY_CODE: Final = {element.code: element for element in ELEMENT_TYPES}
BY_NAME: Final = {element.name: element for element in ELEMENT_TYPES}


def element_type_of(dtype: np.dtype[Any]) -> ElementType:
    """Return the element type that numpy itself has, such as ``float`` for float32; object arrays hold strings."""
    kind = np.dtype(dtype)
    if kind.kind in "OUST":
        return BY_NAME["string"]
    return next(element for element in ELEMENT_TYPES if element.native and element.dtype == kind)
