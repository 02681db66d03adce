"""Every element type in every form it can be stored in, and every way in which its data can be wrong."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx import SparseTensorProto, helper, numpy_helper
from onnx_hw.onnx.graph.element_types import BY_NAME, ELEMENT_TYPES
from onnx_hw.onnx.load.read import read
from onnx_hw.onnx.parse import tensors
from support.onnx_files import TensorProto, checked, codes, make_node, model, value, warned, write

NARROW = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "uint4": ml_dtypes.uint4,
    "int4": ml_dtypes.int4,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
    "uint2": ml_dtypes.uint2,
    "int2": ml_dtypes.int2,
    "float6e2m3": ml_dtypes.float6_e2m3fn,
    "float6e3m2": ml_dtypes.float6_e3m2fn,
}


def with_tensor(tensor):
    """A model whose only initializer is the tensor, as output ``w``."""
    tensor.name = "w"
    kind = value("w", list(tensor.dims), tensor.data_type or TensorProto.FLOAT)
    return model([], inputs=[], outputs=[kind], constants=[tensor], opset=25, ir=14)


def constant(folder, tensor):
    return read(write(folder, with_tensor(tensor))).graph.constants["w"]


def proto(name: str, shape, **fields):
    tensor = TensorProto(dims=shape, data_type=BY_NAME[name].code)
    for key, content in fields.items():
        getattr(tensor, key).extend(content) if isinstance(content, list) else setattr(tensor, key, content)
    return tensor


FORMATS = {
    "bfloat16": (8, 7, 127, "ieee"),
    "float8e4m3fn": (4, 3, 7, "fn"),
    "float8e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8e5m2": (5, 2, 15, "ieee"),
    "float8e5m2fnuz": (5, 2, 16, "fnuz"),
    "float4e2m1": (2, 1, 1, "none"),
    "float6e2m3": (2, 3, 1, "none"),
    "float6e3m2": (3, 2, 3, "none"),
}
"""Bits of exponent and mantissa, bias, and the codes that are no numbers: ``ieee`` (greatest exponent: infinities, then
NaN), ``fn`` (all ones but the sign: NaN), ``fnuz`` (only minus zero: NaN)."""


def specified(name: str, bits: int, code: int) -> float:
    """Return the value of a code, by the formula of the ONNX specification."""
    if name == "float8e8m0":
        return 2.0 ** (code - 127) if code < 255 else np.nan
    if name not in FORMATS:
        return code - (1 << bits) if name.startswith("int") and code >> (bits - 1) else code
    exponent, mantissa, bias, specials = FORMATS[name]
    sign = -1.0 if code >> (bits - 1) else 1.0
    e, m = (code >> mantissa) & ((1 << exponent) - 1), code & ((1 << mantissa) - 1)
    if specials == "ieee" and e == (1 << exponent) - 1:
        return np.nan if m else sign * np.inf
    ones = code & ((1 << (bits - 1)) - 1) == (1 << (bits - 1)) - 1
    if (specials == "fn" and ones) or (specials == "fnuz" and code == 1 << (bits - 1)):
        return np.nan
    return sign * (m + (1 << mantissa if e else 0)) * 2.0 ** (max(e, 1) - bias - mantissa)


@pytest.mark.parametrize("name", NARROW)
def test_every_pattern_of_a_narrow_type(name):
    """All codes, with the values that the specification gives them, NaN and the sign of zero included."""
    element = BY_NAME[name]
    codes = np.arange(1 << element.bits, dtype=element.wire)
    ours = tensors._decoded(codes, element)
    theirs = np.array([specified(name, element.bits, code) for code in codes.tolist()], element.dtype)
    assert ours.dtype == element.dtype
    np.testing.assert_array_equal(ours, theirs)
    numbers = ~np.isnan(theirs) if element.dtype.kind == "f" else slice(None)
    np.testing.assert_array_equal(np.signbit(ours)[numbers], np.signbit(theirs)[numbers])


@pytest.mark.parametrize("name", [element.name for element in ELEMENT_TYPES if element.name != "string"])
@pytest.mark.parametrize("count", [0, 1, 3, 5, 8])
def test_raw_data_as_the_onnx_package_writes_it(tmp_path, name, count):
    element = BY_NAME[name]
    dtype = np.dtype(NARROW.get(name, element.dtype))
    codes = np.random.default_rng(count).integers(0, 256, (count, dtype.itemsize), np.uint8)
    if element.bits < 8:
        codes &= (1 << element.bits) - 1
    if name == "bool":
        codes &= 1
    array = np.ascontiguousarray(codes).view(dtype).reshape(count)
    found = constant(tmp_path, numpy_helper.from_array(array))
    assert found.dtype == element.dtype
    np.testing.assert_array_equal(found, array.astype(element.dtype))


TYPED = [
    ("float", (2,), "float_data", [1.5, -2], [1.5, -2]),
    ("double", (2,), "double_data", [1.5, -2], [1.5, -2]),
    ("int64", (2,), "int64_data", [-1, 1 << 62], [-1, 1 << 62]),
    ("uint64", (1,), "uint64_data", [(1 << 64) - 1], [(1 << 64) - 1]),
    ("uint32", (1,), "uint64_data", [(1 << 32) - 1], [(1 << 32) - 1]),
    ("int8", (3,), "int32_data", [-128, -1, 127], [-128, -1, 127]),
    ("uint16", (2,), "int32_data", [0, 65535], [0, 65535]),
    ("bool", (2,), "int32_data", [0, 1], [False, True]),
    ("float16", (2,), "int32_data", [0x3C00, 0xC000], [1, -2]),
    ("bfloat16", (2,), "int32_data", [0x3F80, 1], [1, 2.0**-133]),
    ("float8e4m3fn", (2,), "int32_data", [0x38, 0xB8], [1, -1]),
    ("int4", (3,), "int32_data", [0x8F, 0x07], [-1, -8, 7]),
    ("uint2", (5,), "int32_data", [0b11100100, 2], [0, 1, 2, 3, 2]),
    ("float6e2m3", (2,), "int32_data", [8, 63], [1, -7.5]),
    ("complex64", (2,), "float_data", [1, 2, 3, 4], [1 + 2j, 3 + 4j]),
    ("complex128", (1,), "double_data", [1, 2], [1 + 2j]),
    ("string", (2,), "string_data", [b"a", "é".encode()], ["a", "é"]),
    ("float", (), "float_data", [3], 3),
]


@pytest.mark.parametrize(("name", "shape", "field", "entries", "expected"), TYPED)
def test_typed_fields(tmp_path, name, shape, field, entries, expected):
    found = constant(tmp_path, proto(name, shape, **{field: entries}))
    assert found.shape == shape
    np.testing.assert_array_equal(found, np.array(expected, BY_NAME[name].dtype))


WRONG = {
    "no data": (proto("float", (2,)), "tensor-no-data"),
    "raw too short": (proto("float", (2,), raw_data=bytes(7)), "tensor-length"),
    "raw too long": (proto("float", (2,), raw_data=bytes(9)), "tensor-length"),
    "packed too short": (proto("uint2", (5,), raw_data=b"\0"), "tensor-length"),
    "packed too long": (proto("int4", (3,), raw_data=bytes(3)), "tensor-length"),
    "typed too short": (proto("float", (2,), float_data=[1.0]), "tensor-length"),
    "typed too long": (proto("float", (2,), float_data=[1.0] * 3), "tensor-length"),
    "packed entries missing": (proto("int4", (3,), int32_data=[1]), "tensor-length"),
    "stray data": (proto("float", (0,), raw_data=b"\0\0\0\0"), "tensor-length"),
    "two fields": (proto("float", (1,), float_data=[1.0], raw_data=bytes(4)), "tensor-two-data"),
    "wrong field": (proto("uint32", (1,), int32_data=[1]), "tensor-field"),
    "strings in raw": (proto("string", (1,), raw_data=b"a"), "tensor-field"),
    "strings outside": (proto("string", (1,), data_location=1), "tensor-field"),
    "too large for int8": (proto("int8", (1,), int32_data=[128]), "tensor-range"),
    "negative pattern": (proto("float16", (1,), int32_data=[-1]), "tensor-range"),
    "too large for a 4-bit pair": (proto("int4", (2,), int32_data=[256]), "tensor-range"),
    "bool of 2": (proto("bool", (1,), int32_data=[2]), "tensor-range"),
    "negative dimension": (proto("float", (-2,), raw_data=bytes(8)), "tensor-dims"),
    "huge": (proto("float", (1 << 62,)), "tensor-no-data"),
    "overflow": (proto("float", (1 << 32, 1 << 32), raw_data=b"\0"), "tensor-dims"),
    "no type": (TensorProto(dims=[1], float_data=[1.0]), "element-type"),
    "type 99": (TensorProto(dims=[1], data_type=99, float_data=[1.0]), "element-type"),
    "segment": (
        TensorProto(dims=[1], data_type=1, float_data=[1.0], segment=TensorProto.Segment(begin=0, end=1)),
        "tensor-segment",
    ),
    "not UTF-8": (proto("string", (1,), string_data=[b"\xff"]), "not-utf-8"),
}


@pytest.mark.parametrize("title", WRONG)
def test_wrong_data(tmp_path, title):
    tensor, code = WRONG[title]
    content = with_tensor(tensor)
    content.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    report = checked(tmp_path, content)
    assert not report.valid
    places = {problem.code: problem.where for problem in report.problems}
    assert places[code].startswith('graph.initializer[0]("w")')


def test_padding_bits(tmp_path):
    odd = proto("int4", (1,), raw_data=b"\xf1")
    assert warned(checked(tmp_path, with_tensor(odd))) == ["tensor-padding"]
    assert constant(tmp_path, odd) == [1]
    six = proto("float6e2m3", (1,), raw_data=b"\xc8")
    assert codes(checked(tmp_path, with_tensor(six))) == ["validate:tensor-padding"]


@given(st.sampled_from([2, 4, 6]), st.lists(st.integers(0, 63), max_size=40))
def test_unpacking_undoes_packing(bits, values):
    """Against a bit string written in the words of the specification: lowest bits first, little-endian."""
    values = [entry & ((1 << bits) - 1) for entry in values]
    number = sum(entry << (bits * k) for k, entry in enumerate(values))
    data = np.frombuffer(number.to_bytes(-(-bits * len(values) // 8), "little"), np.uint8)
    assert tensors.unpack(data, bits)[: len(values)].tolist() == values


def sparse(values, indices, dims, index_shape=None):
    shape = [len(indices)] if index_shape is None else index_shape
    return SparseTensorProto(
        values=helper.make_tensor("w", TensorProto.FLOAT, [len(values)], values),
        indices=helper.make_tensor("", TensorProto.INT64, shape, indices),
        dims=dims,
    )


def with_sparse(tensor):
    content = model([], inputs=[], outputs=[value("w", list(tensor.dims))], opset=13)
    content.graph.sparse_initializer.append(tensor)
    return content


def test_sparse_tensors_become_dense(tmp_path):
    linear = read(write(tmp_path, with_sparse(sparse([1, 2], [1, 5], [2, 3])))).graph.constants["w"]
    np.testing.assert_array_equal(linear, [[0, 1, 0], [0, 0, 2]])
    pairs = read(write(tmp_path, with_sparse(sparse([1, 2], [0, 1, 1, 2], [2, 3], [2, 2])))).graph.constants["w"]
    np.testing.assert_array_equal(pairs, [[0, 1, 0], [0, 0, 2]])


@pytest.mark.parametrize(
    ("tensor", "code"),
    [
        (sparse([1, 2], [5, 1], [2, 3]), "validate:sparse-indices"),
        (sparse([1, 2], [1, 1], [2, 3]), "validate:sparse-indices"),
        (sparse([1, 2], [1, 6], [2, 3]), "validate:sparse-indices"),
        (sparse([1, 2], [-1, 1], [2, 3]), "validate:sparse-indices"),
        (sparse([1, 2], [0, 0, 0, 3], [2, 3], [2, 2]), "validate:sparse-indices"),
        (sparse([1, 2], [1], [2, 3]), "validate:sparse-indices"),
        (sparse([1], [0], [0]), "validate:sparse-dims"),
        (sparse([1], [0], [1 << 20, 1 << 20]), "capability:sparse-too-large"),
    ],
)
def test_wrong_sparse_tensors(tmp_path, tensor, code):
    assert codes(checked(tmp_path, with_sparse(tensor))) == [code]


def test_constant_nodes_of_every_kind(tmp_path):
    kinds = {
        "value": (numpy_helper.from_array(np.array([1], np.int8)), np.array([1], np.int8)),
        "sparse_value": (sparse([3], [1], [2]), np.array([0, 3], np.float32)),
        "value_float": (0.1, np.float32(0.1)),
        "value_floats": ([0.1], np.array([0.1], np.float32)),
        "value_int": (7, np.int64(7)),
        "value_ints": ([7, 8], np.array([7, 8])),
        "value_string": ("a", np.array("a", object)),
        "value_strings": (["a", "b"], np.array(["a", "b"], object)),
    }
    nodes = [make_node("Constant", [], [name], **{name: given}) for name, (given, _) in kinds.items()]
    graph = read(write(tmp_path, model([*nodes, make_node("Relu", ["x"], ["y"])]))).graph
    assert [node.op_type for node in graph.nodes] == ["Relu"]
    for name, (_, expected) in kinds.items():
        assert graph.constants[name].dtype == expected.dtype
        assert graph.constants[name].shape == expected.shape
        np.testing.assert_array_equal(graph.constants[name], expected)
        assert graph.values[name].element_type in BY_NAME
