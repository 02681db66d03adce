"""Operators that relate the numbers along an axis: logarithms of shares, LRN, products and the greatest one."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.reduction import reduced_axes
from onnx_hw.onnx.operators.softmax import softmax_axes

MAX_FACTORS = 64
"""Greatest number of factors of a product along axes."""


@composed("LogSoftmax", meaning="as differences, and Log of ReduceSum of Exp")
def log_softmax(composer: Composer, node: Node) -> str:
    """Compose x − m − log Σ exp(x − m), m being the greatest number: no exponential exceeds 1."""
    axes = softmax_axes(node, len(composer.shape(composer.real(node))))
    return _log_of_shares(composer, node.inputs[0], axes)


@composed("Log", meaning="")
def log_of_softmax(composer: Composer, node: Node) -> str:
    """Compose the Log of a Softmax, which would lose the small shares, as LogSoftmax."""
    made = composer.producer(node.inputs[0])
    composer.require(made is not None and made.op_type == "Softmax")
    assert made is not None
    axes = softmax_axes(made, len(composer.shape(made.inputs[0])))
    return _log_of_shares(composer, made.inputs[0], axes)


def _log_of_shares(composer: Composer, data: str, axes: tuple[int, ...]) -> str:
    less = composer.add("Sub", data, composer.add("ReduceMax", data, axes=axes, keepdims=1))
    total = composer.add("ReduceSum", composer.add("Exp", less), composer.lengths(axes), keepdims=1)
    return composer.add("Sub", less, composer.add("Log", total))


@composed("LRN", meaning="as a product with a power of a sum of squares, which is a Conv")
def lrn(composer: Composer, node: Node) -> str:
    """Compose x · (bias + alpha / size · Σ x²)^−beta, the sum over neighbouring channels."""
    data, size = composer.real(node), int(node.attributes["size"])
    channels, space = composer.shape(data)[1], composer.shape(data)[2:]
    composer.require(composer.shape(data)[0] == 1 and len(space) in (1, 2))
    alpha, beta, bias = (float(node.attributes.get(n, d)) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    apart = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    near = (apart >= -((size - 1) // 2)) & (apart <= size // 2)
    ones = near.astype(np.int32).reshape(channels, channels, *(1 for _ in space))
    stored = composer.added.constant(f"{node.outputs[0]}/neighbours", ones, "int32")
    sums = composer.add(
        "Conv",
        composer.add("Mul", data, data),
        composer.add("DequantizeLinear", stored, composer.constant(1.0)),
        version=11,
    )
    scaled = composer.add("Mul", sums, composer.constant(alpha / size))
    base = composer.add("Add", scaled, composer.constant(bias))
    return composer.add("Mul", data, composer.add("Pow", base, composer.constant(-beta)))


@composed("ReduceProd", meaning="as products of halves, for at most 64 factors")
def reduce_prod(composer: Composer, node: Node) -> str:
    """Compose a product of all numbers along some axes: of two halves, again and again."""
    data = composer.real(node)
    shape, result = composer.shape(data), composer.shape(node.outputs[0])
    rank = len(shape)
    stated = composer.constant_input(1).reshape(-1) if len(node.inputs) > 1 and node.inputs[1] else None
    stated = node.attributes.get("axes") if stated is None else stated
    axes = sorted(reduced_axes(rank, stated, int(node.attributes.get("noop_with_empty_axes", 0))))
    composer.require(bool(axes))
    kept = [axis for axis in range(rank) if axis not in axes]
    count = prod(shape[axis] for axis in axes)
    composer.require(1 < count <= MAX_FACTORS)
    factors = composer.transposed(data, (*kept, *axes))
    factors = composer.add("Reshape", factors, composer.lengths((*(shape[axis] for axis in kept), count)))
    while count > 1:
        half, along = count // 2, len(kept)
        first, second = _taken(composer, factors, along, 0, half), _taken(composer, factors, along, half, 2 * half)
        pairs = composer.add("Mul", first, second)
        odd = [_taken(composer, factors, along, 2 * half, count)] if count % 2 else []
        factors, count = composer.add("Concat", pairs, *odd, axis=along) if odd else pairs, half + len(odd)
    return composer.add("Reshape", factors, composer.lengths(result))


def _taken(composer: Composer, data: str, axis: int, first: int, end: int) -> str:
    """Return the elements from one place along an axis up to another one."""
    return composer.add("Gather", data, composer.lengths(range(first, end)), axis=axis)


@composed("CumProd", meaning="as products one after the other, for at most 64 factors")
def cum_prod(composer: Composer, node: Node) -> str:
    data, axis = composer.real(node), int(composer.constant_input(1).reshape(-1)[0])
    shape = composer.shape(data)
    axis %= len(shape)
    composer.require(1 < shape[axis] <= MAX_FACTORS and not node.attributes.get("exclusive", 0))
    places = list(range(shape[axis]))
    if node.attributes.get("reverse", 0):
        places.reverse()
    parts = [composer.add("Gather", data, composer.lengths([place]), axis=axis) for place in places]
    for k in range(1, len(parts)):
        parts[k] = composer.add("Mul", parts[k - 1], parts[k])
    return composer.add("Concat", *(parts if places[0] == 0 else parts[::-1]), axis=axis)


@composed("TopK", meaning="as ReduceMax and ArgMax, or ReduceMin and ArgMin, for k = 1", several=True)
def top_1(composer: Composer, node: Node) -> tuple[str, str]:
    """Compose the greatest number along an axis, or the least, and its place."""
    data = composer.real(node)
    count = int(node.attributes["k"]) if "k" in node.attributes else int(composer.constant_input(1).reshape(-1)[0])
    composer.require(count == 1)
    axis = int(node.attributes.get("axis", -1)) % len(composer.shape(data))
    which = "Max" if node.attributes.get("largest", 1) else "Min"
    value = composer.add(f"Reduce{which}", data, axes=(axis,), keepdims=1)
    return value, composer.add(f"Arg{which}", data, axis=axis, keepdims=1)


@composed("SwiGLU", meaning="as a product with Swish")
def swi_glu(composer: Composer, node: Node) -> str:
    gate, data = node.inputs
    alpha = float(node.attributes.get("alpha", 1.0))
    scaled = gate if alpha == 1 else composer.add("Mul", gate, composer.constant(alpha))
    return composer.add("Mul", composer.add("Mul", gate, composer.add("Sigmoid", scaled)), data)


@composed("CausalConvWithState", meaning="as Concat and Conv", need=Need.ALWAYS, several=True)
def causal_conv(composer: Composer, node: Node) -> tuple[str, str]:
    """Compose a depthwise Conv over the last inputs of the call before and the new ones."""
    data, weights = node.inputs[:2]
    bias, past = ((*node.inputs, "", "")[k] for k in (2, 3))
    shape, of_weights = composer.shape(data), composer.shape(weights)
    composer.require(composer.is_constant(weights) and (not bias or composer.is_constant(bias)))
    ahead = of_weights[2] - 1
    if past:
        whole = composer.add("Concat", past, data, axis=2)
    else:
        whole = composer.add("Pad", data, composer.lengths((0, 0, ahead, 0, 0, 0)))
    sums = composer.add("Conv", whole, weights, *([bias] if bias else []), version=11, group=shape[1])
    last = composer.add("Gather", whole, composer.lengths(range(shape[2], shape[2] + ahead)), axis=2)
    if str(node.attributes.get("activation", "none")) != "none":
        sums = composer.add("Mul", sums, composer.add("Sigmoid", sums))
    return sums, last
