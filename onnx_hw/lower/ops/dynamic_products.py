"""MatMul and Conv of two quantized tensors: the weights are data, too.

MatMul multiplies matrices or stacks of them, such as queries and keys. The weights of a Conv are a mixture of kernels,
for example, or the template of a tracker. A window is the vector that a product of two tensors multiplies by its
weights. Every channel by itself is a product element by element, of which the taps of a window are added up. For groups
of channels, their images stand on top of each other in one, whose windows meet the weights of their own group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.kernel import Kernel, pool_of
from onnx_hw.lower.layout.stream_layout import Layout, image_layout
from onnx_hw.lower.ops.matmul_operand import dequantized, from_zero
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.window import Window


@dataclass(frozen=True)
class StackAxes:
    """Axes of a product of two stacks of matrices, which ``numpy.matmul`` broadcasts.

    The elements of an axis that both stacks have are products of their own. An axis that only the left stack has means
    further rows of the same matrix, one that only the right stack has, further columns of it.

    Attributes:
        left, right: shapes of the operands, (*stack, rows, inputs) and (*stack, inputs, columns), of one rank.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]

    @classmethod
    def of(cls, left: tuple[int, ...], right: tuple[int, ...]) -> StackAxes:
        """Return the axes for operands of any rank; a vector is a matrix of one row, or of one column."""
        left, right = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
        rank = max(len(left), len(right))
        return cls((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right)

    @cached_property
    def matrices(self) -> tuple[int, ...]:
        """Axes of the stack that both operands have, or none of them."""
        return tuple(axis for axis in range(len(self.left) - 2) if self.left[axis] == self.right[axis])

    @cached_property
    def others(self) -> tuple[int, ...]:
        """Axes of the stack that one operand has."""
        return tuple(axis for axis in range(len(self.left) - 2) if self.left[axis] != self.right[axis])

    @property
    def stack(self) -> int:
        """Number of matrices."""
        return prod(self.left[axis] for axis in self.matrices)

    def vectors(self) -> Layout:
        """Return the layout of the left operand: matrices, rows, inputs."""
        return self._layout(self.left, (len(self.left) - 2, len(self.left) - 1))

    def weights(self) -> Layout:
        """Return the layout of the right operand: matrices, columns, inputs."""
        return self._layout(self.right, (len(self.left) - 1, len(self.left) - 2))

    def results(self) -> np.ndarray:
        """Return (size,) int64: flat index in the result -> stream position, for matrices, rows, columns."""
        row, column = len(self.left) - 2, len(self.left) - 1
        parts = [[self.left[axis], self.right[axis]] for axis in self.others]
        split = [(*self.matrices,), tuple(n for n, _ in parts), (self.left[row],), tuple(n for _, n in parts)]
        lengths = [self.left[axis] for axis in split[0]] + [*split[1], *split[2], *split[3], self.right[column]]
        positions = np.arange(prod(lengths)).reshape(lengths)
        first, second = len(self.matrices), len(self.matrices) + len(self.others) + 1
        order: list[int] = []
        for axis in range(row):
            if axis in self.matrices:
                order.append(self.matrices.index(axis))
            else:
                k = self.others.index(axis)
                order += [first + k, second + k]
        return positions.transpose(*order, second - 1, len(lengths) - 1).reshape(-1)

    def _layout(self, shape: tuple[int, ...], inner: tuple[int, int]) -> Layout:
        order = np.arange(prod(shape)).reshape(shape).transpose(*self.matrices, *self.others, *inner).reshape(-1)
        inputs = shape[inner[1]]
        return Layout((self.stack, order.size // (self.stack * inputs), inputs), order)


def product_of_tensors(builder: Builder, node: Node) -> None:
    """Multiply two stacks of matrices; subtract zero points other than 0 before.

    Σ (x − z)·(w − v) is not a function of Σ x·w alone, so the zero points are subtracted from the integers.

    Raises:
        Obstacle: An operand is not quantized.
    """
    left, right = dequantized(builder, node), dequantized(builder, node, 1)
    axes = StackAxes.of(left.shape, right.shape)
    vectors = _without_zero_point(builder, node, _vectors(builder, node, left, axes), 0)
    matrix = _without_zero_point(builder, node, builder.request_layout(right, axes.weights(), node), 1)
    operator = MatMul(builder.tensors[vectors.tensor], builder.tensors[matrix.tensor])
    stream = builder.add(node.label, operator, [vectors.tensor, matrix.tensor], node, output=node.outputs[0])
    slope = (vectors.slope[0] * matrix.slope[0],)
    builder.values[node.outputs[0]] = Real(stream, builder.shape(node.outputs[0]), axes.results(), slope)


def _vectors(builder: Builder, node: Node, left: Real, axes: StackAxes) -> Real:
    """Return the left operand matrix by matrix; rows of a single one in an image of any height and width."""
    if axes.stack == 1:
        return builder.rows(left, axes.left[-1], node)
    return builder.request_layout(left, axes.vectors(), node)


def _without_zero_point(builder: Builder, node: Node, value: Real, k: int) -> Real:
    """Return the same numbers on integers whose 0 stands for 0."""
    return from_zero(builder, node, value, ("left", "right")[k], k) if value.zero_point != 0 else value


def convolution_of_tensors(builder: Builder, node: Node, image: Real, kernel: Kernel) -> Real:
    """Build the sums of a convolution of two tensors, without bias; zero points are subtracted before.

    Args:
        image: the data, with one scale.

    Raises:
        Obstacle: The weights are not quantized with one scale.
    """
    weights, group = dequantized(builder, node, 1), int(node.attributes.get("group", 1))
    shape = builder.shape(node.outputs[0])
    image = _without_zero_point(builder, node, image, 0)
    # (out, in / group, rows, columns): a signal is an image of height 1
    four = (*weights.shape[:2], *kernel.size)
    if 1 < group == shape[1] == builder.tensors[image.tensor].channels:
        stream, factor = _each_channel(builder, node, image, kernel, replace(weights, shape=four))
    else:
        order = np.arange(prod(four)).reshape(four).transpose(0, 2, 3, 1).reshape(-1)
        vectors = (group, shape[1] // group, four[1] * prod(kernel.size))
        factor = _without_zero_point(builder, node, builder.request_layout(weights, Layout(vectors, order), node), 1)
        alone = group == 1
        windows = _windows(builder, node, image, kernel) if alone else _stacked(builder, node, image, kernel, group)
        operator = MatMul(builder.tensors[windows], builder.tensors[factor.tensor])
        name = node.outputs[0] if alone else ""
        stream = builder.add(node.label, operator, [windows, factor.tensor], node, output=name)
        if not alone:
            stream = _image_of_groups(builder, node, stream, shape, group)
    return Real(stream, shape, image_layout(shape).where, (image.slope[0] * factor.slope[0],))


def _windows(builder: Builder, node: Node, image: Real, kernel: Kernel) -> str:
    """Add the windows of an image; return the tensor, in which each of them is a pixel."""
    if kernel.size == kernel.strides == (1, 1) and not any(kernel.pads):
        return image.tensor
    window = Window(builder.tensors[image.tensor], kernel.size, kernel.strides, kernel.pads, kernel.dilations)
    return builder.add(f"{node.label}/window", window, [image.tensor], node)


def _each_channel(builder: Builder, node: Node, image: Real, kernel: Kernel, weights: Real) -> tuple[str, Real]:
    """Convolve every channel with a kernel of its own; return the tensor of the sums, and the weights.

    Args:
        weights: the numbers as (channels, 1, rows, columns).
    """
    windows = _windows(builder, node, image, kernel)
    taken = builder.tensors[windows]
    channels, taps = weights.shape[0], prod(kernel.size)
    order = np.arange(channels * taps).reshape(channels, taps).T.reshape(-1)  # tap by tap, as in a window
    factor = _without_zero_point(
        builder, node, builder.request_layout(weights, Layout((1, taps, channels), order), node), 1
    )
    every = np.tile(np.arange(channels * taps), taken.pixels)
    repeated = Rearrange(builder.tensors[factor.tensor], taken.shape, every)
    factors = builder.add(f"{node.label}/weights_of_windows", repeated, [factor.tensor], node)
    products = Multiply(taken, builder.tensors[factors])
    stream = builder.add(f"{node.label}/products", products, [windows, factors], node)
    if taps == 1:
        return stream, factor
    by_tap = Rearrange(builder.tensors[stream], (taken.pixels, taps, channels), np.arange(taken.size))
    stream = builder.add(f"{node.label}/taps", by_tap, [stream], node)
    over = Kernel((1, taps), (1, taps), (0, 0, 0, 0), (1, 1))
    stream = builder.add(node.label, pool_of(builder.tensors[stream], "sum", over, 0), [stream], node)
    height, width = taken.shape[:2]
    result = Rearrange(builder.tensors[stream], (height, width, channels), np.arange(height * width * channels))
    return builder.add(f"{node.label}/image", result, [stream], node, output=node.outputs[0]), factor


def _stacked(builder: Builder, node: Node, image: Real, kernel: Kernel, group: int) -> str:
    """Add the windows of the groups' images, one image on top of the other, as many rows of windows for each.

    The rows of an image are a multiple of the stride, so that the windows of the next image begin where it does. The
    last windows of an image reach into the next one and are no results.
    """
    height, width, channels = builder.tensors[image.tensor].shape
    (stride, _), (top, left, bottom, right) = kernel.strides, kernel.pads
    reach = (kernel.size[0] - 1) * kernel.dilations[0] + 1
    rows = -(-(height + top + bottom) // stride)  # of windows, for each group
    origin = np.full((1, channels // group, group, rows * stride, width), -1)
    numbers = np.arange(channels * height * width).reshape(group, channels // group, height, width)
    kept = min(height, rows * stride - top)
    origin[0, :, :, top : top + kept] = numbers[:, :, :kept].swapaxes(0, 1)
    origin = origin.reshape(1, channels // group, group * rows * stride, width)
    layout = image_layout(origin.shape)
    stack = builder.moved(image, origin.reshape(-1), origin.shape, node, layout)
    below = max(0, reach - stride)
    over = replace(kernel, pads=(0, left, below, right))
    return _windows(builder, node, stack, over)


def _image_of_groups(builder: Builder, node: Node, stream: str, shape: tuple[int, ...], group: int) -> str:
    """Add the move of sums, group by group, to an image with all channels; return its tensor."""
    sums, layout = builder.tensors[stream], image_layout(shape)
    height, width, channels = layout.shape
    places = np.arange(sums.size).reshape(group, -1, width, channels // group)[:, :height]
    source = places.transpose(1, 2, 0, 3).reshape(-1)
    move = Rearrange(sums, layout.shape, source)
    return builder.add(f"{node.label}/image", move, [stream], node, output=node.outputs[0])
