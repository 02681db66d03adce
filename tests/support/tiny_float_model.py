"""A float classifier of 4 × 4 images, so small that a build of it takes seconds; with images and right classes."""

from __future__ import annotations

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 3
IMAGES = np.random.default_rng(3).random((40, 1, 4, 4), dtype=np.float32)


def tiny_float_model(name: str = "tiny") -> onnx.ModelProto:
    """Return image[1,1,4,4] → convolution, Relu, Gemm, Softmax → probabilities[1,3], with ``logits`` between."""
    random = np.random.default_rng(4)
    constants = {
        "kernel": random.normal(0, 0.4, (2, 1, 3, 3)),
        "matrix": random.normal(0, 0.4, (2 * 16, CLASSES)),
        "bias": random.normal(0, 0.2, CLASSES),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["sums"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["sums"], ["features"], "relu"),
        helper.make_node("Flatten", ["features"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "matrix", "bias"], ["logits"], "gemm"),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(array.astype(np.float32), key) for key, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
