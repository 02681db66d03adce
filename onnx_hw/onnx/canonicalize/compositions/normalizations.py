"""Normalizations that exporters spell out, as the operators of ONNX; a scale and a bias behind them as their inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, NoComposition, composed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of

LAYER_NORMALIZATION, RMS_NORMALIZATION, LP_NORMALIZATION = 17, 23, 22
"""Opsets of the operators."""

SOFTMAX = 13
"""First opset whose Softmax has one axis."""

MAX_LEAST_NORM = 1e-5
"""Greatest bound below a norm that only keeps it from being 0."""


@dataclass(frozen=True)
class Spread:
    """Root of a mean square or of a sum of squares, or a sum of magnitudes.

    Attributes:
        data: name of what is squared.
        axes: axes of the mean or the sum, ascending.
        epsilon: what is added to it.
        counted: whether it is a mean.
        power: 2, or 1 for a sum of magnitudes.
    """

    data: str
    axes: tuple[int, ...]
    epsilon: float
    counted: bool
    power: int = 2


@composed("Div", meaning="")
def divided_by_spread(composer: Composer, node: Node) -> str:
    """Compose x / √(mean of squares + epsilon), x less its mean or not, x / √(sum of squares), and x / Σ |x|."""
    composer.require(composer.is_float(node.outputs[0]))
    return _normalized(composer, node.inputs[0], _root(composer, node.inputs[1]))


@composed("Div", meaning="")
def share_of_exponentials(composer: Composer, node: Node) -> str:
    """Compose exp(x − max x) / Σ exp(x − max x) as a Softmax; the greatest number may be subtracted or not."""
    exponentials, total = composer.producer(node.inputs[0]), _maker(composer, node.inputs[1])
    composer.require(exponentials is not None and exponentials.op_type == "Exp")
    composer.require(total is not None and total.op_type == "ReduceSum" and total.inputs[0] == node.inputs[0])
    assert exponentials is not None and total is not None
    axes = _axes(composer, total)
    composer.require(len(axes) == 1)
    data = exponentials.inputs[0]
    less = composer.producer(data)
    greatest = _maker(composer, less.inputs[1]) if less is not None and less.op_type == "Sub" else None
    if less is not None and greatest is not None and greatest.op_type == "ReduceMax":
        data = less.inputs[0] if greatest.inputs[0] == less.inputs[0] and _axes(composer, greatest) == axes else data
    return composer.add("Softmax", data, version=SOFTMAX, axis=axes[0])


@composed("Mul", meaning="")
def multiplied(composer: Composer, node: Node) -> str:
    """Compose x · (1 / √…) as the division, and a normalization times a constant as its scale."""
    for data, other in (node.inputs, node.inputs[::-1]):
        constant = None if composer.is_constant(data) else composer.numbers(other)
        if constant is not None:
            return _scaled(composer, composer.producer(data), constant)
        inverse = _maker(composer, other)
        if inverse is not None and (inverse.op_type == "Reciprocal" or facts_of(inverse).inverts):
            return _normalized(composer, data, _root(composer, _inverted(composer, inverse)))
    raise NoComposition


@composed("Add", meaning="")
def added(composer: Composer, node: Node) -> str:
    """Compose a LayerNormalization plus a constant as its bias, and x·a + (b − mean·a) with a = scale / √…"""
    for data, other in (node.inputs, node.inputs[::-1]):
        constant = None if composer.is_constant(data) else composer.numbers(other)
        if constant is not None:
            return _biased(composer, composer.producer(data), constant)
        whole, rest = composer.producer(data), composer.producer(other)
        if whole is not None and rest is not None and whole.op_type == "Mul" and rest.op_type == "Sub":
            return _as_batch_normalization(composer, whole, rest)
    raise NoComposition


SPELLED_OUT = divided_by_spread, multiplied, added
"""Compositions that find a normalization among the operators that exporters make it of."""

# ---- parts ---------------------------------------------------------------------------------------------------------


def _normalized(composer: Composer, data: str, spread: Spread) -> str:
    """Add the normalization of data that are divided by a spread."""
    shape = composer.shape(data)
    if not spread.counted:
        composer.require(spread.data == data and len(spread.axes) == 1 and spread.epsilon == 0)
        return composer.add("LpNormalization", data, version=LP_NORMALIZATION, axis=spread.axes[0], p=spread.power)
    less = composer.producer(data)
    mean = _mean(composer, less.inputs[1]) if less is not None and less.op_type == "Sub" else None
    if less is not None and mean == (less.inputs[0], spread.axes) and _is_distance(composer, spread.data, mean):
        return _over_axes(composer, "LayerNormalization", LAYER_NORMALIZATION, mean[0], spread)
    composer.require(spread.data == data and len(shape) > 0)
    return _over_axes(composer, "RMSNormalization", RMS_NORMALIZATION, data, spread)


def _over_axes(composer: Composer, op_type: str, version: int, data: str, spread: Spread) -> str:
    """Add a normalization over any axes, between Transposes where they are not the last ones."""
    shape = composer.shape(data)
    kept = [axis for axis in range(len(shape)) if axis not in spread.axes]
    order = [*kept, *spread.axes]
    ones = composer.constant(np.ones([shape[axis] for axis in spread.axes]))
    turned = composer.transposed(data, order)
    result = composer.add(op_type, turned, ones, version=version, axis=-len(spread.axes), epsilon=spread.epsilon)
    return composer.transposed(result, [order.index(axis) for axis in range(len(shape))])


def _as_batch_normalization(composer: Composer, whole: Node, rest: Node) -> str:
    """Add the normalization that x·a + (b − mean·a) is, with a = scale / √(variance + epsilon)."""
    product = composer.producer(rest.inputs[1])
    bias = composer.numbers(rest.inputs[0])
    composer.require(product is not None and product.op_type == "Mul" and bias is not None)
    assert product is not None and bias is not None
    shared = set(whole.inputs) & set(product.inputs)
    composer.require(len(shared) == 1 and len(whole.inputs) == 2)
    (factor,) = shared
    (data,), (mean,) = ([name for name in node.inputs if name != factor] for node in (whole, product))
    scaled, scale = _maker(composer, factor), np.ones(())
    composer.require(scaled is not None)
    assert scaled is not None
    if scaled.op_type == "Mul":
        parts = [(name, composer.numbers(other)) for name, other in (scaled.inputs, scaled.inputs[::-1])]
        inverse, constant = next(((name, array) for name, array in parts if array is not None), ("", None))
        composer.require(constant is not None)
        assert constant is not None
        scale, scaled = constant, _maker(composer, inverse)
    composer.require(scaled is not None)
    assert scaled is not None
    spread = _root(composer, _inverted(composer, scaled))
    found = _mean(composer, mean)
    composer.require(found == (data, spread.axes) and spread.counted)
    assert found is not None
    composer.require(_is_distance(composer, spread.data, found))
    result = _over_axes(composer, "LayerNormalization", LAYER_NORMALIZATION, data, spread)
    result = composer.add("Mul", result, composer.constant(scale))
    return composer.add("Add", result, composer.constant(bias))


def _scaled(composer: Composer, norm: Node | None, constant: np.ndarray) -> str:
    """Add a LayerNormalization or RMSNormalization with another scale."""
    composer.require(norm is not None and (norm.op_type == "LayerNormalization" or norm.op_type == "RMSNormalization"))
    assert norm is not None
    before, bias = composer.numbers(norm.inputs[1]), norm.inputs[2:3]
    composer.require(before is not None and not any(bias))
    assert before is not None
    return _with_constants(composer, norm, _fitted(composer, norm, before * constant))


def _biased(composer: Composer, norm: Node | None, constant: np.ndarray) -> str:
    """Add a LayerNormalization with a bias."""
    composer.require(norm is not None and norm.op_type == "LayerNormalization" and not any(norm.inputs[2:3]))
    assert norm is not None
    return _with_constants(composer, norm, norm.inputs[1], _fitted(composer, norm, constant))


def _with_constants(composer: Composer, norm: Node, *constants: str) -> str:
    return composer.add(norm.op_type, norm.inputs[0], *constants, version=norm.version, **norm.attributes)


def _fitted(composer: Composer, norm: Node, constant: np.ndarray) -> str:
    """Add a constant in the shape of the normalized axes."""
    shape = composer.shape(norm.inputs[0])
    last = shape[int(norm.attributes.get("axis", -1)) % len(shape) :]
    while constant.ndim > len(last) and constant.shape[0] == 1:
        constant = constant[0]
    composer.require(constant.ndim <= len(last) and np.broadcast_shapes(constant.shape, last) == last)
    return composer.constant(np.broadcast_to(constant, last))


def _maker(composer: Composer, name: str) -> Node | None:
    """Return the node that makes a value, before it was broadcast."""
    node = composer.producer(name)
    while node is not None and (node.op_type == "Expand" or node.op_type == "Identity"):
        node = composer.producer(node.inputs[0])
    return node


def _inverted(composer: Composer, node: Node) -> str:
    """Return what a node inverts; raise NoComposition where it inverts nothing."""
    if node.op_type == "Reciprocal":
        return node.inputs[0]
    composer.require(node.op_type == "Div")
    one = composer.numbers(node.inputs[0])
    composer.require(one is not None and bool((one == 1).all()))
    return node.inputs[1]


def _root(composer: Composer, name: str) -> Spread:
    """Return the spread that a value is; raise NoComposition for other values."""
    node = _maker(composer, name)
    composer.require(node is not None)
    assert node is not None
    if node.op_type == "Max" or (facts_of(node).effect is Effect.BOUNDS and node.op_type != "Min"):
        least = composer.numbers(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
        composer.require(least is not None and bool((least <= MAX_LEAST_NORM).all()) and not any(node.inputs[2:3]))
        spread = _root(composer, node.inputs[0])
        composer.require(not spread.counted)
        return spread
    if (data := _magnitudes(composer, node)) is not None:
        return Spread(data, _axes(composer, node), 0.0, False, power=1)
    power = composer.numbers(node.inputs[1]) if node.op_type == "Pow" else None
    composer.require(node.op_type == "Sqrt" or (power is not None and bool((power == 0.5).all())))
    inner, epsilon = node.inputs[0], 0.0
    total = composer.producer(inner)
    if total is not None and total.op_type == "Add":
        parts = [(name, composer.numbers(other)) for name, other in (total.inputs, total.inputs[::-1])]
        inner, constant = next(((name, array) for name, array in parts if array is not None), ("", None))
        composer.require(constant is not None and constant.size == 1 and float(constant.reshape(())) >= 0)
        assert constant is not None
        epsilon = float(constant.reshape(()))
        total = composer.producer(inner)
    composer.require(total is not None and facts_of(total).effect is Effect.SUMS and total.op_type.startswith("Reduce"))
    assert total is not None
    return Spread(squared(composer, total.inputs[0]), _axes(composer, total), epsilon, total.op_type == "ReduceMean")


def _magnitudes(composer: Composer, total: Node) -> str | None:
    """Return the data whose magnitudes a node adds up; None for other nodes."""
    if total.op_type == "ReduceL1":
        return total.inputs[0]
    magnitudes = composer.producer(total.inputs[0]) if total.op_type == "ReduceSum" else None
    return magnitudes.inputs[0] if magnitudes is not None and magnitudes.op_type == "Abs" else None


def squared(composer: Composer, name: str) -> str:
    """Return the data of which a value is the square; raise NoComposition for other values."""
    square = composer.producer(name)
    composer.require(square is not None)
    assert square is not None
    power = composer.numbers(square.inputs[1]) if square.op_type == "Pow" else None
    squares = square.op_type == "Mul" and square.inputs[0] == square.inputs[1]
    composer.require(squares or (power is not None and bool((power == 2).all())))
    return square.inputs[0]


def _mean(composer: Composer, name: str) -> tuple[str, tuple[int, ...]] | None:
    """Return (data, axes) of a mean that keeps its axes; None for other values."""
    node = composer.producer(name)
    return (node.inputs[0], _axes(composer, node)) if node is not None and node.op_type == "ReduceMean" else None


def _is_distance(composer: Composer, name: str, mean: tuple[str, tuple[int, ...]]) -> bool:
    """Return whether a value is data less its mean."""
    node = composer.producer(name)
    if node is None or node.op_type != "Sub":
        return False
    return node.inputs[0] == mean[0] and _mean(composer, node.inputs[1]) == mean


def _axes(composer: Composer, node: Node) -> tuple[int, ...]:
    """Return the axes of a reduction, which must keep them."""
    rank = len(composer.shape(node.inputs[0]))
    composer.require(bool(node.attributes.get("keepdims", 1)))
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = composer.numbers(node.inputs[1])
    composer.require(axes is not None and np.size(axes) > 0)
    return tuple(sorted({int(axis) % rank for axis in np.asarray(axes).reshape(-1)}))
