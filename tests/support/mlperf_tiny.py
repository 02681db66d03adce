"""The four networks of MLPerf Tiny with drawn numbers: the layers of the real ones, and none of their weights.

ResNet-8 sees images of 32×32 (10 classes), DS-CNN 49×10 features of speech (12 words), MobileNet-v1 0.25 images of
96×96 (2 classes), the autoencoder 640 features of sound. They are written as converters write quantized networks: int8
data of one scale, int8 weights with a scale per output, int32 biases, Relu and Softmax between the integers.

A net computes while it is drawn: every value carries what the float layers make of ``FRAMES`` frames. The weights of
each layer are scaled, and its bias chosen, by the sums that come out of it, as batch normalization does; so the data
neither vanishes nor saturates, however deep. Of the statistics three digits are kept and further ones drawn: the files
are the same on every machine, and no scale is a ratio of small numbers, whose sums would lie next to ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import onnx
from onnx import TensorProto
from onnx_hw.onnx.operators import lookup
from support.qdq_models import Sketch

FRAMES = 32
SEED = 30


@dataclass(frozen=True)
class Value:
    """A real-valued tensor of a net.

    Attributes:
        name: in the model.
        array: (FRAMES, *shape of one frame), float64: what the layers make of the frames.
        scale, zero: of the integers it was last read from.
    """

    name: str
    array: np.ndarray
    scale: float = 0
    zero: int = 0


class Net(Sketch):
    """A quantized network under construction."""

    def __init__(self, seed: int = SEED) -> None:
        super().__init__()
        self.generator = np.random.Generator(np.random.PCG64(seed))

    def input(self, integers: np.ndarray) -> Value:
        """``x``: int8 that stand for -1..1; channels first from here on."""
        scale, zero = np.float32(1 / 128), 0
        name = self.node("DequantizeLinear", "x", self.constant(scale), self.constant(np.int8(zero)))
        value = Value(name, integers * float(scale), float(scale), zero)
        return self.apply("Transpose", value, perm=(0, 3, 1, 2)) if integers.ndim == 4 else value

    def apply(self, op_type: str, x: Value, *more: Value, **attributes: Any) -> Value:
        """A node, and its values by the reference."""
        name = self.node(op_type, x.name, *(operand.name for operand in more), **attributes)
        array = self._function(op_type)(x.array, *(operand.array for operand in more), **attributes)
        return replace(x, name=name, array=array)

    # ---- layers -----------------------------------------------------------------------------------------------------

    def conv(self, x: Value, outputs: int, kernel: tuple[int, int], stride: int = 1, group: int = 1) -> Value:
        """A convolution whose result has ``ceil(size / stride)`` rows and columns."""
        channels, *image = x.array.shape[1:]
        pads = np.array([same_pads(length, extent, stride) for length, extent in zip(image, kernel, strict=True)])
        how = {"kernel_shape": kernel, "strides": (stride,) * 2, "pads": tuple(pads.T.reshape(-1).tolist())}
        return self._weighted("Conv", x, (outputs, channels // group, *kernel), 0, **how, group=group)

    def depthwise(self, x: Value, stride: int = 1) -> Value:
        channels = x.array.shape[1]
        return self.conv(x, channels, (3, 3), stride, group=channels)

    def dense(self, x: Value, outputs: int, spread: float = 1) -> Value:
        return self._weighted("MatMul", x, (x.array.shape[1], outputs), 1, spread)

    def relu(self, x: Value) -> Value:
        return self.quantized(self.apply("Relu", x))

    def average(self, x: Value) -> Value:
        """Over the image, in the steps of the data: (frames, channels)."""
        image = x.array.shape[2:]
        pooled = self.quantized(self.apply("AveragePool", x, kernel_shape=image, strides=image), (x.scale, x.zero))
        shape = np.array([0, -1])  # the frames, and all there is of one
        return self.apply("Reshape", pooled, Value(self.constant(shape), shape))

    def quantized(self, x: Value, steps: tuple[float, int] | None = None) -> Value:
        """Through int8; ``steps`` are scale and zero point, by default those that hold all frames."""
        scale, zero = steps or self._steps(x.array)
        return Value(self.through_integers(x.name, scale, zero), x.array, scale, zero)

    def output(self, x: Value, steps: tuple[float, int] | None = None) -> str:
        scale, zero = steps or self._steps(x.array)
        return self.node("QuantizeLinear", x.name, self.constant(np.float32(scale)), self.constant(np.int8(zero)))

    def classes(self, x: Value, count: int) -> str:
        """Probabilities in steps of 1/256."""
        scores = self.quantized(self.dense(x, count, spread=3))
        return self.output(self.apply("Softmax", scores, axis=-1), (2**-8, -128))

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def _weighted(
        self, op_type: str, x: Value, shape: tuple[int, ...], axis: int, spread: float = 1, **how: Any
    ) -> Value:
        """Conv or MatMul by int8 with a scale per entry of ``axis``, and a bias.

        Every output's values have about the deviation ``spread``, and a mean drawn around 0.
        """
        drawn = self.generator.normal(size=shape)
        others = tuple(k for k in range(drawn.ndim) if k != axis)
        integers = np.rint(127 * drawn / np.abs(drawn).max(others, keepdims=True))
        sums = self._function(op_type)(x.array, integers, **how)
        seen = (0, *range(2, sums.ndim))
        deviation = np.sqrt((sums.var(seen) + sums.var(seen).mean()) / 2)  # an output that hardly moves stays small
        scales = np.float32(self._drawn(spread / deviation))
        shift = self.generator.normal(0, spread / 3, shape[axis]) - self._drawn(sums.mean(seen)) * scales
        steps = np.float32(np.float32(x.scale) * scales)
        weights = self.dequantized(integers.astype(np.int8), scales, axis=axis)
        bias = self.dequantized(np.rint(shift / steps).astype(np.int32), steps)
        if op_type == "Conv":
            name = self.node("Conv", x.name, weights, bias, **how)
        else:
            name = self.node("Add", self.node(op_type, x.name, weights), bias)
        per_output = (-1, *(1,) * (sums.ndim - 2))
        return Value(name, sums * scales.reshape(per_output) + shift.reshape(per_output))

    def _steps(self, array: np.ndarray) -> tuple[float, int]:
        """Scale and zero point of the int8 that hold 0 and all values, and a fifth more."""
        low, high = 1.2 * min(0.0, array.min()), 1.2 * max(0.0, array.max())
        scale = float(np.float32(self._drawn((high - low) / 255)))
        return scale, max(-128, min(127, round(-128 - low / scale)))

    def _drawn(self, values: np.ndarray | float) -> np.ndarray:
        """Three digits of each, then others."""
        digits = np.vectorize(lambda value: float(f"{value:.2e}"))(values)
        return digits * self.generator.uniform(1, 1.01, np.shape(values))

    def _function(self, op_type: str) -> Callable[..., np.ndarray]:
        operator = lookup("", op_type, self.opset)
        assert operator is not None
        return operator.function


def same_pads(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Before and after the data; one more after it where the sum is odd."""
    total = max(0, (-(-length // stride) - 1) * stride + kernel - length)
    return total // 2, total - total // 2


# ---- the networks, from their input to the name of their output ------------------------------------------------------


def resnet8(net: Net, x: Value) -> str:
    x = net.relu(net.conv(x, 16, (3, 3)))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        inner = net.relu(net.conv(x, channels, (3, 3), stride))
        inner = net.quantized(net.conv(inner, channels, (3, 3)))
        if stride > 1:
            x = net.quantized(net.conv(x, channels, (1, 1), stride))
        x = net.relu(net.apply("Add", x, inner))
    return net.classes(net.average(x), 10)


def ds_cnn(net: Net, x: Value) -> str:
    x = net.relu(net.conv(x, 64, (10, 4), 2))
    for _ in range(4):
        x = net.relu(net.depthwise(x))
        x = net.relu(net.conv(x, 64, (1, 1)))
    return net.classes(net.average(x), 12)


def mobilenet(net: Net, x: Value) -> str:
    x = net.relu(net.conv(x, 8, (3, 3), 2))
    pairs = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)]
    for channels, stride in pairs:
        x = net.relu(net.depthwise(x, stride))
        x = net.relu(net.conv(x, channels, (1, 1)))
    return net.classes(net.average(x), 2)


def autoencoder(net: Net, x: Value) -> str:
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = net.relu(net.dense(x, width))
    return net.output(net.dense(x, 640))


@dataclass(frozen=True)
class Topology:
    """Attributes:
    draw: the layers.
    shape: of one frame; channels last.
    macs: multiply-accumulates of one frame.
    """

    draw: Callable[[Net, Value], str]
    shape: tuple[int, ...]
    macs: int

    def frames(self, count: int, seed: int = 1) -> dict[str, np.ndarray]:
        """``x``: (count, 1, *shape) int8: patches of 8×8 under noise, so that frames differ as a whole."""
        generator = np.random.Generator(np.random.PCG64(seed))
        rows, columns, channels = self.shape if len(self.shape) == 3 else (1, *self.shape, 1)
        coarse = generator.normal(0, 50, (count, -(-rows // 8), -(-columns // 8), channels))
        patches = coarse.repeat(8, axis=1).repeat(8, axis=2)[:, :rows, :columns]
        values = np.rint(patches + generator.normal(0, 20, patches.shape))
        return {"x": np.clip(values, -128, 127).astype(np.int8).reshape(count, 1, *self.shape)}

    def model(self) -> onnx.ModelProto:
        net = Net()
        output = self.draw(net, net.input(self.frames(FRAMES, SEED)["x"][:, 0]))
        return net.model((1, *self.shape), TensorProto.INT8, output, 2)


NETS = {
    "resnet8": Topology(resnet8, (32, 32, 3), 12_501_632),
    "ds_cnn": Topology(ds_cnn, (49, 10, 1), 2_656_768),
    "mobilenet": Topology(mobilenet, (96, 96, 3), 7_489_664),
    "mobilenet_48": Topology(mobilenet, (48, 48, 3), 2_050_880),  # for tests that have no minutes
    "autoencoder": Topology(autoencoder, (640,), 264_192),
}

MLPERF_TINY = ("resnet8", "ds_cnn", "mobilenet", "autoencoder")


def write(name: str, folder: Path) -> Path:
    """The file of a net."""
    path = folder / f"{name}.onnx"
    path.write_bytes(_drawn(name))
    return path


@cache
def _drawn(name: str) -> bytes:
    return NETS[name].model().SerializeToString()
