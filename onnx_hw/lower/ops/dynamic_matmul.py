"""MatMul of two quantized tensors, of matrices or of stacks of them: the weights are data, too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.ops.matmul_operand import dequantized, from_zero
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.matmul import MatMul


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
