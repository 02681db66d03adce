"""Encoder layers and a vision transformer of random weights, spelled as both exporters of torch write them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnx import helper
from support.onnx_oracle import write
from support.qdq_models import Sketch

SPELLINGS = ("torchscript", "dynamo")
OPSETS = {"torchscript": 17, "dynamo": 20}


@dataclass
class Transformer:
    """A graph of encoder layers under construction.

    Attributes:
        spelling: one of SPELLINGS: which exporter's nodes.
        width, heads: channels of a token, and heads of the attention.
        hidden: channels between the two products of a layer.
        first: whether a normalization stands before attention and products (pre-norm), not behind their sums.
    """

    spelling: str = "dynamo"
    width: int = 16
    heads: int = 2
    hidden: int = 32
    first: bool = False
    activation: str = "relu"
    seed: int = 0

    def __post_init__(self) -> None:
        self.sketch = Sketch(OPSETS[self.spelling])
        self.random = np.random.default_rng(self.seed)

    def constant(self, *shape: int, spread: float, mean: float = 0.0) -> str:
        return self.sketch.constant(self.random.normal(mean, spread, shape).astype(np.float32))

    def reshaped(self, x: str, *shape: int) -> str:
        return self.sketch.node("Reshape", x, self.sketch.constant(np.array(shape)))

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """A product with transposed weights, and its bias, which stands on the left in one spelling."""
        product = self.sketch.node("MatMul", x, self.constant(inputs, outputs, spread=inputs**-0.5))
        bias = self.constant(outputs, spread=0.2)
        return self.sketch.node("Add", *((bias, product) if self.spelling == "torchscript" else (product, bias)))

    def normalized(self, x: str) -> str:
        scale, bias = self.constant(self.width, spread=0.2, mean=1.0), self.constant(self.width, spread=0.1)
        return self.sketch.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def activated(self, x: str) -> str:
        s = self.sketch
        if self.activation == "relu":
            return s.node("Relu", x)
        if self.spelling == "dynamo":
            return s.node("Gelu", x)
        erf = s.node("Erf", s.node("Div", x, s.constant(np.float32(2**0.5))))
        gated = s.node("Mul", x, s.node("Add", erf, s.constant(np.float32(1))))
        return s.node("Mul", gated, s.constant(np.float32(0.5)))

    def attention(self, x: str, tokens: int) -> str:
        """MultiheadAttention of one input: its projections are one product."""
        s, heads, size = self.sketch, self.heads, self.width // self.heads
        if self.spelling == "torchscript":
            x = s.node("Transpose", x, perm=[1, 0, 2])
            packed = self.reshaped(self.linear(x, self.width, 3 * self.width), tokens, 1, 3, self.width)
            packed = s.node("Unsqueeze", packed, s.constant(np.array([0])))
            packed = s.node("Squeeze", s.node("Transpose", packed, perm=[3, 1, 2, 0, 4]), s.constant(np.array([3])))
            q, k, v = (
                s.node(
                    "Transpose",
                    self.reshaped(s.node("Gather", packed, s.constant(np.array(part))), tokens, heads, size),
                    perm=[1, 0, 2],
                )
                for part in range(3)
            )
            q = s.node("Div", q, s.constant(np.float32(size**0.5)))
            scores = s.node("MatMul", q, s.node("Transpose", k, perm=[0, 2, 1]))
            mixed = s.node("MatMul", s.node("Softmax", scores, axis=-1), v)
            mixed = self.reshaped(s.node("Transpose", mixed, perm=[1, 0, 2]), tokens, self.width)
            weights, bias = (
                self.constant(self.width, self.width, spread=self.width**-0.5),
                self.constant(self.width, spread=0.2),
            )
            result = self.reshaped(s.node("Gemm", mixed, weights, bias, transB=1), tokens, 1, self.width)
            return s.node("Transpose", result, perm=[1, 0, 2])
        packed = self.linear(x, self.width, 3 * self.width)
        parts = [f"part{len(s.nodes)}_{k}" for k in range(3)]
        s.nodes.append(helper.make_node("Split", [packed, s.constant(np.array([self.width] * 3))], parts, axis=-1))
        q, k, v = (
            s.node("Transpose", self.reshaped(part, 1, tokens, heads, size), perm=[0, 2, 1, 3]) for part in parts
        )
        root = s.constant(np.float32(size**-0.25))
        k = s.node("Mul", s.node("Transpose", k, perm=[0, 1, 3, 2]), root)
        mixed = s.node("MatMul", s.node("Softmax", s.node("MatMul", s.node("Mul", q, root), k), axis=-1), v)
        mixed = self.reshaped(s.node("Transpose", mixed, perm=[0, 2, 1, 3]), 1, tokens, self.width)
        return self.linear(mixed, self.width, self.width)

    def layer(self, x: str, tokens: int) -> str:
        """TransformerEncoderLayer, pre- or post-norm."""

        def forward(y: str) -> str:
            return self.linear(self.activated(self.linear(y, self.width, self.hidden)), self.hidden, self.width)

        if self.first:
            x = self.sketch.node("Add", x, self.attention(self.normalized(x), tokens))
            return self.sketch.node("Add", x, forward(self.normalized(x)))
        x = self.normalized(self.sketch.node("Add", x, self.attention(x, tokens)))
        return self.normalized(self.sketch.node("Add", x, forward(x)))


def encoder_layer(path: Path, tokens: int = 12, **named: object) -> Path:
    """Return the file of an encoder layer and a linear head for each token; ``x`` is [1, tokens, width]."""
    t = Transformer(**named)
    return write(t.sketch, path, {"x": [1, tokens, t.width]}, t.linear(t.layer("x", tokens), t.width, t.width))


def vision_transformer(path: Path, side: int = 16, patch: int = 4, layers: int = 2, **named: object) -> Path:
    """Return the file of a vision transformer with a class token and a position embedding; ``x`` is an image."""
    t = Transformer(first=True, activation="gelu", **named)
    s, patches = t.sketch, (side // patch) ** 2
    kernel = t.constant(t.width, 3, patch, patch, spread=(3 * patch**2) ** -0.5)
    image = s.node("Conv", "x", kernel, t.constant(t.width, spread=0.1), strides=[patch, patch])
    x = s.node("Transpose", t.reshaped(image, 1, t.width, patches), perm=[0, 2, 1])
    x = s.node("Concat", t.constant(1, 1, t.width, spread=0.5), x, axis=1)
    x = s.node("Add", x, t.constant(1, patches + 1, t.width, spread=0.3))
    for _ in range(layers):
        x = t.layer(x, patches + 1)
    token = s.node("Gather", t.normalized(x), s.constant(np.array(0)), axis=1)
    return write(s, path, {"x": [1, 3, side, side]}, t.linear(token, t.width, 5))
