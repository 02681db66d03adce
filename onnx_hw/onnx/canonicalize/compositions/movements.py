"""Operators that move elements to constant places, or add up elements of constant places."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.compositions.composer import Composer, NoComposition, composed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.softmax import softmax_axes

MAX_ADDENDS = 64
"""Greatest number of elements that an element of a Col2Im, or of added updates, is the sum of."""


def _run(composer: Composer, node: Node, data: dict[int, np.ndarray]) -> np.ndarray:
    """Return the result of a node for other data at some inputs; the other inputs are constant."""
    arguments = [
        data[k] if k in data else (composer.constant_input(k) if name else None) for k, name in enumerate(node.inputs)
    ]
    try:
        return np.asarray(compute(node, arguments)[0])
    except UserError:
        raise NoComposition from None


@composed("GatherND", "GatherElements", "ReverseSequence", "Trilu", "Compress", meaning="as a move of elements")
def move(composer: Composer, node: Node) -> str:
    """Compose an operator with constant indices; it runs on the elements' numbers, and 0 stands for none."""
    data = composer.real(node)
    shape = composer.shape(data)
    numbers = np.arange(1, prod(shape) + 1).reshape(shape)
    return composer.gathered([data], _run(composer, node, {0: numbers}) - 1)


@composed("ScatterND", "ScatterElements", "Scatter", meaning="as a move of elements")
def scatter(composer: Composer, node: Node) -> str:
    """Compose an operator with constant indices, which replaces elements of data or of a constant."""
    composer.require(
        composer.is_float(node.outputs[0]) and node.attributes.get("reduction", "none") in ("none", b"none")
    )
    data, _, updates = node.inputs
    parts, places, terms, count = [], {}, {}, 0
    for k, name in ((0, data), (2, updates)):
        shape, array = composer.shape(name), composer.numbers(name)
        terms[k] = np.zeros(shape) if array is None else array.astype(np.float64)
        places[k] = np.zeros(shape, dtype=np.int64)
        if array is None:
            parts.append(name)
            places[k] = count + 1 + np.arange(prod(shape)).reshape(shape)
            count += prod(shape)
    composer.require(bool(parts) and all(np.isfinite(term).all() for term in terms.values()))
    origin, term = (_run(composer, node, arrays) for arrays in (places, terms))
    composer.require(bool((origin > 0).any()))
    moved = composer.gathered(parts, origin - 1)
    return composer.add("Add", moved, composer.constant(term)) if term.any() else moved


@composed("ScatterND", "ScatterElements", meaning="")
def scatter_sums(composer: Composer, node: Node) -> str:
    """Compose updates that are added at constant indices, such as the messages to the nodes of a graph.

    Each element is a sum of updates, and of zeros where it has fewer than others.
    """
    composer.require(composer.is_float(node.outputs[0]) and node.attributes.get("reduction", "none") in ("add", b"add"))
    data, _, updates = node.inputs
    terms, shape = composer.numbers(data), composer.shape(data)
    composer.require(composer.numbers(updates) is None and (terms is None or bool(np.isfinite(terms).all())))
    greatest = replace(node, version=18, attributes={**node.attributes, "reduction": "max"})
    size = composer.shape(updates)
    numbers, addends = np.arange(1, prod(size) + 1).reshape(size), list[np.ndarray]()
    while numbers.any():  # at each place, the last of the updates that are left
        taken = _run(composer, greatest, {0: np.zeros(shape, dtype=np.int64), 2: numbers})
        addends.append(taken - 1)
        numbers = np.where(np.isin(numbers, taken), 0, numbers)
        composer.require(len(addends) <= MAX_ADDENDS)
    composer.require(bool(addends))
    sums = composer.gathered([updates], addends[0] if len(addends) == 1 else np.stack(addends))
    if len(addends) > 1:
        sums = composer.add("ReduceSum", sums, composer.lengths([0]), keepdims=0)
    if terms is None:
        return composer.add("Add", data, sums)
    return composer.add("Add", sums, composer.constant(terms)) if terms.any() else sums


@composed("Col2Im", meaning="as a move of elements, and ReduceSum")
def col2im(composer: Composer, node: Node) -> str:
    """Compose overlapping blocks: each pixel is a sum of elements, and of zeros where it has fewer than others."""
    data = composer.real(node)
    shape, result = composer.shape(data), composer.shape(node.outputs[0])
    composer.require(shape[0] == 1)
    # numbers of one channel, one tap of the kernel at a time: each of them meets a pixel at most once
    taps = shape[1] // result[1]
    origins = []
    for tap in range(taps):
        numbers = np.zeros(shape, dtype=np.float64)
        index = 1 + np.arange(prod(shape), dtype=np.float64).reshape(shape)
        numbers[:, tap::taps] = index[:, tap::taps]
        origins.append(_run(composer, node, {0: numbers}).astype(np.int64) - 1)
    composer.require(taps <= MAX_ADDENDS)
    addends = composer.gathered([data], np.stack(origins))
    return composer.add("ReduceSum", addends, composer.lengths([0]), keepdims=0)


@composed("OneHot", meaning="as a comparison of indices with constants")
def one_hot(composer: Composer, node: Node) -> str:
    """Compose a OneHot with a constant depth and values: off + (on − off)·[index = place]."""
    depth = int(composer.constant_input(1).reshape(-1)[0])
    off, on = (float(number) for number in composer.constant_input(2).reshape(-1))
    composer.require(composer.is_float(node.outputs[0]) and bool(np.isfinite([off, on]).all()) and depth > 0)
    shape = composer.shape(node.outputs[0])
    axis = int(node.attributes.get("axis", -1)) % len(shape)
    index = node.inputs[0]
    if not composer.is_float(index):
        index = composer.add("Cast", index, to=1)
    return _equals_place(composer, index, shape, axis, off, on)


@composed("Hardmax", meaning="as ArgMax, and a comparison with constants")
def hardmax(composer: Composer, node: Node) -> str:
    """Compose 1 at the first of the greatest numbers of an axis, and 0 elsewhere."""
    data = composer.real(node)
    shape = composer.shape(data)
    (axis, *others) = softmax_axes(node, len(shape))
    composer.require(not others)
    index = composer.add("ArgMax", data, axis=axis, keepdims=1)
    return _equals_place(composer, composer.add("Cast", index, to=1), shape, axis, 0.0, 1.0)


def _equals_place(composer: Composer, index: str, shape: tuple[int, ...], axis: int, off: float, on: float) -> str:
    """Return ``on`` where an index is the place along an axis, else ``off``; a negative index counts from the end."""
    depth, axes = shape[axis], [1] * len(shape)
    kept = [1 if k == axis else length for k, length in enumerate(shape)]
    spread = composer.add("Expand", composer.add("Reshape", index, composer.lengths(kept)), composer.lengths(shape))
    axes[axis] = depth
    places = composer.constant(np.arange(depth, dtype=np.float32).reshape(axes))
    apart = composer.add("Abs", composer.add("Sub", spread, places))  # 0, or at least 1
    near = composer.add("Relu", composer.add("Sub", composer.constant(1.0), apart))
    if (off, on) == (0, 1):
        return near
    scaled = composer.add("Mul", near, composer.constant(on - off))
    return composer.add("Add", scaled, composer.constant(off)) if off else scaled
