"""QONNX operators, by the tables and formulas of their specification, worked out by hand."""

import numpy as np
import pytest

from support.single_node_models import ours

GENERAL = "qonnx.custom_op.general"


def f(*values):
    return np.array(values, np.float32)


#: The table of rounding modes in the specification of IntQuant.
NUMBERS = f(5.5, 2.5, 1.6, 1.1, 1.0, -1.0, -1.1, -1.6, -2.5, -5.5)
ROUNDED = {
    "ROUND": [6, 2, 2, 1, 1, -1, -1, -2, -2, -6],
    "CEIL": [6, 3, 2, 2, 1, -1, -1, -1, -2, -5],
    "FLOOR": [5, 2, 1, 1, 1, -1, -2, -2, -3, -6],
    "UP": [6, 3, 2, 2, 1, -1, -2, -2, -3, -6],
    "DOWN": [5, 2, 1, 1, 1, -1, -1, -1, -2, -5],
    "HALF_UP": [6, 3, 2, 1, 1, -1, -1, -2, -3, -6],
    "HALF_DOWN": [5, 2, 2, 1, 1, -1, -1, -2, -2, -5],
}


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize("op_type", ["Quant", "IntQuant"])
def test_rounding_modes(op_type, mode):
    inputs = [NUMBERS, np.float32(1), np.float32(0), np.float32(8)]
    for spelled in (mode, mode.lower()):
        (y,) = ours(op_type, inputs, version=1, domain=GENERAL, rounding_mode=spelled)
        assert y.tolist() == ROUNDED[mode]


@pytest.mark.parametrize(
    ("signed", "narrow", "low", "high"), [(1, 0, -8, 7), (1, 1, -7, 7), (0, 0, 0, 15), (0, 1, 0, 14)]
)
def test_range_of_four_bits(signed, narrow, low, high):
    inputs = [f(-100, 100), f(0.5), f(0), f(4)]
    (y,) = ours("Quant", inputs, version=1, domain="onnx.brevitas", signed=signed, narrow=narrow)
    assert y.tolist() == [low * 0.5, high * 0.5]


def test_scale_zero_point_and_width_per_channel():
    x = np.full((2, 1), 10, np.float32)
    scale, zero, bits = f(2, 1)[:, None], f(1, 0)[:, None], f(8, 3)[:, None]
    (y,) = ours("Quant", [x, scale, zero, bits], version=1, domain="finn.custom_op.general")
    assert y.tolist() == [[10], [3]]


def test_one_signed_bit_is_bipolar():
    (y,) = ours("Quant", [f(-3, 0, 2), f(0.5), f(0), f(1)], version=1, domain=GENERAL)
    assert y.tolist() == [-0.5, 0.5, 0.5]
    (y,) = ours("BipolarQuant", [f(-3, 0, 2), f(0.5)], version=1, domain=GENERAL)
    assert y.tolist() == [-0.5, 0.5, 0.5]


def test_trunc():
    """8 bits to 6: a quarter of the integers, cut off. Version 1 keeps the scale, version 2 is told the new one."""
    x = f(3, 4, 7, -1) * 0.5
    inputs = [x, f(0.5), f(0), f(8), f(6)]
    (y,) = ours("Trunc", inputs, version=1, domain=GENERAL)
    assert y.tolist() == [0, 0.5, 0.5, -0.5]
    (y,) = ours("Trunc", [x, f(0.5), f(0), f(8), f(2), f(6)], version=2, domain=GENERAL, rounding_mode="ROUND")
    assert y.tolist() == [2, 2, 4, 0]
    (y,) = ours("Trunc", [100 * x, f(0.5), f(0), f(8), f(2), f(2)], version=2, domain=GENERAL)
    assert y.tolist() == [2, 2, 2, -4]


def test_multi_threshold():
    thresholds = f(0, 1, 2, 10, 20, 30).reshape(2, 3)
    x = np.array([[[1.0, 2.5], [15, 30]]], np.float32)[..., None]  # (1, 2, 2, 1)
    (y,) = ours("MultiThreshold", [x, thresholds], version=1, domain=GENERAL, out_dtype="UINT2")
    assert y[..., 0].tolist() == [[[2, 3], [1, 3]]]
    scaled = {"out_dtype": "INT4", "out_scale": 2.0, "out_bias": -3.0, "data_layout": "NHWC"}
    (y,) = ours("MultiThreshold", [np.moveaxis(x, 1, -1), thresholds], version=1, domain=GENERAL, **scaled)
    assert np.moveaxis(y, -1, 1)[..., 0].tolist() == [[[1, 3], [-1, 3]]]
    (y,) = ours("MultiThreshold", [f(-1, 5)[None], f(0)[None]], version=1, domain=GENERAL, out_dtype="BINARY")
    assert y.tolist() == [[0, 1]]


def test_float_quant():
    """OCP E4M3: 3 bits of mantissa, bias 7, up to 448; the least subnormal number is 2^-9."""
    inputs = [f(1.0624, 1.07, 1000, 2**-9, 0.7 * 2**-9, 0), f(1), f(4), f(3), f(7), f(448)]
    (y,) = ours("FloatQuant", inputs, version=1, domain=GENERAL, has_nan=1)
    assert y.tolist() == [1, 1.125, 448, 2**-9, 2**-9, 0]


@pytest.mark.parametrize("op_type", ["Conv", "MaxPool", "BatchNormalization"])
def test_channels_last(op_type):
    """As the operator of the default domain, with axis 1 moved to the end before and after."""
    random = np.random.default_rng(3)
    x = random.standard_normal((2, 5, 6, 3)).astype(np.float32)
    first = np.moveaxis(x, -1, 1)
    if op_type == "Conv":
        w = random.standard_normal((4, 3, 2, 3)).astype(np.float32)
        last, plain, attributes = [np.moveaxis(w, 1, -1)], [w], {"strides": (2, 1), "pads": (0, 1, 1, 1)}
    elif op_type == "MaxPool":
        last, plain, attributes = [], [], {"kernel_shape": (2, 3), "strides": (1, 2)}
    else:
        last = plain = [f(1, 2, 3), f(0, 1, 2), f(3, 2, 1), f(1, 4, 9)]
        attributes = {}
    (y,) = ours(op_type, [x, *last], version=1, domain="qonnx.custom_op.channels_last", **attributes)
    (expected,) = ours(op_type, [first, *plain], version=13, **attributes)
    np.testing.assert_allclose(np.moveaxis(y, -1, 1), expected, rtol=1e-6)
