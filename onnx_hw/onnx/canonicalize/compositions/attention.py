"""Attention as products of stacks around a Softmax; rotations of its operands; masks of the Softmax."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, NoComposition, composed
from onnx_hw.onnx.graph.element_types import BY_CODE
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.attention import attention_bias
from onnx_hw.onnx.operators.registry import INTERNAL
from onnx_hw.onnx.operators.softmax import softmax_axes

HIDES = -100.0
"""Greatest number that counts as minus infinity in a mask, relative to the greatest one of its row.

exp(HIDES) is less than any normal float32. Exporters write such numbers, down to the least float32, where they mean
infinity.
"""

HIDES_INSTEAD = -1e4
"""Greatest number that counts as minus infinity where it stands instead of the data of a Softmax."""

EXACT_SOFTMAX_TYPES = ("float", "double")
"""Types in which a Softmax of float32 loses nothing."""


@composed("Attention", meaning="as MatMul, Softmax and MatMul, head by head", need=Need.ALWAYS)
def attention(composer: Composer, node: Node) -> str:
    """Compose ``softmax(scale · q·kᵀ + bias) · v`` for heads of keys that one or several heads of queries share.

    Heads of queries that share their keys are further rows of the same product.
    """
    attributes = node.attributes
    q, k, v, mask, past_key, past_value, lengths = (*node.inputs, *[""] * 7)[:7]
    composer.require(bool(node.outputs[0]) and all(map(composer.is_float, (q, k, v))))
    precision = attributes.get("softmax_precision") or 1
    composer.require(BY_CODE[int(precision)].name in EXACT_SOFTMAX_TYPES)
    packed = len(composer.shape(q)) == 3
    heads = int(attributes["q_num_heads"]) if packed else composer.shape(q)[1]
    groups = int(attributes["kv_num_heads"]) if packed else composer.shape(k)[1]
    (batch, queries, size), (_, keys, _), (_, _, width) = (
        _lengths(composer.shape(name), count) for name, count in ((q, heads), (k, groups), (v, groups))
    )
    split_q, split_k, split_v = (
        _split(composer, name, count) for name, count in ((q, heads), (k, groups), (v, groups))
    )
    offset = np.array(0)
    if past_key:
        before = composer.shape(past_key)[2]
        split_k, split_v = (
            composer.add("Concat", past, new, axis=2) for past, new in ((past_key, split_k), (past_value, split_v))
        )
        keys, offset = keys + before, np.array(before)
    shared = heads // groups
    if shared > 1:
        split_q = composer.reshaped(split_q, (batch, groups, shared, queries, size))
        split_k = composer.reshaped(split_k, (batch, groups, 1, keys, size))
        split_v = composer.reshaped(split_v, (batch, groups, 1, keys, width))
    turned = (0, 1, 3, 2) if shared == 1 else (0, 1, 2, 4, 3)
    scores = composer.add("MatMul", split_q, composer.transposed(split_k, turned))
    scale = attributes.get("scale")
    scores = composer.add("Mul", scores, composer.constant(1 / np.sqrt(size) if scale is None else scale))
    limit = float(attributes.get("softcap", 0.0))
    if limit > 0:
        capped = composer.add("Tanh", composer.add("Div", scores, composer.constant(limit)))
        scores = composer.add("Mul", capped, composer.constant(limit))
    known_lengths = composer.numbers(lengths) if lengths else None
    composer.require(not lengths or known_lengths is not None)
    if known_lengths is not None:
        offset = (known_lengths - queries).reshape(-1, 1, 1, 1)
    known_mask = composer.numbers(mask) if mask else None
    if mask and known_mask is None:
        of_mask = composer.shape(mask)
        composer.require(composer.is_float(mask) and of_mask[-1] == keys)
        scores = composer.add("Add", scores, composer.reshaped(mask, _of_groups(of_mask, groups, shared)))
    bias = attention_bias(
        known_mask,
        (queries, keys),
        np.dtype(np.float32),
        offset=offset,
        is_causal=int(attributes.get("is_causal", 0)),
        windows=(int(attributes.get("left_window_size", -1)), int(attributes.get("right_window_size", -1))),
        lengths=known_lengths,
    )
    bias = bias.reshape(_of_groups(bias.shape, groups, shared))
    blind = np.isneginf(bias).all(axis=-1, keepdims=True)
    weights = _softmax(composer, scores, np.where(blind, 0, bias), -1)
    result = composer.add("MatMul", weights, split_v)
    if blind.any():
        sees = composer.added.constant(f"{node.outputs[0]}/sees", np.logical_not(blind), "bool")
        result = composer.add("Where", sees, result, composer.constant(0.0))
    if packed:
        if shared > 1:
            result = composer.reshaped(result, (batch, heads, queries, width))
        return composer.reshaped(composer.transposed(result, (0, 2, 1, 3)), (batch, queries, heads * width))
    return result if shared == 1 else composer.reshaped(result, (batch, heads, queries, width))


def _lengths(shape: tuple[int, ...], heads: int) -> tuple[int, int, int]:
    """Return (batch, tokens, size of a head) of an operand of three or four axes."""
    return (shape[0], shape[1], shape[2] // heads) if len(shape) == 3 else (shape[0], shape[2], shape[3])


def _split(composer: Composer, name: str, heads: int) -> str:
    """Return an operand as (batch, heads, tokens, size)."""
    shape = composer.shape(name)
    if len(shape) == 4:
        return name
    return composer.transposed(composer.reshaped(name, (*shape[:2], heads, shape[2] // heads)), (0, 2, 1, 3))


def _of_groups(shape: tuple[int, ...], groups: int, shared: int) -> tuple[int, ...]:
    """Return the shape of a mask (..., heads, queries, keys) with an axis of groups and one of the heads that share."""
    if shared == 1 or len(shape) < 3:
        return shape
    heads = (1, 1) if shape[-3] == 1 else (groups, shared)
    return (*shape[:-3], *heads, *shape[-2:])


@composed("Softmax", meaning="")
def softmax_behind_a_mask(composer: Composer, node: Node) -> str:
    """Hide the places at which a constant adds minus infinity to the data of a Softmax, or is chosen instead of it."""
    made = composer.producer(node.inputs[0])
    composer.require(made is not None and not made.domain)
    assert made is not None
    shape = composer.shape(node.inputs[0])
    (axis, *others) = softmax_axes(node, len(shape))
    composer.require(not others)
    data, bias = _chosen_bias(composer, made) if made.op_type == "Where" else _added_bias(composer, made)
    bias = bias.reshape((1,) * (len(shape) - bias.ndim) + bias.shape)
    composer.require(composer.shape(data) == shape and not _shown(bias, axis).all())
    return _softmax(composer, data, bias, axis)


def _added_bias(composer: Composer, made: Node) -> tuple[str, np.ndarray]:
    """Return the data of a sum or a difference, and the constant that is added to it."""
    composer.require(made.op_type == "Add" or made.op_type == "Sub")
    constants = [composer.numbers(name) for name in made.inputs]
    composer.require((constants[0] is None) != (constants[1] is None))
    k = 0 if constants[0] is None else 1
    term = constants[1 - k]
    composer.require(made.op_type == "Add" or k == 0)
    assert term is not None
    return made.inputs[k], term if made.op_type == "Add" else -term


def _chosen_bias(composer: Composer, made: Node) -> tuple[str, np.ndarray]:
    """Return the data of a choice by a constant condition, and minus infinity where a constant is chosen instead."""
    condition, *constants = [composer.numbers(name) for name in made.inputs]
    composer.require(condition is not None and (constants[0] is None) != (constants[1] is None))
    assert condition is not None
    k = 0 if constants[0] is None else 1
    other = constants[1 - k]
    assert other is not None
    composer.require(bool((other <= HIDES_INSTEAD).all()))
    return made.inputs[1 + k], np.where(condition.astype(bool) == (k == 0), 0, -np.inf)


def _shown(bias: np.ndarray, axis: int) -> np.ndarray:
    """Return where a constant that is added to the data of a Softmax leaves a place visible.

    Raises:
        NoComposition: nothing is left in some row.
    """
    most = bias.max(axis=axis, keepdims=True)
    if not np.isfinite(most).all():
        raise NoComposition
    return np.asarray(bias > most + HIDES)


def _softmax(composer: Composer, scores: str, bias: np.ndarray, axis: int) -> str:
    """Return the Softmax along an axis of scores to which a constant is added, which may hide places."""
    shown = _shown(bias, axis)
    rest = np.where(shown, bias, 0)
    if rest.any():
        scores = composer.add("Add", scores, composer.constant(rest))
    if shown.all():
        return composer.add("Softmax", scores, axis=axis)
    mask = composer.added.constant(f"{composer.node.outputs[0]}/shown", shown, "bool")
    return composer.add("MaskedSoftmax", scores, mask, domain=INTERNAL, version=1, axis=axis)


@composed("RotaryEmbedding", meaning="as products with constants")
def rotary_embedding(composer: Composer, node: Node) -> str:
    """Compose the rotation of pairs: x·cos + y·sin, y being the other number of each pair, the second negated."""
    attributes, shape = node.attributes, composer.shape(node.inputs[0])
    data = composer.real(node)
    packed = len(shape) == 3
    heads = int(attributes.get("num_heads") or 1) if packed else shape[1]
    batch, tokens, size = _lengths(shape, heads)
    turned = int(attributes.get("rotary_embedding_dim") or size)
    waves = [composer.constant_input(k) for k in (1, 2)]
    if len(node.inputs) > 3 and node.inputs[3]:
        places = composer.constant_input(3).astype(np.int64)
        waves = [wave[places] for wave in waves]
    half = np.arange(turned // 2)
    if attributes.get("interleaved", 0):
        pair, first = np.arange(turned) // 2, np.arange(turned) % 2 == 0
        other = np.arange(turned) ^ 1
    else:
        pair, first = np.concatenate([half, half]), np.arange(turned) < turned // 2
        other = np.roll(np.arange(turned), turned // 2)
    cos, sin = (np.broadcast_to(wave, (batch, tokens, turned // 2))[..., pair] for wave in waves)
    sin = np.where(first, -sin, sin)
    axes = (batch, tokens, 1, turned) if packed else (batch, 1, tokens, turned)
    x = composer.reshaped(data, (batch, tokens, heads, size)) if packed else data
    parts = [x]
    if turned < size:
        parts = [
            composer.add("Slice", x, composer.lengths([start]), composer.lengths([end]), composer.lengths([3]))
            for start, end in ((0, turned), (turned, size))
        ]
    exchanged = composer.add("Gather", parts[0], composer.lengths(other.tolist()), axis=3)
    terms = [
        composer.add("Mul", part, composer.constant(wave.reshape(axes)))
        for part, wave in ((parts[0], cos), (exchanged, sin))
    ]
    rotated = composer.add("Add", *terms)
    result = rotated if len(parts) == 1 else composer.add("Concat", rotated, parts[1], axis=3)
    return composer.reshaped(result, shape) if packed else result
