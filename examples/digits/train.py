"""Train the digits network and write everything this folder ships: some seconds on one core.

    pip install onnx onnxruntime scikit-learn
    python examples/digits/train.py [FOLDER]

Writes digits_float.onnx, digits.onnx (QDQ int8), digits_calibration.npz and digits_test.npz. The random generator is
seeded; still, another BLAS adds in another order, so weights trained elsewhere differ in their last digits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

import onnx
from export import float_model, int8_model
from network import Adam, Array, Weights, forward, gradients

TEST_IMAGES = 360
CALIBRATION_IMAGES = 128
EPOCHS = 60
BATCH = 32


def images() -> tuple[Array, Array]:
    """The 1797 8×8 digits of scikit-learn, shuffled: images float32 [n,1,8,8] in 0..1 and labels int64 [n]."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pixels = (digits.images[order] / 16).astype(np.float32)
    return pixels[:, np.newaxis], digits.target[order].astype(np.int64)


def train(x: Array, labels: Array) -> Weights:
    """Adam over shuffled batches with a learning rate that falls like a cosine to 0."""
    generator = np.random.default_rng(1)
    weights = Weights.drawn(generator)
    adam = Adam(weights)
    batches = len(x) // BATCH
    for epoch in range(EPOCHS):
        order = generator.permutation(len(x))
        for k in range(batches):
            chosen = order[k * BATCH : (k + 1) * BATCH]
            progress = (epoch * batches + k) / (EPOCHS * batches)
            rate = 2e-3 * (1 + np.cos(np.pi * progress))
            adam.step(weights, gradients(weights, forward(weights, x[chosen]), labels[chosen]), rate)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: training accuracy {accuracy(forward(weights, x).scores, labels):.2%}")
    return weights


def accuracy(scores: Array, labels: Array) -> float:
    return float((scores.argmax(axis=1) == labels).mean())


def run(model: onnx.ModelProto, x: Array) -> Array:
    """Probabilities [n, 10] of onnxruntime, graph optimizations off so that the file is computed as it says."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"image": image[np.newaxis]})[0] for image in x])


def main(folder: Path) -> None:
    x, labels = images()
    test, training = slice(0, TEST_IMAGES), slice(TEST_IMAGES, None)
    weights = train(x[training], labels[training])
    calibration = x[training][:CALIBRATION_IMAGES]
    models = {
        "digits_float": float_model(weights),
        "digits": int8_model(weights, forward(weights, calibration)),
    }
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")
        print(f"{name}.onnx: test accuracy {accuracy(run(model, x[test]), labels[test]):.2%} of {TEST_IMAGES} images")
    # One sample per entry of a new first axis; each has the shape of the graph input, batch of 1 included.
    np.savez_compressed(folder / "digits_calibration.npz", image=calibration[:, np.newaxis])
    np.savez_compressed(folder / "digits_test.npz", image=x[test][:, np.newaxis], labels=labels[test])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
