"""Versions that ONNX's own cases no longer cover, against onnxruntime (which goes back to opset 7)."""

import numpy as np
import pytest

from support.single_node_models import assert_agrees

RANDOM = np.random.default_rng(7)


def floats(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def integers(*shape, low=-100, high=100, dtype=np.int32):
    return RANDOM.integers(low, high, shape).astype(dtype)


X = floats(2, 3, 8, 9)
SCALES = np.array([1, 1, 2, 3], np.float32)
NO_ROI = np.array([], np.float32)

CASES = [
    ("Add", 7, [X, floats(3, 1, 1)], {}),
    ("ArgMax", 7, [X], {"axis": 2, "keepdims": 0}),
    ("ArgMin", 11, [X], {"axis": -1}),
    ("AveragePool", 7, [X], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    ("AveragePool", 10, [X], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", 11, [X], {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ("BatchNormalization", 7, [X, floats(3), floats(3), floats(3), abs(floats(3)) + 1], {}),
    ("BatchNormalization", 9, [X, floats(3), floats(3), floats(3), abs(floats(3)) + 1], {"epsilon": 0.1}),
    ("BatchNormalization", 14, [X, floats(3), floats(3), floats(3), abs(floats(3)) + 1], {}),
    ("Cast", 9, [X], {"to": 6}),
    ("Clip", 7, [X], {"min": -0.5, "max": 0.5}),
    ("Clip", 11, [X, np.float32(-0.25), None], {}),
    ("Concat", 7, [X, X], {"axis": 1}),
    ("ConvTranspose", 7, [X, floats(3, 2, 3, 3)], {"strides": [2, 1], "output_padding": [1, 0], "pads": [1, 0, 0, 1]}),
    ("ConvTranspose", 11, [X, floats(3, 2, 3, 3)], {"strides": [2, 2], "output_shape": [17, 19]}),
    ("ConvTranspose", 11, [floats(1, 4, 5), floats(4, 3, 3)], {"group": 2, "dilations": [2]}),
    ("DepthToSpace", 7, [floats(1, 8, 2, 3)], {"blocksize": 2}),
    ("DequantizeLinear", 10, [integers(2, 3, dtype=np.uint8, low=0), np.float32(0.1), np.uint8(3)], {}),
    ("DequantizeLinear", 13, [integers(2, 3, dtype=np.int8), floats(3), integers(3, dtype=np.int8)], {"axis": 1}),
    ("Dropout", 7, [X], {"ratio": 0.25}),
    ("Dropout", 10, [X], {}),
    ("Elu", 7, [X], {"alpha": 0.5}),
    ("Flatten", 9, [X], {"axis": 2}),
    ("Gather", 7, [X, np.array([[0, 2], [1, 1]])], {"axis": 1}),
    ("GatherND", 11, [X, np.array([[0, 1], [1, 2]])], {}),
    ("Gemm", 7, [floats(3, 4), floats(5, 4), floats(5)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", 11, [floats(4, 3), floats(4, 5)], {"transA": 1}),
    ("HardSigmoid", 7, [X], {}),
    ("Hardmax", 7, [X], {"axis": 2}),
    ("InstanceNormalization", 7, [X, floats(3), floats(3)], {}),
    ("LRN", 7, [floats(1, 7, 3, 3)], {"size": 5, "alpha": 0.1}),
    ("LeakyRelu", 7, [X], {}),
    ("LogSoftmax", 11, [X], {"axis": 1}),
    ("LpNormalization", 7, [X], {"axis": 2, "p": 1}),
    ("LpPool", 7, [X], {"kernel_shape": [2, 2], "strides": [2, 2], "p": 3}),
    ("LpPool", 11, [X], {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
    ("GlobalLpPool", 7, [X], {"p": 3}),
    ("GlobalMaxPool", 7, [X], {}),
    ("MatMul", 9, [integers(3, 4), integers(4, 2)], {}),
    ("Max", 8, [X, floats(9)], {}),
    ("MaxPool", 7, [X], {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]}),
    ("MaxPool", 8, [X], {"kernel_shape": [2, 2], "outputs": 2}),
    ("MaxPool", 8, [X], {"kernel_shape": [2, 2], "storage_order": 1, "outputs": 2}),
    ("MaxPool", 10, [X], {"kernel_shape": [3, 3], "dilations": [2, 2], "ceil_mode": 1, "strides": [2, 3]}),
    ("MaxRoiPool", 7, [X, np.array([[0, 0, 0, 4, 5], [1, 2, 3, 8, 7]], np.float32)], {"pooled_shape": [2, 3]}),
    ("Mean", 8, [X, floats(9), floats(8, 1)], {}),
    ("MeanVarianceNormalization", 9, [X], {"axes": [0, 2]}),
    ("NonMaxSuppression", 10, [abs(floats(1, 9, 4)), abs(floats(1, 2, 9)), np.array([3]), np.float32([0.2])], {}),
    ("OneHot", 9, [np.array([[0, 3], [-1, 9]]), np.array(5), floats(2)], {"axis": 1}),
    ("PRelu", 7, [X, floats(3, 1, 1)], {}),
    ("Pad", 7, [X], {"pads": [0, 1, -2, 1, 1, 0, 3, -1], "value": 0.5}),
    ("Pad", 7, [X], {"pads": [0, 0, 2, 1, 0, 0, 3, 1], "mode": "reflect"}),
    ("Pad", 11, [X, np.array([0, 0, 2, 1, 0, 0, 3, 1]), np.float32(2)], {"mode": "constant"}),
    ("Pad", 13, [X, np.array([0, 0, 2, 1, 0, 0, 3, 1])], {"mode": "edge"}),
    ("Pow", 7, [abs(X), floats(9)], {}),
    ("Pow", 12, [integers(4, low=0, high=9), floats(4)], {}),
    ("QuantizeLinear", 10, [X, np.float32(0.02), np.int8(5)], {}),
    ("QuantizeLinear", 13, [X, abs(floats(3)) + 0.01, integers(3, low=0, dtype=np.uint8)], {"axis": 1}),
    ("ReduceL2", 11, [X], {"axes": [1, -1]}),
    ("ReduceLogSumExp", 11, [X], {"axes": [0]}),
    ("ReduceMax", 11, [X], {}),
    ("ReduceMean", 7, [X], {"axes": [2, 3], "keepdims": 0}),
    ("ReduceMin", 13, [integers(3, 4)], {"axes": [1]}),
    ("ReduceProd", 13, [X], {"axes": [1]}),
    ("ReduceSum", 11, [X], {"axes": [1], "keepdims": 0}),
    ("ReduceSumSquare", 13, [X], {"axes": [3]}),
    ("Reshape", 13, [X, np.array([0, -1, 12])], {}),
    ("Resize", 10, [X, SCALES], {"mode": "nearest"}),
    ("Resize", 10, [X, SCALES], {"mode": "linear"}),
    ("Resize", 11, [X, NO_ROI, SCALES], {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    ("Resize", 11, [X, NO_ROI, SCALES], {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
    ("Resize", 11, [X, NO_ROI, SCALES], {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}),
    ("Resize", 13, [X, None, None, np.array([2, 3, 5, 14])], {"mode": "linear"}),
    ("Resize", 13, [X, None, SCALES], {"nearest_mode": "ceil", "coordinate_transformation_mode": "asymmetric"}),
    ("RoiAlign", 10, [X, abs(floats(3, 4)) * 4, np.array([0, 1, 1])], {"output_height": 2, "sampling_ratio": 2}),
    ("RoiAlign", 16, [X, np.float32([[1, 1, 6, 5]]), np.array([1])], {"output_width": 3, "mode": "max"}),
    ("Scatter", 9, [X, np.zeros((1, 1, 2, 2), np.int64), floats(1, 1, 2, 2)], {"axis": 2}),
    ("ScatterElements", 16, [X, np.zeros((1, 1, 2, 2), np.int64), floats(1, 1, 2, 2)], {"axis": 3, "reduction": "add"}),
    ("ScatterND", 11, [X, np.array([[0], [1]]), floats(2, 3, 8, 9)], {}),
    ("Shape", 13, [X], {}),
    ("Slice", 7, [X], {"starts": [1, -3], "ends": [99, -1], "axes": [2, 3]}),
    ("Slice", 10, [X, np.array([-1]), np.array([-99]), np.array([2]), np.array([-2])], {}),
    ("Softmax", 7, [X], {"axis": 2}),
    ("Softmax", 11, [X], {}),
    ("SpaceToDepth", 7, [floats(1, 2, 4, 6)], {"blocksize": 2}),
    ("Split", 7, [X], {"axis": 2, "split": [3, 5], "outputs": 2}),
    ("Split", 13, [X], {"axis": 1, "outputs": 3}),
    ("Split", 18, [X], {"axis": 2, "num_outputs": 3, "outputs": 3}),
    ("Squeeze", 7, [floats(1, 3, 1)], {"axes": [0]}),
    ("Squeeze", 11, [floats(1, 3, 1)], {"axes": [-1]}),
    ("Sum", 8, [X, X, floats(9)], {}),
    ("Tile", 7, [floats(2, 3), np.array([2, 1])], {}),
    ("TopK", 7, [X], {"k": 3, "outputs": 2}),
    ("TopK", 10, [X, np.array([2])], {"axis": 1, "outputs": 2}),
    ("Unsqueeze", 7, [floats(3)], {"axes": [0, 2]}),
    ("Upsample", 7, [X], {"scales": [1.0, 1.0, 2.0, 2.0]}),
    ("Upsample", 9, [X, SCALES], {"mode": "linear"}),
]  # fmt: skip


NAMES = [f"{name}-{opset}-{number}" for number, (name, opset, *_) in enumerate(CASES)]


@pytest.mark.parametrize(("op_type", "opset", "inputs", "attributes"), CASES, ids=NAMES)
def test_agrees_with_onnxruntime(op_type, opset, inputs, attributes):
    assert_agrees(op_type, inputs, version=opset, **attributes)


def recurrent(gates, directions=2, inputs=5, hidden=4, batch=3, times=6):
    return [
        floats(times, batch, inputs),
        floats(directions, gates * hidden, inputs),
        floats(directions, gates * hidden, hidden),
        floats(directions, 2 * gates * hidden),
        np.array([6, 2, 4], np.int32),
        floats(directions, batch, hidden),
    ]


@pytest.mark.parametrize("opset", [7, 14])
@pytest.mark.parametrize(
    ("op_type", "gates", "attributes"),
    [
        ("RNN", 1, {"activations": ["Relu", "HardSigmoid"], "clip": 0.7}),
        ("RNN", 1, {}),
        ("GRU", 3, {}),
        ("GRU", 3, {"linear_before_reset": 1, "activations": ["HardSigmoid", "Softsign"] * 2}),
        ("LSTM", 4, {"input_forget": 1}),
        ("LSTM", 4, {"clip": 0.5}),
    ],
)
def test_recurrent_operators_agree_with_onnxruntime(op_type, gates, attributes, opset):
    """Bidirectional, with sequences of different lengths and an initial state; LSTM also with peepholes."""
    inputs = recurrent(gates)
    if op_type == "LSTM":
        inputs += [floats(2, 3, 4), floats(2, 12)]
    assert_agrees(
        op_type,
        inputs,
        version=opset,
        outputs=3 if op_type == "LSTM" else 2,
        hidden_size=4,
        direction="bidirectional",
        **attributes,
    )
