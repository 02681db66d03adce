"""ConvTranspose: an ordinary convolution for each position between the strides, then pixels from channels.

In one dimension, with stride s and kernel k, the result is

    y[Y] = Σ_i x[i] · w[Y + begin − s·i].

Put Y + begin = s·q + p with 0 ≤ p < s: only taps p + s·t of the kernel meet an x, namely x[q − t], so that

    y[s·q + p − begin] = Σ_t x[q − t] · w[p + s·t],    t < T = ⌈k / s⌉,

is for every *phase* p a convolution with T taps and stride 1. All phases are channels of one convolution, and no
product has an inserted zero as a factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.kernel import Kernel
from onnx_hw.lower.layout.stream_layout import image_layout
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.conv import bias_of, check_weight_count, quantized_weights
from onnx_hw.lower.ops.matmul_operand import columns_of, dequantized, with_integer_for_zero
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.transposed_convolution import transposed_window
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.window import Window

MAX_CHANNELS = 1 << 16
"""Maximum number of output channels of the convolution, over all phases."""


@dataclass(frozen=True)
class Phases:
    """Phases of the convolution along one axis.

    Attributes:
        size: length of the data.
        result: length of the result.
        kernel, stride, begin: k, s and begin of the formula.
    """

    size: int
    result: int
    kernel: int
    stride: int
    begin: int

    @property
    def taps(self) -> int:
        """Number of taps of a phase, T of the formula."""
        return -(-self.kernel // self.stride)

    @property
    def pads(self) -> tuple[int, int]:
        """Pads before and behind the data, for all q of the result."""
        first, last = self.begin // self.stride, (self.begin + self.result - 1) // self.stride
        return max(0, self.taps - 1 - first), max(0, last - (self.size - 1))

    @property
    def windows(self) -> int:
        """Number of windows of T taps on the padded data."""
        before, behind = self.pads
        return self.size + before + behind - self.taps + 1

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Return weights (..., kernel) as (phases, ..., taps), taps in data order and 0 behind the kernel's end."""
        full = np.zeros((*weights.shape[:-1], self.taps * self.stride), dtype=weights.dtype)
        full[..., : self.kernel] = weights
        split = full.reshape(*weights.shape[:-1], self.taps, self.stride)
        return np.moveaxis(split[..., ::-1, :], -1, 0)

    def sources(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the phase and the window of every element of the result."""
        positions = np.arange(self.result) + self.begin
        return positions % self.stride, positions // self.stride - (self.taps - 1 - self.pads[0])


@lowers("ConvTranspose")
def conv_transpose(builder: Builder, node: Node) -> None:
    """Accept quantized data and constant weights, in 1-D and 2-D with dilations of 1, in 3-D of floats as a Conv."""
    real = dequantized(builder, node)
    weights = quantized_weights(builder, node, 1)
    group = int(node.attributes.get("group", 1))
    if len(weights.scale) > 1 and weights.axis != 1:
        raise Obstacle("weight-axis", "a ConvTranspose's weights must have one scale, or one per output channel")
    if any(d != 1 for d in node.attributes.get("dilations", ())):
        raise Obstacle("dilations", f"the dilations of a ConvTranspose must be 1, not {node.attributes['dilations']}")
    real, _ = builder.image(real, node)
    real = with_integer_for_zero(builder, node, real)
    tensor, zero_point = builder.tensors[real.tensor], real.zero_point or 0
    shape = builder.shape(node.outputs[0])
    rows, columns = _axes(builder, node, real, weights)
    full = _ungrouped(weights.integers, group)
    outputs = full.shape[1]
    if (count := rows.stride * columns.stride * outputs) > MAX_CHANNELS:
        raise Obstacle("too-many-phases", f"outputs times strides must be at most {MAX_CHANNELS:,}, not {count:,}")
    check_weight_count(*full.shape[:2], *(axis.taps * axis.stride for axis in (rows, columns)))
    check_weight_count(outputs, *(axis.stride * axis.windows for axis in (rows, columns)))
    kernels = full.reshape(*full.shape[:2], rows.kernel, columns.kernel)
    # (in, out, rows, columns) -> (row phases, column phases, out, row taps, column taps, in)
    phases = rows.weights(np.moveaxis(columns.weights(kernels), -2, -1))
    matrix = phases.transpose(0, 1, 3, 5, 4, 2).reshape(rows.stride * columns.stride * outputs, -1)
    stream = real.tensor
    kernel = Kernel(
        (rows.taps, columns.taps), (1, 1), (rows.pads[0], columns.pads[0], rows.pads[1], columns.pads[1]), (1, 1)
    )
    kernel.check_touches(tensor)
    if kernel.size != (1, 1) or any(kernel.pads):
        window = Window(tensor, kernel.size, kernel.strides, kernel.pads, kernel.dilations, zero_point)
        stream = builder.add(f"{node.label}/window", window, [stream], node)
    stream = builder.add(node.label, MatMul(builder.tensors[stream], matrix), [stream], node)
    repeats = rows.stride * columns.stride
    scale = weights.scale * group * repeats if len(weights.scale) > 1 else weights.scale
    bias = bias_of(builder, node, outputs) * repeats
    _, slope, offset = columns_of(real).product(node, QuantizedConstant(matrix, scale), matrix, bias)
    between = (1, len(matrix), rows.windows, columns.windows)
    where = image_layout(between).where[_origin(rows, columns, between, outputs, shape).reshape(-1)]
    partial = not np.array_equal(np.sort(where), np.arange(builder.tensors[stream].size))
    builder.values[node.outputs[0]] = Real(stream, shape, where, slope, offset, partial=partial)


def _axes(builder: Builder, node: Node, real: Real, weights: QuantizedConstant) -> tuple[Phases, Phases]:
    """Return the phases of rows and columns; a signal is an image of height 1."""
    names = ("auto_pad", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
    attributes = {name: node.attributes[name] for name in names if name in node.attributes}
    if isinstance(attributes.get("auto_pad"), bytes):
        attributes["auto_pad"] = attributes["auto_pad"].decode()
    window = transposed_window(real.shape, weights.shape, **attributes)
    result = builder.shape(node.outputs[0])
    axes = [
        Phases(*numbers)
        for numbers in zip(real.shape[2:], result[2:], window.kernel, window.strides, window.begin, strict=True)
    ]
    return (Phases(1, 1, 1, 1, 0), axes[0]) if len(axes) == 1 else (axes[0], axes[1])


def _ungrouped(weights: np.ndarray, group: int) -> np.ndarray:
    """Return weights (in, out / group, ...) as (in, out, ...), with zeros where a group does not write."""
    inputs, outputs, *size = weights.shape
    check_weight_count(outputs, group, inputs, *size)
    full = np.zeros((inputs, group, outputs, *size), dtype=np.int64)
    full[np.arange(inputs), np.arange(inputs) * group // inputs] = weights
    return full.reshape(inputs, group * outputs, *size)


def _origin(
    rows: Phases, columns: Phases, between: tuple[int, ...], outputs: int, shape: tuple[int, ...]
) -> np.ndarray:
    """Return the flat index in (1, phases · outputs, windows) of every element of the result.

    Args:
        between: shape of the convolution's result: (1, phases · outputs, rows of windows, columns of windows).
        shape: shape of the node's result.
    """
    (row_phase, row), (column_phase, column) = rows.sources(), columns.sources()
    phase = row_phase[:, None] * columns.stride + column_phase[None, :]
    channel = phase[None] * outputs + np.arange(outputs)[:, None, None]
    origin = (channel * between[2] + row[:, None]) * between[3] + column[None, :]
    return origin.reshape(shape)
