"""One node of every operator that multiplies and accumulates, in every domain, drawn by seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Node

MICROSOFT, CHANNELS_LAST = "com.microsoft", "qonnx.custom_op.channels_last"
CLASSICAL = "ai.onnx.ml"
NEWEST = 28
"""Opset of the default domain."""

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Product:
    """A node.

    Attributes:
        inputs: the data first.
        results: how many.
    """

    op_type: str
    domain: str
    inputs: Arrays
    attributes: dict[str, Any] = field(default_factory=dict)
    results: int = 1

    @property
    def node(self) -> Node:
        return Node(
            "product",
            self.op_type,
            self.domain,
            1 if self.domain else NEWEST,
            tuple(f"x{k}" for k in range(len(self.inputs))),
            tuple(f"y{k}" for k in range(self.results)),
            {name: tuple(value) if isinstance(value, list) else value for name, value in self.attributes.items()},
        )


class Draw:
    """Random numbers of small shapes; ``ones`` instead of numbers makes every product count 1."""

    def __init__(self, seed: int, ones: bool = False) -> None:
        self.random, self.ones = np.random.default_rng(seed), ones

    def size(self, most: int = 4) -> int:
        return int(self.random.integers(1, most + 1))

    def real(self, *shape: int) -> np.ndarray:
        return np.ones(shape, np.float32) if self.ones else self.random.normal(0, 1, shape).astype(np.float32)

    def integers(self, *shape: int) -> np.ndarray:
        return np.ones(shape, np.uint8) if self.ones else self.random.integers(0, 9, shape).astype(np.uint8)

    def scale(self) -> np.ndarray:
        return np.array(1, np.float32)

    def zero(self) -> np.ndarray:
        return np.array(0, np.uint8)


def conv(draw: Draw, make: Callable[..., np.ndarray]) -> tuple[Arrays, dict[str, Any]]:
    """Data, weights and attributes of a convolution that pads nothing."""
    group, inner, outputs = draw.size(2), draw.size(2), draw.size(2)
    kernel = (draw.size(3), draw.size(2))
    image = [k + draw.size(3) for k in kernel]
    return (
        [make(1, group * inner, *image), make(group * outputs, inner, *kernel)],
        {"group": group, "strides": [draw.size(2), 1], "kernel_shape": list(kernel)},
    )


def plain_conv(op_type: str, domain: str = "", **more: Any) -> Callable[[Draw], Product]:
    def drawn(draw: Draw) -> Product:
        inputs, attributes = conv(draw, draw.real)
        return Product(op_type, domain, inputs, {**attributes, **more})

    return drawn


def conv_integer(draw: Draw) -> Product:
    return Product("ConvInteger", "", *conv(draw, draw.integers))


def qlinear_conv(domain: str) -> Callable[[Draw], Product]:
    def drawn(draw: Draw) -> Product:
        (x, w), attributes = conv(draw, draw.integers)
        scaled = [draw.scale(), draw.zero()]
        return Product("QLinearConv", domain, [x, *scaled, w, *scaled, *scaled], attributes)

    return drawn


def channels_last(draw: Draw) -> Product:
    (x, w), attributes = conv(draw, draw.real)
    return Product("Conv", CHANNELS_LAST, [np.moveaxis(x, 1, -1).copy(), np.moveaxis(w, 1, -1).copy()], attributes)


def conv_transpose(draw: Draw) -> Product:
    group, inner, outputs = draw.size(2), draw.size(2), draw.size(2)
    kernel = (draw.size(3), draw.size(2))
    x, w = draw.real(1, group * inner, draw.size(), draw.size()), draw.real(group * inner, outputs, *kernel)
    return Product("ConvTranspose", "", [x, w], {"group": group, "strides": [draw.size(2), 1]})


def deform_conv(draw: Draw) -> Product:
    (x, w), attributes = conv(draw, draw.real)
    rows = (x.shape[2] - w.shape[2]) // attributes["strides"][0] + 1
    moves = np.zeros((1, 2 * w.shape[2] * w.shape[3], rows, x.shape[3] - w.shape[3] + 1), np.float32)
    return Product("DeformConv", "", [x, w, moves], attributes)


def matmul(op_type: str, domain: str = "") -> Callable[[Draw], Product]:
    def drawn(draw: Draw) -> Product:
        rows, inner, columns = (draw.size() for _ in range(3))
        return Product(op_type, domain, [draw.real(1, rows, inner), draw.real(inner, columns)])

    return drawn


def integer_matmul(op_type: str, domain: str = "") -> Callable[[Draw], Product]:
    """The operators differ in where scales and zero points stand."""

    def drawn(draw: Draw) -> Product:
        rows, inner, columns = (draw.size() for _ in range(3))
        a, b, scale = draw.integers(rows, inner), draw.integers(inner, columns), draw.scale()
        operands = [a, scale, draw.zero(), b, scale, draw.zero()]
        inputs = {
            "MatMulInteger": [a, b],
            "MatMulIntegerToFloat": [a, b, scale, scale],
            "DynamicQuantizeMatMul": [a.astype(np.float32), b, scale],
            "QGemm": operands,
            "QLinearMatMul": [*operands, scale, draw.zero()],
        }
        return Product(op_type, domain, inputs[op_type])

    return drawn


def matmul_in_blocks(draw: Draw) -> Product:
    """Four bits a weight, of which 8 is taken away."""
    rows, inner, columns, block = draw.size(), draw.size(8), draw.size(), 4
    blocks = -(-inner // block)
    weights = (
        np.full((columns, blocks, block), 9) if draw.ones else draw.random.integers(0, 16, (columns, blocks, block))
    )
    packed = (weights[..., 0::2] | weights[..., 1::2] << 4).astype(np.uint8)
    scales = np.ones(columns * blocks, np.float32)
    named = {"K": inner, "N": columns, "block_size": block, "bits": 4}
    return Product("MatMulNBits", MICROSOFT, [draw.real(rows, inner), packed, scales], named)


def gemm(op_type: str, domain: str = "") -> Callable[[Draw], Product]:
    def drawn(draw: Draw) -> Product:
        rows, inner, columns = (draw.size() for _ in range(3))
        turned = {name: int(draw.size(2) - 1) for name in ("transA", "transB")}
        a, b = draw.real(rows, inner), draw.real(inner, columns)
        inputs = [of.T.copy() if turn else of for of, turn in zip((a, b), turned.values(), strict=True)]
        return Product(op_type, domain, inputs, dict(turned))

    return drawn


def einsum(draw: Draw) -> Product:
    batch, rows, inner, columns = (draw.size() for _ in range(4))
    return Product(
        "Einsum",
        "",
        [draw.real(batch, rows, inner), draw.real(batch, inner, columns)],
        {"equation": "...ij,...jk->...ik"},
    )


def recurrent(op_type: str, gates: int, results: int) -> Callable[[Draw], Product]:
    def drawn(draw: Draw) -> Product:
        times, features, hidden = draw.size(), draw.size(), draw.size()
        weights = draw.real(1, gates * hidden, features), draw.real(1, gates * hidden, hidden)
        return Product(op_type, "", [draw.real(times, 1, features), *weights], {"hidden_size": hidden}, results)

    return drawn


def dynamic_lstm(draw: Draw) -> Product:
    times, features, hidden = draw.size(), draw.size(), draw.size()
    weights = draw.integers(1, features, 4 * hidden), draw.integers(1, hidden, 4 * hidden)
    scales = [np.ones(1, np.float32), np.zeros(1, weights[0].dtype)] * 2
    states = [np.zeros((1, 1, hidden), np.float32)] * 2
    rest = [np.zeros((1, 8 * hidden), np.float32), np.array([times], np.int32), *states]
    peepholes = np.zeros((1, 3 * hidden), np.float32)
    inputs = [draw.real(times, 1, features), *weights, *rest, peepholes, *scales]
    return Product("DynamicQuantizeLSTM", MICROSOFT, inputs, {"hidden_size": hidden}, 3)


def attention(draw: Draw) -> Product:
    heads, queries, keys, size = draw.size(2), draw.size(), draw.size(), draw.size()
    q, k, v = (draw.real(1, heads, length, size) for length in (queries, keys, keys))
    return Product("Attention", "", [q, k, v])


def linear_attention(draw: Draw) -> Product:
    heads, length, size, values = draw.size(2), draw.size(), draw.size(), draw.size()
    q, k, v = (draw.real(1, length, heads * of) for of in (size, size, values))
    named = {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": "linear"}
    return Product("LinearAttention", "", [q, k, v], named, 2)


def causal_conv(draw: Draw) -> Product:
    channels, taps = draw.size(), draw.size()
    return Product(
        "CausalConvWithState", "", [draw.real(1, channels, draw.size()), draw.real(channels, 1, taps)], {}, 2
    )


def linear_regressor(draw: Draw) -> Product:
    columns, targets = draw.size(), draw.size()
    named = {"coefficients": draw.real(columns * targets).tolist(), "targets": targets}
    return Product("LinearRegressor", CLASSICAL, [draw.real(draw.size(), columns)], named)


def linear_classifier(draw: Draw) -> Product:
    columns, classes = draw.size(), 1 + draw.size()
    named = {"coefficients": draw.real(columns * classes).tolist(), "intercepts": draw.real(classes).tolist()}
    named["classlabels_ints"] = list(range(classes))
    return Product("LinearClassifier", CLASSICAL, [draw.real(draw.size(), columns)], named, 2)


def svm_regressor(draw: Draw) -> Product:
    columns, count = draw.size(), draw.size()
    named = {"support_vectors": draw.real(count * columns).tolist(), "coefficients": draw.real(count).tolist()}
    return Product("SVMRegressor", CLASSICAL, [draw.real(draw.size(), columns)], named | {"n_supports": count})


def svm_classifier(draw: Draw) -> Product:
    columns, each = draw.size(), [draw.size(), draw.size(), draw.size()]
    named = {"support_vectors": draw.real(sum(each) * columns).tolist(), "vectors_per_class": each}
    named |= {"coefficients": draw.real(2 * sum(each)).tolist(), "rho": [0.0] * 3, "classlabels_ints": [0, 1, 2]}
    return Product("SVMClassifier", CLASSICAL, [draw.real(draw.size(), columns)], named, 2)


PRODUCTS: dict[tuple[str, str], Callable[[Draw], Product]] = {
    ("", "Conv"): plain_conv("Conv"),
    ("", "ConvInteger"): conv_integer,
    ("", "ConvTranspose"): conv_transpose,
    ("", "DeformConv"): deform_conv,
    ("", "QLinearConv"): qlinear_conv(""),
    (MICROSOFT, "QLinearConv"): qlinear_conv(MICROSOFT),
    (MICROSOFT, "FusedConv"): plain_conv("FusedConv", MICROSOFT, activation="Relu"),
    (CHANNELS_LAST, "Conv"): channels_last,
    ("", "MatMul"): matmul("MatMul"),
    (MICROSOFT, "FusedMatMul"): gemm("FusedMatMul", MICROSOFT),
    ("", "Gemm"): gemm("Gemm"),
    (MICROSOFT, "FusedGemm"): gemm("FusedGemm", MICROSOFT),
    ("", "MatMulInteger"): integer_matmul("MatMulInteger"),
    ("", "QLinearMatMul"): integer_matmul("QLinearMatMul"),
    (MICROSOFT, "MatMulIntegerToFloat"): integer_matmul("MatMulIntegerToFloat", MICROSOFT),
    (MICROSOFT, "DynamicQuantizeMatMul"): integer_matmul("DynamicQuantizeMatMul", MICROSOFT),
    (MICROSOFT, "MatMulNBits"): matmul_in_blocks,
    (MICROSOFT, "QGemm"): integer_matmul("QGemm", MICROSOFT),
    ("", "Einsum"): einsum,
    ("", "RNN"): recurrent("RNN", 1, 2),
    ("", "GRU"): recurrent("GRU", 3, 2),
    ("", "LSTM"): recurrent("LSTM", 4, 3),
    (MICROSOFT, "DynamicQuantizeLSTM"): dynamic_lstm,
    ("", "Attention"): attention,
    ("", "LinearAttention"): linear_attention,
    ("", "CausalConvWithState"): causal_conv,
    (CLASSICAL, "LinearRegressor"): linear_regressor,
    (CLASSICAL, "LinearClassifier"): linear_classifier,
    (CLASSICAL, "SVMRegressor"): svm_regressor,
    (CLASSICAL, "SVMClassifier"): svm_classifier,
}
"""By domain and operator."""
