"""Element types of ONNX tensors: their number, width, field of typed values, and the numpy dtype that holds them here.

numpy has no bfloat16, no 8-bit floats and nothing narrower than a byte. A tensor of such a type is held as its *values*
in the narrowest numpy dtype that represents every one of them exactly: bfloat16 and all narrower floats in float32, 4-
and 2-bit integers in (u)int8. NaN, infinities, the sign of zero and subnormal values survive. The name of the type is
kept with the array (``Value.element_type``), for it decides how results are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
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
        narrow: dtype of ``ml_dtypes`` whose codes are those of ``wire``; None for a type that numpy has itself.
    """

    code: int
    name: str
    bits: int
    typed_field: str
    since_ir: int
    dtype: np.dtype[Any]
    wire: np.dtype[Any]
    narrow: np.dtype[Any] | None = field(default=None, repr=False, compare=False)

    @property
    def native(self) -> bool:
        """Whether numpy has the type itself, so that the dtype of an array determines it."""
        return self.narrow is None

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.dtype.kind in "iu"


def _native(code: int, name: str, dtype: str, field: str, since_ir: int = 1) -> ElementType:
    wire = np.dtype(dtype).newbyteorder("<")
    return ElementType(code, name, wire.itemsize * 8, field, since_ir, np.dtype(dtype), wire)


def _narrow(code: int, name: str, bits: int, dtype: type[Any], since_ir: int) -> ElementType:
    held = np.dtype(np.float32 if "float" in name else np.uint8 if name.startswith("u") else np.int8)
    wire = np.dtype("<u2" if bits > 8 else np.uint8)
    return ElementType(code, name, bits, "int32_data", since_ir, held, wire, np.dtype(dtype))


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
    _narrow(16, "bfloat16", 16, ml_dtypes.bfloat16, 4),
    _narrow(17, "float8e4m3fn", 8, ml_dtypes.float8_e4m3fn, 9),
    _narrow(18, "float8e4m3fnuz", 8, ml_dtypes.float8_e4m3fnuz, 9),
    _narrow(19, "float8e5m2", 8, ml_dtypes.float8_e5m2, 9),
    _narrow(20, "float8e5m2fnuz", 8, ml_dtypes.float8_e5m2fnuz, 9),
    _narrow(21, "uint4", 4, ml_dtypes.uint4, 10),
    _narrow(22, "int4", 4, ml_dtypes.int4, 10),
    _narrow(23, "float4e2m1", 4, ml_dtypes.float4_e2m1fn, 11),
    _narrow(24, "float8e8m0", 8, ml_dtypes.float8_e8m0fnu, 12),
    _narrow(25, "uint2", 2, ml_dtypes.uint2, 13),
    _narrow(26, "int2", 2, ml_dtypes.int2, 13),
    _narrow(27, "float6e2m3", 6, ml_dtypes.float6_e2m3fn, 14),
    _narrow(28, "float6e3m2", 6, ml_dtypes.float6_e3m2fn, 14),
)

BY_CODE: Final = {element.code: element for element in ELEMENT_TYPES}
BY_NAME: Final = {element.name: element for element in ELEMENT_TYPES}


def element_type_of(dtype: np.dtype[Any]) -> ElementType:
    """Return the element type that numpy itself has, such as ``float`` for float32; object arrays hold strings."""
    kind = np.dtype(dtype)
    if kind.kind in "OUST":
        return BY_NAME["string"]
    return next(element for element in ELEMENT_TYPES if element.native and element.dtype == kind)
