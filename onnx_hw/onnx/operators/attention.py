"""Operators of language models: Attention, RotaryEmbedding, LinearAttention, CausalConvWithState."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.activation import Swish
from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code
from onnx_hw.onnx.operators.facts import Facts
from onnx_hw.onnx.operators.macs import known_type
from onnx_hw.onnx.operators.matmul import product
from onnx_hw.onnx.operators.registry import earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, Types, like_first, must_have_axes


def attention_macs(_: Node, inputs: Types, results: Types) -> int:
    """Count products: each query meets all keys, those of the past included, and their weights meet the values."""
    past = inputs[4] if len(inputs) > 4 else None
    keys = known_type(inputs, 1).shape[-2] + (0 if past is None else past.shape[-2])
    return (known_type(inputs, 0).size + known_type(results, 0).size) * keys


@operator(since=25, facts=Facts(macs=attention_macs))
def Attention(
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    nonpad_kv_seqlen: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return ``softmax(q k^T + bias) v``: (batch, heads, length, size), or packed (batch, length, heads * size)."""
    packed = q.ndim == 3
    if packed:
        if q_num_heads is None or kv_num_heads is None:
            raise ValueError("q_num_heads and kv_num_heads must be given for inputs of three axes")
        q, k, v = _split_heads(q, q_num_heads), _split_heads(k, kv_num_heads), _split_heads(v, kv_num_heads)
    if (past_key is None) != (past_value is None) or (past_key is not None and nonpad_kv_seqlen is not None):
        raise ValueError("past_key and past_value must be given together, and without nonpad_kv_seqlen")
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)
    queries, keys = q.shape[2], k.shape[2]
    before = 0 if past_key is None else past_key.shape[2]
    offset = np.array(before) if nonpad_kv_seqlen is None else (nonpad_kv_seqlen - queries).reshape(-1, 1, 1, 1)
    hold((q.shape[0], q.shape[1], queries, keys), q.dtype)
    bias = attention_bias(
        attn_mask,
        (queries, keys),
        q.dtype,
        offset=offset,
        is_causal=is_causal,
        windows=(left_window_size, right_window_size),
        lengths=nonpad_kv_seqlen,
    )
    factor = q.dtype.type(np.sqrt(1 / np.sqrt(q.shape[-1]) if scale is None else scale))
    shared = q.shape[1] // k.shape[1]  # queries of several heads look at one head of keys
    scores = product(q * factor, np.repeat((k * factor).swapaxes(2, 3), shared, axis=1))
    capped = scores
    if softcap > 0:
        limit = q.dtype.type(softcap)
        capped = limit * np.tanh(scores / limit)
    biased = (capped + bias).astype(q.dtype, copy=False)
    exact = biased.astype(dtype_of_code(softmax_precision)) if softmax_precision else biased
    weights = _masked_softmax(exact, bias).astype(q.dtype)
    y = product(weights, np.repeat(v, shared, axis=1))
    if packed:
        y = y.swapaxes(1, 2).reshape(y.shape[0], queries, -1)
    return y, k, v, (scores, capped, biased, weights)[qk_matmul_output_mode]


earlier(Attention, since=24, without=("left_window_size", "right_window_size"))
earlier(Attention, since=23, without=("left_window_size", "right_window_size"), inputs=(3, 6))


def _split_heads(x: Array, heads: int) -> Array:
    """Reshape (batch, length, heads * size) -> (batch, heads, length, size)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).swapaxes(1, 2)


def attention_bias(
    mask: Array | None,
    shape: tuple[int, int],
    dtype: np.dtype,
    *,
    offset: Array,
    is_causal: int,
    windows: tuple[int, int],
    lengths: Array | None,
) -> Array:
    """Return what Attention adds to its scores, minus infinity in places that it hides: (..., queries, keys).

    Args:
        mask: numbers to add, or booleans that are False in hidden places; one that is shorter than the keys hides the
            rest.
        shape: numbers of queries and keys.
        dtype: type of the scores.
        offset: place of the first query among the keys.
        is_causal: whether a query sees no keys behind its own place.
        windows: greatest distance of keys before and behind the place of a query; any if negative.
        lengths: (batch,) number of keys that are not padding.
    """
    queries, keys = shape
    bias = np.zeros(shape, dtype) if mask is None else mask
    if bias.dtype == bool:
        bias = np.where(bias, 0, -np.inf).astype(dtype)
    missing = keys - bias.shape[-1]
    if missing > 0:
        bias = np.concatenate([bias, np.full((*bias.shape[:-1], missing), -np.inf).astype(dtype)], axis=-1)
    distance = np.arange(keys) - np.arange(queries)[:, None] - offset
    hidden = np.zeros(distance.shape, bool)
    if is_causal:
        hidden = hidden | (distance > 0)
    if windows[0] >= 0:
        hidden = hidden | (distance < -windows[0])
    if windows[1] >= 0:
        hidden = hidden | (distance > windows[1])
    if lengths is not None:
        hidden = hidden | (np.arange(keys) >= lengths.reshape(-1, 1, 1, 1))
    return np.where(hidden, bias.dtype.type(-np.inf), bias)


def _masked_softmax(scores: Array, bias: Array) -> Array:
    """Apply softmax over the last axis; a row in which everything is hidden becomes zero."""
    hidden = np.broadcast_to(np.isneginf(bias.astype(np.float32)).all(axis=-1, keepdims=True), (*scores.shape[:-1], 1))
    most = np.where(hidden, scores.dtype.type(0), scores.max(axis=-1, keepdims=True))
    powers = np.exp(scores - most)
    total = powers.sum(axis=-1, keepdims=True)
    return np.where(hidden, scores.dtype.type(0), powers / np.where(hidden, scores.dtype.type(1), total))


@operator(since=23, types=like_first)
def RotaryEmbedding(
    x: Array,
    cos_cache: Array,
    sin_cache: Array,
    position_ids: Array | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Array:
    """Rotate the first ``rotary_embedding_dim`` entries of each head pairwise by the angles of their position."""
    packed = x.ndim == 3
    if packed and not num_heads:
        raise ValueError("num_heads must be given for an input of three axes")
    heads = _split_heads(x, num_heads or 1) if packed else x
    size = rotary_embedding_dim or heads.shape[-1]
    cos = cos_cache if position_ids is None else cos_cache[position_ids]
    sin = sin_cache if position_ids is None else sin_cache[position_ids]
    if cos.shape[-1] != size // 2 or sin.shape[-1] != size // 2:
        raise ValueError(f"the caches must hold {size // 2} angles per position, not {cos.shape[-1]}")
    cos, sin = cos[:, None], sin[:, None]
    turned = heads[..., :size]
    pairs = turned.reshape(*turned.shape[:-1], *((-1, 2) if interleaved else (2, -1)))
    a, b = (pairs[..., 0], pairs[..., 1]) if interleaved else (pairs[..., 0, :], pairs[..., 1, :])
    both = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1 if interleaved else -2)
    y = np.concatenate([both.reshape(turned.shape), heads[..., size:]], axis=-1)
    return y.swapaxes(1, 2).reshape(x.shape) if packed else y


def linear_attention_macs(node: Node, inputs: Types, __: Types) -> int:
    """Count products: each token's key and value meet in the state of their head, each query meets the state."""
    q, k, v = (known_type(inputs, number) for number in range(3))
    queries, heads = int(node.attributes["q_num_heads"]), int(node.attributes["kv_num_heads"])
    reads = heads if "delta" in str(node.attributes.get("update_rule", "gated_delta")) else 0
    return prod(q.shape[:2]) * (k.shape[2] // heads) * (v.shape[2] // heads) * (heads + reads + queries)


def linear_attention_type(
    q: TensorType,
    _: TensorType,
    v: TensorType,
    *__: TensorType | None,
    kv_num_heads: int,
    q_num_heads: int,
    **___: object,
) -> tuple[TensorType, TensorType]:
    for tensor in (q, v):
        must_have_axes(tensor, 3, 3)
    size, values = q.shape[2] // q_num_heads, v.shape[2] // kv_num_heads
    if q.shape[:2] != v.shape[:2]:
        raise ValueError(f"query {list(q.shape)} and value {list(v.shape)} must have the same batch and length")
    return (
        q.with_shape((*q.shape[:2], q_num_heads * values)),
        q.with_shape((q.shape[0], kv_num_heads, size, values)),
    )


@operator(since=27, types=linear_attention_type, facts=Facts(macs=linear_attention_macs))
def LinearAttention(
    q: Array,
    k: Array,
    v: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Array, Array]:
    """Update a state (size, value size) per head by each token, then read it.

    The inputs are (batch, length, heads * size).
    """
    if update_rule not in ("linear", "gated", "delta", "gated_delta") or chunk_size < 1:
        raise ValueError(f"update_rule must be linear, gated, delta or gated_delta, not {update_rule}")
    queries = _split_heads(q, q_num_heads).astype(np.float32)
    keys, values = (_split_heads(x, kv_num_heads).astype(np.float32) for x in (k, v))
    batch, _, length, size = keys.shape
    factor = np.float32(scale or 1 / np.sqrt(size))
    state = np.zeros((batch, kv_num_heads, size, values.shape[-1]), np.float32)
    state = state if past_state is None else past_state.astype(np.float32)
    gates = None if decay is None else np.exp(_split_heads(decay, kv_num_heads).astype(np.float32))
    rates = None if beta is None else _split_heads(beta, beta.shape[-1]).astype(np.float32)
    if ("gated" in update_rule and gates is None) or ("delta" in update_rule and rates is None):
        raise ValueError(f"update_rule {update_rule} must be given its decay and beta")
    y = np.empty((batch, q_num_heads, length, values.shape[-1]), np.float32)
    spend(4 * length * state.size, calls=8 * length)
    for t in range(length):
        key, value = keys[:, :, t], values[:, :, t]
        if "gated" in update_rule and gates is not None:
            state = state * gates[:, :, t, :, None]
        if "delta" in update_rule and rates is not None:
            value = (value - np.einsum("bhkv,bhk->bhv", state, key)) * rates[:, :, t]
        state = state + key[..., :, None] * value[..., None, :]
        shared = np.repeat(state, q_num_heads // kv_num_heads, axis=1)
        y[:, :, t] = factor * np.einsum("bhk,bhkv->bhv", queries[:, :, t], shared)
    packed = y.swapaxes(1, 2).reshape(batch, length, -1)
    return packed.astype(q.dtype), state.astype(q.dtype if past_state is None else past_state.dtype)


def causal_conv_macs(_: Node, inputs: Types, __: Types) -> int:
    """Count products: each channel meets its own kernel."""
    return known_type(inputs, 0).size * known_type(inputs, 1).shape[2]


def causal_conv_type(
    x: TensorType,
    w: TensorType,
    bias: TensorType | None = None,
    past_state: TensorType | None = None,
    **_: str,
) -> tuple[TensorType, TensorType]:
    for required in (x, w):
        must_have_axes(required, 3, 3)
    batch, channels, _length = x.shape
    taps = w.shape[2]
    for name, tensor, shape in (
        ("weight", w, (channels, 1, taps)),
        ("bias", bias, (channels,)),
        ("past_state", past_state, (batch, channels, taps - 1)),
    ):
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} must be of the shape {list(shape)}, not {list(tensor.shape)}")
    return like_first(x), x.with_shape((batch, channels, taps - 1))


@operator(since=27, types=causal_conv_type, facts=Facts(macs=causal_conv_macs))
def CausalConvWithState(
    x: Array, w: Array, bias: Array | None = None, past_state: Array | None = None, *, activation: str = "none"
) -> tuple[Array, Array]:
    """Convolve each channel of (batch, channels, length) with its kernel over the past; return the last inputs, too."""
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation must be none, silu or swish, not {activation}")
    taps = w.shape[2]
    past = np.zeros((*x.shape[:2], taps - 1), x.dtype) if past_state is None else past_state
    whole = np.concatenate([past, x], axis=2)
    y = sum(
        whole[:, :, tap : tap + x.shape[2]].astype(np.float32) * w[:, 0, tap].astype(np.float32)[:, None]
        for tap in range(taps)
    )
    y = y if bias is None else y + bias.astype(np.float32)[:, None]
    y = np.asarray(y).astype(x.dtype)
    return (y if activation == "none" else Swish(y)), whole[:, :, whole.shape[2] - (taps - 1) :]
