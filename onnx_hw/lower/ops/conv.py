"""Conv: a depthwise core where every channel is a group, otherwise a window and a matrix product."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.kernel import Kernel, kernel_of
from onnx_hw.lower.layout.stream_layout import image_layout
from onnx_hw.lower.obstacle import TOO_MANY_WEIGHTS, Obstacle
from onnx_hw.lower.ops.constants import is_constant
from onnx_hw.lower.ops.dynamic_products import convolution_of_tensors
from onnx_hw.lower.ops.matmul_operand import columns_of, dequantized, operand_of_product, with_integer_for_zero
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.window import Window

MAX_WEIGHTS = 1 << 24
"""Maximum number of weights of one product, with the zeros between groups and phases."""


@lowers("Conv")
def conv(builder: Builder, node: Node) -> None:
    """Accept quantized data and weights, constant or data, in 1-D and 2-D, and in 3-D as an image of slices."""
    if not is_constant(builder, node.inputs[1]):
        size = builder.shape(node.inputs[1])[2:]
        sums = convolution_of_tensors(builder, node, *_image_of(builder, node, dequantized(builder, node), size))
        builder.values[node.outputs[0]] = replace(sums, offset=bias_of(builder, node, sums.shape[1]))
        return
    real = operand_of_product(builder, node)
    weights = quantized_weights(builder, node, 1)
    group = int(node.attributes.get("group", 1))
    if len(weights.scale) > 1 and weights.axis != 0:
        raise Obstacle(
            "weight-axis", f"scales of a Conv's weights must be per output channel, not along axis {weights.axis}"
        )
    shape = builder.shape(node.outputs[0])
    real, kernel = _image_of(builder, node, real, weights.shape[2:])
    tensor = builder.tensors[real.tensor]
    if any(kernel.pads):
        real = with_integer_for_zero(builder, node, real)
        tensor = builder.tensors[real.tensor]
    stream, zero_point, columns = real.tensor, real.zero_point or 0, columns_of(real)
    bias = bias_of(builder, node, weights.shape[0])
    outputs = weights.shape[0]
    operator: Operator
    if 1 < group == tensor.channels:
        matrix = weights.integers.reshape(outputs, -1)
        kernels = matrix.reshape(outputs, *kernel.size)
        slope, offset = _depthwise(real, weights, matrix, bias)
        operator = Depthwise(tensor, kernels, kernel.strides, kernel.pads, kernel.dilations, zero_point)
    else:
        if kernel.size != (1, 1) or kernel.strides != (1, 1) or any(kernel.pads):
            window = Window(tensor, kernel.size, kernel.strides, kernel.pads, kernel.dilations, zero_point)
            stream = builder.add(f"{node.label}/window", window, [stream], node)
        # (out, in, rows, columns) -> (out, rows, columns, in): the order in which a window leaves its buffer
        matrix = np.moveaxis(ungrouped(weights.stored, group), 1, -1).reshape(outputs, -1)
        matrix, slope, offset = columns.repeated(prod(kernel.size)).product(node, weights, matrix, bias)
        operator = MatMul(builder.tensors[stream], matrix, group)
    stream = builder.add(node.label, operator, [stream], node, output=node.outputs[0])
    builder.values[node.outputs[0]] = Real(stream, shape, image_layout(shape).where, slope, offset)


def _image_of(builder: Builder, node: Node, real: Real, size: tuple[int, ...]) -> tuple[Real, Kernel]:
    """Build the data as an image, without pads of its own, and return it with the kernel that slides over it."""
    padded, tensor = builder.image(real, node)
    kernel = kernel_of(node, tuple(int(n) for n in size), tensor.shape[:2], builder.shape(node.outputs[0])[2:])
    inside, pads = _without_pads(builder, padded)
    if kernel.padded(pads).touches(builder.tensors[inside.tensor]):
        padded, kernel = inside, kernel.padded(pads)
    kernel.check_touches(builder.tensors[padded.tensor])
    return padded, kernel


def _depthwise(
    real: Real, weights: QuantizedConstant, matrix: np.ndarray, bias: tuple[Fraction, ...]
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return slope and offset of every output, which reads one channel of the data."""
    outputs, channels = len(matrix), max(len(real.slope), len(real.offset))
    lines, scales = real.lines(), weights.scale * outputs if len(weights.scale) == 1 else weights.scale
    line_of_output = [lines[output * channels // outputs] for output in range(outputs)]
    slope = tuple(line[0] * scale for line, scale in zip(line_of_output, scales, strict=True))
    terms = (line[1] * scale * int(row.sum()) for line, scale, row in zip(line_of_output, scales, matrix, strict=True))
    return slope, tuple(b + term for b, term in zip(bias, terms, strict=True))


def _without_pads(builder: Builder, real: Real) -> tuple[Real, tuple[int, int, int, int]]:
    """Return the image before a Pad with zeros, and the pads (top, left, bottom, right), cheaper to add in the window.

    Without such a Pad, return the data themselves and pads of 0.
    """
    padded = builder.padded.get(real.tensor)
    if padded is None or padded.fill != real.zero or padded.shape != real.shape:
        return real, (0, 0, 0, 0)
    value = padded.value
    if builder.tensors[value.tensor].shape != image_layout(value.shape).shape or not np.array_equal(
        builder.positions(value), image_layout(value.shape).where
    ):
        return real, (0, 0, 0, 0)
    return replace(real, tensor=value.tensor, shape=value.shape, where=value.where), padded.pads


def ungrouped(weights: np.ndarray, group: int) -> np.ndarray:
    """Return weights (out, in / group, ...) as (out, in, ...), with zeros where a group does not read.

    The result is exact, but only one in ``group`` of the matrix's products is useful.
    """
    outputs, inputs, *size = weights.shape
    check_weight_count(outputs, group, inputs, *size)
    full = np.zeros((outputs, group, inputs, *size), dtype=weights.dtype)
    results = np.arange(outputs)
    full[results, results * group // outputs] = weights
    return full.reshape(outputs, group * inputs, *size)


def check_weight_count(*lengths: int) -> None:
    """Check that a matrix of weights, with the zeros that hardware stores, is not too large.

    Args:
        lengths: lengths of the matrix's axes.

    Raises:
        Obstacle: It has more than ``MAX_WEIGHTS`` weights.
    """
    count = prod(lengths)
    if count > MAX_WEIGHTS:
        raise Obstacle(
            TOO_MANY_WEIGHTS,
            f"a product must have at most {MAX_WEIGHTS:,} weights, with the zeros between groups and phases, "
            f"not {count:,}",
            "no option and no board helps: no chip here stores as many; only a smaller model will fit",
        )


def quantized_weights(builder: Builder, node: Node, k: int) -> QuantizedConstant:
    """Return the weights of a node, which are its input ``k``.

    Raises:
        Obstacle: They are not constant, or not quantized.
    """
    name = node.inputs[k]
    if name not in builder.constants:
        if builder.constant(name) is not None:
            raise Obstacle(
                "weights-float",
                f"the weights `{name}` must be quantized, but no DequantizeLinear makes them",
                "let a build choose integers from samples (--calibration, --inputs), or quantize them in the model",
            )
        raise Obstacle("weights-not-constant", f"the weights `{name}` must be constant")
    return builder.constants[name]


def bias_of(builder: Builder, node: Node, outputs: int) -> tuple[Fraction, ...]:
    """Return the exact bias of every output: an integer bias times *its own* scale.

    Raises:
        Obstacle: The bias is not constant.
    """
    if len(node.inputs) < 3 or not node.inputs[2]:
        return (Fraction(0),) * outputs
    bias = builder.exact_constant(node.inputs[2])
    if bias is None:
        raise Obstacle("bias-not-constant", f"the bias `{node.inputs[2]}` must be constant")
    return tuple(np.broadcast_to(bias.reshape(-1), outputs))
