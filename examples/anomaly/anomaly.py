"""Detect odd vibrations by an autoencoder: train it on normal ones, write it as ONNX, and build it for a board.

    pip install "onnx-hw[tools,ice40]" onnx scikit-learn
    python anomaly.py [BOARD] [LAST STAGE]

Writes vibration-BOARD/ into the current folder.
"""

import sys

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPRegressor

import onnx
import onnx_hw
from onnx import TensorProto, helper, numpy_helper

WINDOW = 32
"""Number of samples of the sensor in a frame."""


def vibrations(count: int, random: np.random.Generator, *, odd: bool) -> np.ndarray:
    """Return windows of a machine's vibration, (count, WINDOW) float32: two tones and noise; odd ones with a knock."""
    time = np.arange(WINDOW)
    phase, level = random.uniform(0, 2 * np.pi, (2, count, 1)), random.uniform(0.3, 0.5, (count, 1))
    windows = level * np.sin(0.4 * time + phase[0]) + 0.2 * np.sin(0.9 * time + phase[1])
    windows += random.normal(0, 0.02, windows.shape)
    if odd:
        since = time - random.integers(4, WINDOW - 8, (count, 1))
        windows += np.where(since >= 0, 0.2 * np.exp(-0.5 * since) * np.cos(2.4 * since), 0)
    return windows.astype(np.float32)


def to_onnx(mlp: MLPRegressor, name: str) -> onnx.ModelProto:
    """Return a fitted multilayer perceptron with Relu as a model from ``window`` to ``rebuilt``."""
    nodes, constants, value = [], [], "window"
    layers = list(zip(mlp.coefs_, mlp.intercepts_, strict=True))
    for k, (weights, bias) in enumerate(layers, 1):
        output = "rebuilt" if k == len(layers) else f"sums{k}"
        constants.append(numpy_helper.from_array(weights.astype(np.float32), f"weights{k}"))
        constants.append(numpy_helper.from_array(bias.astype(np.float32), f"bias{k}"))
        nodes.append(helper.make_node("Gemm", [value, f"weights{k}", f"bias{k}"], [output], f"layer{k}"))
        if output != "rebuilt":
            value = f"code{k}"
            nodes.append(helper.make_node("Relu", [output], [value], f"relu{k}"))
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, WINDOW]) for end in ("window", "rebuilt")]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


board = sys.argv[1] if len(sys.argv) > 1 else "icebreaker"
last_stage = sys.argv[2] if len(sys.argv) > 2 else "unpack"

random = np.random.default_rng(0)
normal = vibrations(2000, random, odd=False)
mlp = MLPRegressor(hidden_layer_sizes=(24, 6, 24), tol=3e-5, random_state=0).fit(normal, normal)
model = to_onnx(mlp, "vibration")
network = onnx_hw.quantize(model, {"window": normal[:200]})
print(network)

test = np.concatenate([vibrations(150, random, odd=False), vibrations(150, random, odd=True)])
is_odd = np.arange(300) >= 150
for name, rebuilt in (("scikit-learn", mlp.predict(test)), ("integers", network(test)["rebuilt"])):
    error = ((test - rebuilt) ** 2).mean(axis=1)  # what the autoencoder cannot rebuild is odd
    print(f"{name}: area under the ROC curve {roc_auc_score(is_odd, error):.3f}")

build = onnx_hw.build(network, board=board, inputs={"window": test}, stop_after=last_stage, progress=True)
print(build)
print(build.report)
