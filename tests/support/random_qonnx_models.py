"""Networks as QONNX, Brevitas and FINN write them, drawn at random: quantizers between layers, weights quantized."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

import onnx
from onnx import TensorProto, helper
from support.qdq_models import Sketch

GENERAL = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")
LAST = "qonnx.custom_op.channels_last"
MODES = ("ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")


class Qonnx(Sketch):
    """A graph with quantizers.

    Attributes:
        draw: where the numbers come from.
        dyadic: scales are powers of two, so that sums meet ties; else they are anything.
        versions: of domains, where not the first.
        rank: of the output, where not that of the input.
    """

    def __init__(self, seed: int, dyadic: bool = False) -> None:
        super().__init__(opset=14)
        self.draw = np.random.default_rng(seed)
        self.dyadic = dyadic
        self.versions: dict[str, int] = {}
        self.rank = 0
        self.domain = str(self.draw.choice(GENERAL))

    def floats(self, array: object) -> str:
        return self.constant(np.asarray(array, dtype=np.float32))

    def scale(self, about: float, shape: Sequence[int] = ()) -> np.ndarray:
        """Positive numbers of a size."""
        scales = about * self.draw.uniform(0.6, 1.7, tuple(shape))
        return np.asarray(2.0 ** np.rint(np.log2(scales)) if self.dyadic else scales, dtype=np.float32)

    def quant(
        self,
        x: str,
        scale: object,
        bits: float,
        zero: object = 0.0,
        op_type: str = "",
        **attributes: object,
    ) -> str:
        op_type = op_type or ("Quant" if self.domain == GENERAL[2] else str(self.draw.choice(["Quant", "IntQuant"])))
        given = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND", **attributes}
        parameters = [self.floats(scale), self.floats(zero), self.floats(bits)]
        return self.node(op_type, x, *parameters, domain=self.domain, **given)

    def bipolar(self, x: str, scale: object = 1.0) -> str:
        return self.node("BipolarQuant", x, self.floats(scale), domain=self.domain)

    def thresholds(self, x: str, rows: np.ndarray, **attributes: object) -> str:
        return self.node("MultiThreshold", x, self.floats(rows), domain=self.domain, out_dtype="INT8", **attributes)

    def quantized(self, x: str, channels: int, axis: int, rank: int, *, layer: bool = True) -> str:
        """Behind some data of about −3..3, a quantizer; scales and thresholds per channel behind a layer alone."""
        kinds = ["signed", "signed", "unsigned", "bipolar", "channels", "levels"]
        kind = str(self.draw.choice(kinds[: None if layer else -2]))
        bits = int(self.draw.integers(2, 9))
        along = [channels if k == axis else 1 for k in range(rank)]
        if kind == "bipolar":
            return self.bipolar(x, self.scale(1.0))
        if kind == "levels":
            rows = np.sort(self.draw.normal(0, 1, (int(self.draw.choice([1, channels])), (1 << min(bits, 4)) - 1)))
            rows = np.rint(rows * 8) / 8 if self.dyadic else rows
            scale = self.scale(2.0 ** (1 - min(bits, 4)))
            layout = "NHWC" if axis == rank - 1 else "NCHW"
            down = float(scale) * (-1 if len(self.nodes) % 2 else 1)  # steps that lead up, or down
            bias = float(np.rint(-rows.shape[1] / 2)) * down
            return self.thresholds(x, rows, data_layout=layout, out_scale=down, out_bias=bias)
        shape = along if kind == "channels" else ()
        scale = self.scale(3.0 / (1 << (bits - 1)), shape)
        if shape:  # of which the common one is not too small
            scale = scale.max() / 2 ** self.draw.integers(0, 4, shape)
        flags = {"signed": int(kind != "unsigned"), "narrow": int(self.draw.integers(2))}
        return self.quant(x, scale, bits, **flags, rounding_mode=str(self.draw.choice(MODES)))

    def weights(self, shape: Sequence[int], axis: int) -> str:
        """Constants on a grid, as floats that lie on it or with a quantizer behind them."""
        kind = str(self.draw.choice(["quant", "channels", "bipolar", "stored"]))
        values = self.draw.normal(0, 0.6, tuple(shape))
        if kind == "stored":  # FINN's form
            return self.floats(self.draw.integers(-2, 3, tuple(shape)))
        if kind == "bipolar":
            return self.bipolar(self.floats(values), self.scale(0.2))
        along = [n if k == axis else 1 for k, n in enumerate(shape)]
        bits = int(self.draw.integers(2, 9))
        scale = self.scale(1.5 / (1 << (bits - 1)), along if kind == "channels" else ())
        return self.quant(self.floats(values), scale, bits, narrow=int(self.draw.integers(2)))

    def normalized(self, x: str, channels: int) -> str:
        """A BatchNormalization with factors of either sign."""
        gamma = self.draw.uniform(0.3, 1.5, channels) * self.draw.choice([-1, 1], channels)
        numbers = (gamma, self.draw.normal(0, 0.3, channels), self.draw.normal(0, 0.3, channels))
        variance = self.draw.uniform(0.5, 2, channels)
        return self.node("BatchNormalization", x, *map(self.floats, numbers), self.floats(variance))

    def written(self, path: Path, shape: Sequence[int], output: str) -> Path:
        domains = [helper.make_opsetid(name, self.versions.get(name, 1)) for name in (*GENERAL, LAST)]
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None] * (self.rank or len(shape)))],
            self.constants,
        )
        opsets = [helper.make_opsetid("", self.opset), *domains]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path


def multilayer(s: Qonnx) -> tuple[list[int], str]:
    """Products of vectors."""
    sizes = [int(n) for n in s.draw.integers(3, 12, 4)]
    x = s.quantized("x", sizes[0], 1, 2)
    for given, made in pairwise(sizes):
        if s.draw.integers(2):
            x = s.node("MatMul", x, s.weights((given, made), 1))
        else:
            x = s.node("MatMul", x, s.node("Transpose", s.weights((made, given), 0), perm=[1, 0]))
        x = s.node("Mul", x, s.floats(s.scale(0.7)))
        x = s.normalized(x, made) if s.draw.integers(2) else s.node("Add", x, s.floats(s.draw.normal(0, 0.5, made)))
        x = s.node("Relu", x) if s.draw.integers(3) == 0 else x
        x = s.quantized(x, made, 1, 2)
    return [1, sizes[0]], s.node("MatMul", x, s.weights((sizes[-1], 3), 1))


def convolutional(s: Qonnx) -> tuple[list[int], str]:
    """Convolutions, with as many groups as channels too, a maximum, an average, and a sum of two."""
    channels = int(s.draw.integers(2, 5))
    x = s.quant("x", s.scale(0.05), 8)
    x = s.node("Conv", x, s.weights((channels, 3, 3, 3), 0), pads=[1, 1, 1, 1])
    x = s.quantized(s.normalized(x, channels), channels, 1, 4)
    if s.draw.integers(2):
        x = s.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    bits = int(s.draw.integers(2, 7))
    same = s.quant(x, s.scale(1.0 / (1 << bits)), bits)
    y = s.node("Conv", same, s.weights((channels, 1, 3, 3), 0), group=channels, pads=[1, 1, 1, 1])
    y = s.quant(s.normalized(y, channels), s.scale(2.0 / (1 << bits)), bits, rounding_mode=str(s.draw.choice(MODES)))
    y = s.quantized(s.node("Relu", s.node("Add", same, y)), channels, 1, 4, layer=s.dyadic)
    y = s.node("Conv", y, s.weights((4, channels, 1, 1), 0))
    y = s.quant(s.node("Relu", s.normalized(y, 4)), s.scale(0.1), 4, signed=0)
    y = s.node("GlobalAveragePool", y)
    return [1, 3, 5, 4], s.node("Conv", y, s.weights((3, 4, 1, 1), 0))


def channels_last(s: Qonnx) -> tuple[list[int], str]:
    """The same with the channels innermost."""
    channels = int(s.draw.integers(2, 5))
    x = s.quant("x", s.scale(0.05), 8)
    x = s.node("Conv", x, s.weights((channels, 3, 3, 3), 0), domain=LAST, kernel_shape=[3, 3], strides=[1, 2])
    gamma = s.draw.uniform(0.3, 1.5, channels) * s.draw.choice([-1, 1], channels)
    numbers = (gamma, *(s.draw.normal(0, 0.3, channels) for _ in range(2)), s.draw.uniform(0.5, 2, channels))
    x = s.node("BatchNormalization", x, *map(s.floats, numbers), domain=LAST)
    x = s.quantized(x, channels, 3, 4)
    x = s.node("MaxPool", x, domain=LAST, kernel_shape=[2, 2])
    return [1, 5, 7, 3], s.node("Conv", x, s.weights((4, 1, 1, channels), 0), domain=LAST, kernel_shape=[1, 1])


def binary(s: Qonnx) -> tuple[list[int], str]:
    """As Brevitas exports a network of bipolar values: prepared on the host, flattened by its own shape."""
    x = s.quant(s.node("Sub", s.node("Mul", "x", s.floats(2)), s.floats(1)), 1 / 128, 8)
    for given, made in ((3, 6), (6, 4)):
        x = s.node("Conv", x, s.bipolar(s.floats(s.draw.normal(0, 1, (made, given, 3, 3))), 0.1))
        x = s.bipolar(s.normalized(x, made))
    x = s.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    batch = s.node("Gather", s.node("Shape", x), s.constant(np.int64(0)), axis=0)
    sizes = [s.node("Unsqueeze", batch, s.constant(np.array([0]))), s.constant(np.array([-1]))]
    x = s.node("Reshape", x, s.node("Concat", *sizes, axis=0))
    weights = s.node("Transpose", s.bipolar(s.floats(s.draw.normal(0, 1, (5, 16)))), perm=[1, 0])
    s.rank = 2
    return [1, 3, 8, 8], s.node("Mul", s.node("MatMul", x, weights), s.floats([0.03]))


def signal(s: Qonnx) -> tuple[list[int], str]:
    """In one dimension, with a Gemm and a bias on a grid."""
    x = s.quant("x", s.scale(0.05), 8)
    for given in (2, 6):
        x = s.normalized(s.node("Conv", x, s.weights((6, given, 3), 0), pads=[1, 1]), 6)
        x = s.quant(s.node("Relu", x), s.scale(0.2), int(s.draw.integers(1, 6)), signed=0)
        x = s.node("MaxPool", x, kernel_shape=[2], strides=[2])
    bias = s.quant(s.floats(s.draw.normal(0, 1, 4)), 0.01, 16)
    s.rank = 2
    x = s.node("Gemm", s.node("Flatten", x), s.weights((4, 24), 0), bias, transB=1)
    return [1, 2, 16], s.node("Softmax", x)


NETWORKS = (multilayer, convolutional, channels_last, binary, signal)
