"""Products whose weights are not a matrix on the right: transposed, stacked, scaled, or added to a tensor."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.model import Node


@composed("MatMul", meaning="", need=Need.ALWAYS)
def matmul(composer: Composer, node: Node) -> str:
    """Compose a product with a constant on the left, or with a stack of constant matrices.

    A·x is (xᵀ·Aᵀ)ᵀ. A stack of matrices is a grouped Conv, one group for each matrix.
    """
    is_left, is_right = (composer.is_constant(name) for name in node.inputs)
    composer.require(is_left != is_right and composer.is_float(node.outputs[0]))
    weights, data = node.inputs if is_left else node.inputs[::-1]
    of_weights, of_data, result = (composer.shape(name) for name in (weights, data, node.outputs[0]))
    composer.require(prod(of_data) > 0)
    if prod(of_weights[:-2]) > 1:
        return _stacked(composer, weights, data, is_left, result)
    composer.require(is_left or len(of_weights) > 2)
    matrix = composer.reshaped(weights, of_weights[-2:] if len(of_weights) > 1 else (1, *of_weights))
    if not is_left:
        return composer.reshaped(composer.add("MatMul", data, matrix), result)
    columns = composer.transposed(matrix, (1, 0))
    if len(of_data) == 1:
        return composer.reshaped(composer.add("MatMul", data, columns), result)
    turned = (*range(len(of_data) - 2), len(of_data) - 1, len(of_data) - 2)
    rows = composer.add("MatMul", composer.transposed(data, turned), columns)
    return composer.reshaped(composer.transposed(rows, turned), result)


def _stacked(composer: Composer, weights: str, data: str, is_left: bool, result: tuple[int, ...]) -> str:
    """Multiply every matrix of a stack with its own data: a Conv with one group for each matrix."""
    of_weights, of_data = composer.shape(weights), composer.shape(data)
    composer.require(len(of_weights) > 2 and len(of_data) > 1)
    both = np.broadcast_shapes(of_data[:-2], of_weights[:-2])
    if not prod(of_data[:-2]) == prod(of_weights[:-2]) == prod(both):
        return _broadcast_stacks(composer, weights, data, is_left, result)
    stack, rows, columns = prod(of_weights[:-2]), of_weights[-2], of_weights[-1]
    integers = composer.transposed(
        composer.reshaped(weights, (stack, rows, columns)), (0, 1, 2) if is_left else (0, 2, 1)
    )
    outputs, inputs = (rows, columns) if is_left else (columns, rows)
    kernel = composer.reshaped(integers, (stack * outputs, inputs, 1))
    turned = composer.transposed(composer.reshaped(data, (stack, *of_data[-2:])), (0, 1, 2) if is_left else (0, 2, 1))
    length = of_data[-1] if is_left else of_data[-2]
    signal = composer.reshaped(turned, (1, stack * inputs, length))
    products = composer.reshaped(
        composer.add("Conv", signal, kernel, version=11, group=stack), (stack, outputs, length)
    )
    return composer.reshaped(composer.transposed(products, (0, 1, 2) if is_left else (0, 2, 1)), result)


def _broadcast_stacks(composer: Composer, weights: str, data: str, is_left: bool, result: tuple[int, ...]) -> str:
    """Multiply stacks of which either lacks axes: a Conv with one group for each matrix that both have.

    An axis that only the weights have means further outputs of the same data, one that only the data have, further
    columns.
    """
    rank = len(result)
    of_weights, of_data = ((1,) * (rank - len(shape)) + shape for shape in map(composer.shape, (weights, data)))
    stack = range(rank - 2)
    both = [axis for axis in stack if of_weights[axis] == of_data[axis]]
    outer, more = ([axis for axis in stack if axis not in both and of[axis] > 1] for of in (of_weights, of_data))
    # the last two axes: outputs and inputs of the weights; inputs and columns of the data
    inner, turned = [rank - 2, rank - 1], [rank - 1, rank - 2]
    count, outputs, inputs, columns = (
        prod(of[axis] for axis in axes)
        for of, axes in (
            (of_weights, both),
            (of_weights, [*outer, (inner if is_left else turned)[0]]),
            (of_data, [(inner if is_left else turned)[0]]),
            (of_data, [*more, (inner if is_left else turned)[1]]),
        )
    )
    kernel = composer.transposed(
        composer.reshaped(weights, of_weights), [*both, *more, *outer, *(inner if is_left else turned)]
    )
    first, last = inner if is_left else turned
    signal = composer.transposed(composer.reshaped(data, of_data), [*both, *outer, first, *more, last])
    sums = composer.add(
        "Conv",
        composer.reshaped(signal, (1, count * inputs, columns)),
        composer.reshaped(kernel, (count * outputs, inputs, 1)),
        version=11,
        group=count,
    )
    axes = [*both, *outer, first, *more, last]
    parts = composer.reshaped(sums, [result[axis] for axis in axes])
    return composer.transposed(parts, [axes.index(axis) for axis in range(rank)])


@composed("Gemm", meaning="", need=Need.ALWAYS)
def gemm(composer: Composer, node: Node) -> str:
    """Compose a Gemm whose data is transposed or on the right, whose operands are both data, or whose bias is data."""
    attributes = dict(node.attributes)
    alpha, beta = (float(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    turn_left, turn_right = (bool(attributes.get(name, 0)) for name in ("transA", "transB"))
    left, right, *rest = node.inputs
    bias = rest[0] if rest else ""
    is_left, is_right = composer.is_constant(left), composer.is_constant(right)
    composer.require(composer.is_float(node.outputs[0]) and not (is_left and is_right))
    if is_right and not turn_left and (not bias or composer.is_constant(bias)):
        composer.require(False)  # the lowering takes it as it is
    if bias and (not composer.is_constant(bias) or not (is_left or is_right)):
        plain = {name: value for name, value in attributes.items() if name not in ("beta", "broadcast")}
        product = composer.add("Gemm", left, right, version=max(node.version, 11), **plain)
        return composer.add("Add", product, _times(composer, bias, beta))
    if is_right:
        turned = composer.transposed(left, (1, 0))
        return composer.add("Gemm", turned, *node.inputs[1:], version=node.version, **{**attributes, "transA": 0})
    if not is_left:
        product = composer.add(
            "MatMul", *(composer.transposed(n, (1, 0)) if t else n for n, t in ((left, turn_left), (right, turn_right)))
        )
        return product if alpha == 1 else composer.add("Mul", product, composer.constant(alpha))
    constants = []
    if bias:
        term = composer.numbers(bias)
        assert term is not None
        term = term.reshape((1,) * (2 - term.ndim) + term.shape)
        constants.append(composer.constant(np.ascontiguousarray(term.T)))
    turns = {**attributes, "transA": int(not turn_right), "transB": int(not turn_left)}
    return composer.transposed(composer.add("Gemm", right, left, *constants, version=node.version, **turns), (1, 0))


def _times(composer: Composer, name: str, factor: float) -> str:
    """Return a value times a number; a constant is multiplied at once."""
    if factor == 1:
        return name
    array = composer.numbers(name)
    if array is not None:
        return composer.constant(array * array.dtype.type(factor))
    return composer.add("Mul", name, composer.constant(factor))
