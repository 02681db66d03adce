"""A small float classifier with what retraining moves in residual networks: scales of sums, zero points, bounds."""

from __future__ import annotations

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

SAMPLES = np.random.default_rng(5).normal(0, 1, (48, 1, 2, 4, 4)).astype(np.float32)


def residual_float_model(name: str = "residual") -> onnx.ModelProto:
    """Return image[1,2,4,4] → padded convolutions, LeakyRelu, sum, Clip, a gate by means, product → logits[1,3].

    A range holds 0, so that the bound of a Clip that is not 0 is a number within it, which moves with its scale.
    """
    random = np.random.default_rng(6)
    constants = {
        "first": random.normal(0, 0.3, (2, 2, 3, 3)),
        "second": random.normal(0, 0.3, (2, 2, 3, 3)),
        "single": random.normal(0, 0.4, (2, 1, 3, 3)),
        "side": random.normal(0, 0.6, (2, 2, 1, 1)),
        "gate": random.normal(0, 0.8, (2, 2, 1, 1)),
        "matrix": random.normal(0, 0.3, (2 * 16, 3)),
        "low": np.array(0.1),
        "high": np.array(100.0),
        "least": np.array(-100.0),
        "most": np.array(-0.1),
    }
    nodes = [
        helper.make_node("Conv", ["image", "first"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("LeakyRelu", ["a"], ["b"], "leaky", alpha=0.2),
        helper.make_node("Conv", ["b", "second"], ["c"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "b"], ["d"], "add"),
        helper.make_node("Conv", ["d", "single"], ["e"], "depthwise", pads=[1, 1, 1, 1], group=2),
        helper.make_node("Clip", ["e", "low", "high"], ["f"], "clip"),
        helper.make_node("Conv", ["d", "side"], ["n"], "conv4"),
        helper.make_node("Clip", ["n", "least", "most"], ["l"], "clip_below"),
        helper.make_node("GlobalAveragePool", ["d"], ["means"], "means"),
        helper.make_node("Conv", ["means", "gate"], ["g"], "conv3"),
        helper.make_node("Sigmoid", ["g"], ["h"], "sigmoid"),
        helper.make_node("Mul", ["d", "h"], ["i"], "excite"),
        helper.make_node("Sub", ["i", "f"], ["m"], "difference"),
        helper.make_node("Add", ["m", "l"], ["j"], "total"),
        helper.make_node("Relu", ["j"], ["k"], "relu"),
        helper.make_node("Flatten", ["k"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", "matrix"], ["logits"], "classes"),
    ]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(array.astype(np.float32), key) for key, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
