"""Networks in which tensors are multiplied with each other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Network
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from support.hand_built_designs import Sketch

WORDS, FEATURES = 5, 6


class Products(Sketch):
    def projected(self, x: str, seed: int) -> str:
        """A constant matrix times each vector, as integers of four bits."""
        channels = self.tensors[x].channels
        weights = np.random.default_rng(seed).integers(-3, 4, (channels, channels))
        name = f"projected{len(self.nodes)}"
        return self.requantized(self.add(name, MatMul(self.tensors[x], weights), [x], (1, 1), 1)[0])

    def requantized(self, x: str) -> str:
        requantize = Requantize(self.tensors[x], (Fraction(1, 13),), (Fraction(0),), Grid.over(Int(4)))
        return self.add(f"{x}/q", requantize, [x], (1, 1), 1)[0]

    def product(self, vectors: str, weights: str, capacity: int | None = None) -> str:
        operator = MatMul(self.tensors[vectors], self.tensors[weights], capacity=capacity)
        return self.add(f"product{len(self.nodes)}", operator, [vectors, weights], (1, 1), 1)[0]


def of_two_inputs(capacity: int | None = None) -> Network:
    """Behind the product a convolution's arithmetic goes on."""
    net = Products()
    x, w = net.input("x", Tensor((1, WORDS, FEATURES), Int(4))), net.input("w", Tensor((1, 7, FEATURES), Int(4)))
    net.projected(net.requantized(net.product(net.projected(x, 0), w, capacity)), 1)
    return net.design().network


def of_what_it_makes() -> Network:
    """The likeness of each word with each other one: queries times keys, both made from the words."""
    net = Products()
    x = net.input("x", Tensor((1, WORDS, FEATURES), Int(4)))
    net.requantized(net.product(net.projected(x, 0), net.projected(x, 1)))
    return net.design().network


def of_heads(heads: int, tokens: int, size: int, *, weighted: bool) -> Network:
    """Queries times keys, (tokens, size) each, or weights of tokens times values, head by head."""
    net = Products()
    inputs, outputs = (tokens, size) if weighted else (size, tokens)
    x = net.input("x", Tensor((heads, tokens, inputs), Int(8)))
    w = net.input("w", Tensor((heads, outputs, inputs), Int(8)))
    net.requantized(net.product(x, w))
    return net.design().network
