"""Cosine similarity as exporters spell it out, as a sum of products of normalized data.

The quotient Σ a·b / √(Σ a² · Σ b²) has a product of two sums of squares, whose range is the fourth power of that of the
data: on the integers of one scale little of it would be left.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, NoComposition, composed
from onnx_hw.onnx.canonicalize.compositions.normalizations import LP_NORMALIZATION, MAX_LEAST_NORM, squared
from onnx_hw.onnx.graph.model import Node


@composed("Div", meaning="", need=Need.ALWAYS)
def cosine_similarity(composer: Composer, node: Node) -> str:
    """Compose Σ a·b / (|a| · |b|) as the sum of the products of a / |a| and b / |b|."""
    total = _of_type(composer, node.inputs[0], "ReduceSum")
    product = _of_type(composer, total.inputs[0], "Mul")
    axis = _axis(composer, total)
    shape = composer.shape(product.inputs[0])
    composer.require(all(composer.shape(name) == shape for name in product.inputs))
    norms = _norms(composer, node.inputs[1])
    wanted = sorted((name, axis, _keeps(total)) for name in product.inputs)
    composer.require(product.inputs[0] != product.inputs[1] and sorted(norms) == wanted)
    whole = [composer.add("LpNormalization", name, version=LP_NORMALIZATION, axis=axis, p=2) for name in product.inputs]
    result = composer.add("Mul", *whole)
    summed = composer.add("ReduceSum", result)
    composer.nodes[-1] = replace(total, inputs=(result, *total.inputs[1:]), outputs=(summed,))
    return summed


Norm = tuple[str, int, bool]
"""Data, axis of a norm, and whether the result keeps this axis."""


def _norms(composer: Composer, name: str) -> list[Norm]:
    """Return the two norms of which a value is the product."""
    node = composer.producer(_unbounded(composer, name))
    composer.require(node is not None and len(node.inputs) > 0)
    assert node is not None
    if node.op_type == "Sqrt":
        product = _of_type(composer, node.inputs[0], "Mul")
        return [_sum_of_squares(composer, of) for of in product.inputs]
    composer.require(node.op_type == "Mul")
    return [_norm(composer, _unbounded(composer, of)) for of in node.inputs]


def _norm(composer: Composer, name: str) -> Norm:
    node = composer.producer(name)
    composer.require(node is not None)
    assert node is not None
    if node.op_type == "ReduceL2":
        return node.inputs[0], _axis(composer, node), _keeps(node)
    composer.require(node.op_type == "Sqrt")
    return _sum_of_squares(composer, node.inputs[0])


def _sum_of_squares(composer: Composer, name: str) -> Norm:
    total = _of_type(composer, name, "ReduceSum")
    return squared(composer, total.inputs[0]), _axis(composer, total), _keeps(total)


def _unbounded(composer: Composer, name: str) -> str:
    """Return what a value is without a bound that only keeps it from being 0."""
    node = composer.producer(name)
    if node is None or node.op_type != "Max" or len(node.inputs) != 2:
        return name
    for data, other in (node.inputs, node.inputs[::-1]):
        least = composer.numbers(other)
        if least is not None and bool((least <= MAX_LEAST_NORM).all()):
            return data
    return name


def _of_type(composer: Composer, name: str, op_type: str) -> Node:
    node = composer.producer(name)
    if node is None or node.op_type != op_type or node.domain:
        raise NoComposition
    return node


def _axis(composer: Composer, node: Node) -> int:
    """Return the only axis of a reduction."""
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = composer.numbers(node.inputs[1])
    if axes is None or len(axes) != 1:
        raise NoComposition
    return int(axes[0]) % len(composer.shape(node.inputs[0]))


def _keeps(node: Node) -> bool:
    return bool(node.attributes.get("keepdims", 1))
