"""The digits network in plain numpy: forward, backward and Adam, small enough to read.

    image [n,1,8,8] → conv 3×3, 8 → relu → maxpool 2×2 → conv 3×3, 16 → relu → maxpool 2×2 → flatten → dense 10

All arrays are float32. Images are NCHW, weights are laid out as ONNX wants them: Conv [out, in, 3, 3], Gemm
[out, in] (``transB=1``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

Array = np.ndarray


@dataclass
class Weights:
    """Everything that is trained; also used for its gradients and for Adam's moments."""

    conv1: Array  # [8, 1, 3, 3]
    conv1_bias: Array  # [8]
    conv2: Array  # [16, 8, 3, 3]
    conv2_bias: Array  # [16]
    dense: Array  # [10, 64]
    dense_bias: Array  # [10]

    @classmethod
    def drawn(cls, generator: np.random.Generator) -> Weights:
        """He's initialization: normal with variance 2 / fan-in; biases 0."""

        def normal(*shape: int) -> Array:
            fan_in = int(np.prod(shape[1:]))
            return (generator.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)

        return cls(normal(8, 1, 3, 3), zeros(8), normal(16, 8, 3, 3), zeros(16), normal(10, 64), zeros(10))

    @classmethod
    def zeros_like(cls, other: Weights) -> Weights:
        return cls(*(np.zeros_like(array) for array in other))

    def __iter__(self) -> Iterator[Array]:
        return (getattr(self, item.name) for item in fields(self))


def zeros(*shape: int) -> Array:
    return np.zeros(shape, dtype=np.float32)


def windows(x: Array) -> Array:
    """[n, c, h, w] to the 3×3 neighbourhoods of every pixel, zero-padded: [n, h, w, c·9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return views.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x: Array, weights: Array, bias: Array) -> Array:
    """3×3, stride 1, padding 1."""
    return (windows(x) @ weights.reshape(len(weights), -1).T + bias).transpose(0, 3, 1, 2)


def conv_gradients(x: Array, weights: Array, upstream: Array) -> tuple[Array, Array, Array]:
    """Gradients of ``conv`` with respect to input, weights and bias."""
    out, channels = weights.shape[:2]
    flat = upstream.transpose(0, 2, 3, 1).reshape(-1, out)
    by_weights = (flat.T @ windows(x).reshape(flat.shape[0], -1)).reshape(weights.shape)
    # The gradient of a correlation is the correlation with the kernel turned by 180°, in and out exchanged.
    turned = weights[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    by_input = conv(upstream, turned, zeros(channels))
    return by_input, by_weights, flat.sum(axis=0)


def maxpool(x: Array) -> Array:
    """2×2, stride 2."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def maxpool_gradient(x: Array, y: Array, upstream: Array) -> Array:
    """Gradient of ``maxpool``; several equal maxima share it."""
    spread = y.repeat(2, axis=2).repeat(2, axis=3) == x
    n, c, h, w = y.shape
    ties = spread.reshape(n, c, h, 2, w, 2).sum(axis=(3, 5))
    return np.where(spread, (upstream / ties).repeat(2, axis=2).repeat(2, axis=3), 0).astype(np.float32)


@dataclass
class Activations:
    """Every tensor a frame passes through; the ranges of these are what calibration looks at."""

    image: Array
    conv1: Array  # after relu
    pool1: Array
    conv2: Array  # after relu
    pool2: Array
    scores: Array


def forward(weights: Weights, image: Array) -> Activations:
    """Images [n,1,8,8] to scores [n,10] and everything between."""
    conv1 = np.maximum(conv(image, weights.conv1, weights.conv1_bias), 0)
    pool1 = maxpool(conv1)
    conv2 = np.maximum(conv(pool1, weights.conv2, weights.conv2_bias), 0)
    pool2 = maxpool(conv2)
    scores = pool2.reshape(len(image), -1) @ weights.dense.T + weights.dense_bias
    return Activations(image, conv1, pool1, conv2, pool2, scores)


def gradients(weights: Weights, seen: Activations, labels: Array) -> Weights:
    """Gradients of the mean cross-entropy of softmax(scores) against the labels."""
    exponentials = np.exp(seen.scores - seen.scores.max(axis=1, keepdims=True))
    upstream = exponentials / exponentials.sum(axis=1, keepdims=True)
    upstream[np.arange(len(labels)), labels] -= 1
    upstream /= len(labels)
    by_dense = upstream.T @ seen.pool2.reshape(len(labels), -1)
    by_pool2 = (upstream @ weights.dense).reshape(seen.pool2.shape)
    by_conv2 = maxpool_gradient(seen.conv2, seen.pool2, by_pool2) * (seen.conv2 > 0)
    by_pool1, by_weights2, by_bias2 = conv_gradients(seen.pool1, weights.conv2, by_conv2)
    by_conv1 = maxpool_gradient(seen.conv1, seen.pool1, by_pool1) * (seen.conv1 > 0)
    _, by_weights1, by_bias1 = conv_gradients(seen.image, weights.conv1, by_conv1)
    return Weights(by_weights1, by_bias1, by_weights2, by_bias2, by_dense, upstream.sum(axis=0))


class Adam:
    """Kingma and Ba, https://arxiv.org/abs/1412.6980, algorithm 1."""

    def __init__(self, weights: Weights, mean_decay: float = 0.9, square_decay: float = 0.999):
        self.mean, self.square = Weights.zeros_like(weights), Weights.zeros_like(weights)
        self.mean_decay, self.square_decay = mean_decay, square_decay
        self.steps = 0

    def step(self, weights: Weights, gradient: Weights, rate: float) -> None:
        """Update the weights in place."""
        self.steps += 1
        for w, g, m, v in zip(weights, gradient, self.mean, self.square, strict=True):
            m += (1 - self.mean_decay) * (g - m)
            v += (1 - self.square_decay) * (g * g - v)
            mean = m / (1 - self.mean_decay**self.steps)
            square = v / (1 - self.square_decay**self.steps)
            w -= (rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
