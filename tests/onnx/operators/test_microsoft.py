"""com.microsoft against onnxruntime, which defines it."""

import numpy as np
import pytest

from support.single_node_models import assert_agrees

RANDOM = np.random.default_rng(11)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def quantized(*shape, dtype=np.uint8):
    """A tensor with scale and zero point."""
    info = np.iinfo(dtype)
    values = RANDOM.integers(info.min, info.max + 1, shape).astype(dtype)
    return [values, np.float32(RANDOM.uniform(0.005, 0.05)), np.asarray(RANDOM.integers(-5, 100), dtype)]


def point(dtype=np.uint8, scale=None):
    """Scale and zero point of a result."""
    return [np.float32(RANDOM.uniform(0.01, 0.1) if scale is None else scale), np.asarray(7, dtype)]


BOTH = pytest.mark.parametrize("dtype", [np.uint8, np.int8])


@BOTH
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_qlinear_arithmetic(op_type, dtype):
    inputs = [*quantized(2, 3, 4, dtype=dtype), *quantized(4, dtype=dtype), *point(dtype)]
    assert_agrees(op_type, inputs, version=1, domain="com.microsoft", steps=1)


@BOTH
def test_qlinear_activations(dtype):
    x = quantized(5, 50, dtype=dtype)
    call = {"version": 1, "domain": "com.microsoft", "steps": 1}
    assert_agrees("QLinearSigmoid", [*x, *point(dtype, 1 / 256)], **call)
    assert_agrees("QLinearLeakyRelu", [*x, *point(dtype)], alpha=0.1, **call)


@BOTH
@pytest.mark.parametrize("axis", [1, -1])
def test_qlinear_softmax(dtype, axis):
    lowest = np.asarray(np.iinfo(dtype).min, dtype)
    inputs = [*quantized(3, 4, 10, dtype=dtype), np.float32(1 / 256), lowest]
    for opset in (12, 13):  # the Softmax that is meant
        assert_agrees("QLinearSoftmax", inputs, version=1, domain="com.microsoft", steps=1, axis=axis, opset=opset)


def test_qlinear_where_and_concat():
    condition = np.array([[True], [False]])
    inputs = [condition, *quantized(2, 3), *quantized(2, 3), *point()]
    assert_agrees("QLinearWhere", inputs, version=1, domain="com.microsoft", steps=1)
    assert_agrees(
        "QLinearConcat",
        [*point(), *quantized(2, 3), *quantized(2, 5)],
        version=1,
        domain="com.microsoft",
        steps=1,
        axis=1,
    )


@BOTH
@pytest.mark.parametrize("channels_last", [0, 1])
def test_qlinear_pooling(dtype, channels_last):
    call = {"version": 1, "domain": "com.microsoft", "steps": 1, "channels_last": channels_last}
    inputs = [*quantized(2, 8, 6, 6, dtype=dtype), *point(dtype)]
    assert_agrees("QLinearGlobalAveragePool", inputs, **call)
    assert_agrees("QLinearAveragePool", inputs, kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1], **call)


def test_qlinear_conv_with_channels_last():
    w = quantized(4, 6, 3, 3, dtype=np.int8)
    # 7 bits: on processors without VNNI, onnxruntime saturates sums of two u8 × s8 products at 16 bits.
    inputs = [*quantized(1, 7, 8, 6), w[0] // 2, w[1], np.int8(0), *point(scale=0.5)]
    bias = RANDOM.integers(-1000, 1000, 4).astype(np.int32)
    call = {"version": 1, "domain": "com.microsoft", "steps": 1, "channels_last": 1, "pads": [1, 1, 1, 1]}
    assert_agrees("QLinearConv", [*inputs, bias], **call)


@pytest.mark.parametrize("columns", [(), (5,)])
def test_qgemm(columns):
    b = [RANDOM.integers(-90, 90, (5, 7)).astype(np.int8), abs(floats(*columns)) + 0.01, np.zeros(columns, np.int8)]
    bias = RANDOM.integers(-500, 500, 5).astype(np.int32)
    inputs = [*quantized(3, 7), b[0], np.float32(b[1]), b[2], bias]
    call = {"version": 1, "domain": "com.microsoft", "transB": 1}
    assert_agrees("QGemm", inputs, rtol=1e-4, **call)
    assert_agrees("QGemm", [*inputs, *point(scale=1.5)], steps=1, **call)


def test_integer_matmuls_to_float():
    b = quantized(6, 4, dtype=np.int8)
    call = {"version": 1, "domain": "com.microsoft", "rtol": 1e-4, "atol": 1e-4}
    a = quantized(3, 6)
    assert_agrees("MatMulIntegerToFloat", [a[0], b[0], a[1], b[1], a[2], b[2], floats(4)], **call)
    assert_agrees("DynamicQuantizeMatMul", [floats(3, 6), b[0], b[1], b[2], floats(4)], **call)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic_quantize_lstm(direction, per_channel):
    """Weights of 7 bits, as above; peepholes, a clip, initial states, and scales for each gate's channel."""
    count, features, hidden = 2 if direction == "bidirectional" else 1, 5, 6
    shape = (count, 4 * hidden) if per_channel else (count,)

    def weights(rows):
        return RANDOM.integers(-60, 61, (count, rows, 4 * hidden)).astype(np.int8)

    def scales():
        return [RANDOM.uniform(0.005, 0.02, shape).astype(np.float32), np.zeros(shape, np.int8)]

    data = [floats(9, 1, features), weights(features), weights(hidden), floats(count, 8 * hidden)]
    states = [floats(count, 1, hidden), floats(count, 1, hidden)]
    call = {"version": 1, "domain": "com.microsoft", "outputs": 3, "direction": direction, "hidden_size": hidden}
    for rest in ([None] * 4, [None, *states, floats(count, 3 * hidden)]):
        inputs = [*data, *rest, *scales(), *scales()]
        assert_agrees("DynamicQuantizeLSTM", inputs, atol=1e-5, **call)
    assert_agrees("DynamicQuantizeLSTM", inputs, atol=1e-5, clip=0.5, **call)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", None), ("Tanh", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4])],
)
def test_fused_conv(activation, parameters):
    attributes = {"activation": activation} | ({"activation_params": parameters} if parameters else {})
    inputs = [floats(1, 3, 6, 6), floats(2, 3, 3, 3), floats(2)]
    assert_agrees("FusedConv", inputs, version=1, domain="com.microsoft", rtol=1e-4, atol=1e-5, **attributes)


def test_fused_products():
    call = {"version": 1, "domain": "com.microsoft", "rtol": 1e-4, "atol": 1e-5}
    assert_agrees("FusedMatMul", [floats(2, 4, 3), floats(2, 4, 5)], transA=1, alpha=0.5, **call)
    assert_agrees("FusedGemm", [floats(3, 4), floats(5, 4), floats(5)], transB=1, activation="Relu", **call)


def test_gelus():
    call = {"version": 1, "domain": "com.microsoft", "rtol": 1e-4, "atol": 1e-5}
    x, bias = 3 * floats(4, 8), floats(8)
    assert_agrees("Gelu", [x], **call)
    assert_agrees("BiasGelu", [x, bias], **call)
    assert_agrees("FastGelu", [x, bias], **call)
    assert_agrees("QuickGelu", [x], alpha=1.5, **call)


def test_quantize_and_dequantize():
    call = {"version": 1, "domain": "com.microsoft"}
    assert_agrees("QuantizeLinear", [floats(2, 3), np.float32(0.05), np.int8(3)], **call)
    scales, points = abs(floats(3)) + 0.1, np.array([1, 2, 3], np.uint8)
    assert_agrees("DequantizeLinear", [quantized(2, 3)[0], scales, points], axis=1, **call)
