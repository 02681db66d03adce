"""Element types that numpy lacks: how they come in and go out, and how numbers are rounded to them."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.reference import run
from onnx_hw.onnx.graph.element_types import BY_CODE, BY_NAME, ELEMENT_TYPES
from onnx_hw.onnx.graph.model import Graph, Node, Value
from onnx_hw.onnx.operators.dtypes import dtype_of_code, dtype_of_name, name_of_dtype, to_compute_dtype, to_model_dtype
from support.single_node_models import ours

NARROW = [element for element in ELEMENT_TYPES if 0 < element.bits <= 8 and not element.native]


def f(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize("element", [element for element in ELEMENT_TYPES if element.bits], ids=lambda e: e.name)
def test_every_type_has_a_dtype_that_tells_it(element):
    dtype = dtype_of_name(element.name)
    assert name_of_dtype(dtype) == element.name
    assert dtype_of_code(element.code) == dtype


@pytest.mark.parametrize("element", NARROW, ids=lambda element: element.name)
def test_every_code_survives_being_tagged(element):
    """All values of a type of up to 8 bits, NaN and minus zero included."""
    values = np.arange(1 << element.bits, dtype=np.uint8).view(element.narrow).astype(element.dtype)
    back = to_model_dtype(to_compute_dtype(values, element.name))
    assert back.dtype == BY_NAME[element.name].dtype
    np.testing.assert_array_equal(back, values)
    numbers = ~np.isnan(values.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(back[numbers]), np.signbit(values[numbers]))


def graph(element_type, *nodes):
    return Graph("g", nodes, (Value("x", element_type, (2,)),), (Value("y", "", None),), {})


def test_bfloat16_is_rounded_after_each_operator():
    """1 + 2^-9 is no bfloat16; neither is the sum of two that are."""
    add = Node("", "Add", "", 17, ("x", "x"), ("s",), {}, "")
    again = Node("", "Add", "", 17, ("s", "x"), ("y",), {}, "")
    x = f(1.0078125, 3)
    seen: dict[Any, Any] = {}
    y = run(graph("bfloat16", add, again), {"x": x}, observe=seen.__setitem__)["y"]
    assert y.dtype == np.float32
    assert y.tolist() == [3.03125, 9]  # 3.0234375 rounded
    assert seen["s"].tolist() == [2.015625, 6]
    tagged_too = run(graph("bfloat16", add, again), {"x": x.astype(ml_dtypes.bfloat16)})["y"]
    assert tagged_too.tolist() == y.tolist()


def test_feeds_must_hold_numbers_of_their_type():
    relu = Node("", "Relu", "", 17, ("x",), ("y",), {}, "")
    with pytest.raises(UserError, match="must hold numbers of type bfloat16 only"):
        run(graph("bfloat16", relu), {"x": f(1 + 2**-9, 0)})
    identity = Node("", "Identity", "", 21, ("x",), ("y",), {}, "")
    assert run(graph("int4", identity), {"x": np.array([-8, 7], np.int8)})["y"].tolist() == [-8, 7]
    with pytest.raises(UserError, match="must hold numbers of type int4 only"):
        run(graph("int4", identity), {"x": np.array([-9, 7], np.int8)})


def cast(values, to, **attributes):
    codes = {element.name: code for code, element in BY_CODE.items()}
    (y,) = ours("Cast", [values], version=25, to=codes[to], **attributes)
    assert name_of_dtype(y.dtype) == to
    return to_model_dtype(y)


@pytest.mark.parametrize(
    ("element_type", "most", "beyond"),
    [
        ("float8e4m3fn", 448, np.nan),
        ("float8e4m3fnuz", 240, np.nan),
        ("float8e5m2", 57344, np.inf),
        ("float8e5m2fnuz", 57344, np.nan),
    ],
)
def test_casting_to_eight_bit_floats_saturates_or_not(element_type, most, beyond):
    """The tables in the specification of Cast."""
    x = f(np.inf, -np.inf, 1e6, -1e6, 0, np.nan)
    np.testing.assert_array_equal(cast(x, element_type), [most, -most, most, -most, 0, np.nan])
    wide = cast(x, element_type, saturate=0)
    np.testing.assert_array_equal(wide, [beyond, -beyond, beyond, -beyond, 0, np.nan])


def test_casting_to_powers_of_two():
    x = f(1, 1.1, 1.5, 1.75, 0.7, 2**100)
    assert cast(x, "float8e8m0").tolist() == [1, 2, 2, 2, 1, 2**100]
    assert cast(x, "float8e8m0", round_mode="down").tolist() == [1, 1, 1, 1, 0.5, 2**100]
    assert cast(x, "float8e8m0", round_mode="nearest").tolist() == [1, 1, 2, 2, 0.5, 2**100]
    special = f(0, np.inf, np.nan)
    np.testing.assert_array_equal(cast(special, "float8e8m0"), f(2**-127, 2.0**127, np.nan))
    assert np.isnan(cast(special, "float8e8m0", saturate=0)).all()


def test_casting_integers_keeps_the_low_bits():
    x = np.array([200, -1, 8, 7, -9], np.int16)
    assert cast(x, "int8").tolist() == [-56, -1, 8, 7, -9]
    assert cast(x, "int4").tolist() == [-8, -1, -8, 7, 7]
    assert cast(x, "uint2").tolist() == [0, 3, 0, 3, 3]


def test_casting_floats_and_texts():
    assert cast(f(1.9, -1.9), "int32").tolist() == [1, -1]
    assert cast(f(0, 0.5, np.nan), "bool").tolist() == [False, True, True]
    assert cast(f(1.5, np.inf), "string").tolist() == ["1.5", "INF"]
    assert cast(np.array(["2.5", "-inf"], object), "float").tolist() == [2.5, -np.inf]


@pytest.mark.parametrize(
    ("element_type", "low", "high"), [("int8", -128, 127), ("uint4", 0, 15), ("int16", -(2**15), 2**15 - 1)]
)
def test_quantization_rounds_ties_to_even_and_saturates(element_type, low, high):
    zero_point = to_compute_dtype(np.array(1, np.int16), "int16").astype(dtype_of_name(element_type))
    x = f(0.5, 1.5, 2.5, 1e9, -1e9) * 0.25
    (y,) = ours("QuantizeLinear", [x, np.float32(0.25), zero_point], version=21)
    assert to_model_dtype(y).tolist() == [1, 3, 3, high, low]


def test_blocks_share_a_scale():
    x = np.arange(6, dtype=np.int8).reshape(1, 6)
    scale, zero = f(1, 10).reshape(1, 2), np.array([[0, 1]], np.int8)
    (y,) = ours("DequantizeLinear", [x, scale, zero], version=21, axis=1, block_size=4)
    assert y.tolist() == [[0, 1, 2, 3, 30, 40]]
    (back,) = ours("QuantizeLinear", [y, scale, zero], version=21, axis=1, block_size=4)
    assert (back == x).all()


@pytest.mark.parametrize(
    ("scale", "attributes", "says"),
    [
        (f(1, 2), {"axis": 1}, r"the scale must have shape \[3\] for axis 1 of \[2, 3\], not \[2\]"),
        (f(1, 2, 3), {"axis": 5}, r"axis must be within -2..1, not 5"),
        (f(1, 2).reshape(1, 2), {"axis": 1, "block_size": 1}, r"the scale must have shape \[2, 3\]"),
    ],
)
def test_scales_that_do_not_fit(scale, attributes, says):
    with pytest.raises(UserError, match=says):
        ours("QuantizeLinear", [np.zeros((2, 3), np.float32), scale], version=21, **attributes)
