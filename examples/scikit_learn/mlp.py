"""Train a scikit-learn MLPClassifier on the digits, write it as ONNX, and build it for a board.

    pip install "onnx-hw[tools,ice40]" onnx scikit-learn
    python mlp.py [BOARD] [LAST STAGE]

Writes digits_mlp-BOARD/ into the current folder.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import onnx
import onnx_hw
from onnx import TensorProto, helper, numpy_helper


def to_onnx(mlp: MLPClassifier, name: str) -> onnx.ModelProto:
    """Return a fitted multilayer perceptron with Relu as a model from ``features`` to ``scores``, one per class."""
    nodes, constants, value = [], [], "features"
    layers = list(zip(mlp.coefs_, mlp.intercepts_, strict=True))
    for k, (weights, bias) in enumerate(layers, 1):
        output = "scores" if k == len(layers) else f"sums{k}"
        constants.append(numpy_helper.from_array(weights.astype(np.float32), f"weights{k}"))
        constants.append(numpy_helper.from_array(bias.astype(np.float32), f"bias{k}"))
        nodes.append(helper.make_node("Gemm", [value, f"weights{k}", f"bias{k}"], [output], f"layer{k}"))
        if output != "scores":
            value = f"hidden{k}"
            nodes.append(helper.make_node("Relu", [output], [value], f"relu{k}"))
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, len(mlp.coefs_[0])])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, len(mlp.classes_)])
    graph = helper.make_graph(nodes, name, [features], [scores], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


board = sys.argv[1] if len(sys.argv) > 1 else "icebreaker"
last_stage = sys.argv[2] if len(sys.argv) > 2 else "unpack"

digits = load_digits()
pixels = (digits.data / 16).astype(np.float32)  # (1797, 64) in 0..1
train, test = pixels[:1437], pixels[1437:]
labels = digits.target[1437:]

mlp = MLPClassifier((24,), max_iter=400, tol=1e-3, random_state=0).fit(train, digits.target[:1437])
model = to_onnx(mlp, "digits_mlp")
network = onnx_hw.quantize(model, {"features": train[:200]})
print(network)
by_integers = network(test)["scores"].argmax(axis=1)
print(f"scikit-learn: {(mlp.predict(test) == labels).sum()} of {len(labels)} right")
print(f"integers:     {(by_integers == labels).sum()} of {len(labels)} right")

samples = {"features": test, "labels": labels}
build = onnx_hw.build(network, board=board, inputs=samples, stop_after=last_stage, progress=True)
print(build)
print(build.report)
