"""Attention of float models: the accuracy after quantization, and the circuit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ops.matmul import MatMul
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime, write
from support.qdq_models import Sketch


def attention_block(
    path: Path, *, tokens: int, heads: int, groups: int, size: int, rotates: bool = False, **attributes: Any
) -> Path:
    """Projections to queries, keys and values, Attention of opset 23, and a projection."""
    s, random, width = Sketch(opset=23), np.random.default_rng(tokens), heads * size

    def linear(x: str, inputs: int, outputs: int) -> str:
        weights = random.normal(0, inputs**-0.5, (inputs, outputs)), random.normal(0, 0.3, outputs)
        product, bias = (s.constant(w.astype(np.float32)) for w in weights)
        return s.node("Add", s.node("MatMul", x, product), bias)

    q, k, v = (linear("x", width, count * size) for count in (heads, groups, groups))
    if rotates:
        angles = np.arange(tokens)[:, None] * 100.0 ** -np.linspace(0, 1, size // 2)
        waves = [s.constant(wave(angles)[None].astype(np.float32)) for wave in (np.cos, np.sin)]
        q, k = (s.node("RotaryEmbedding", x, *waves, num_heads=count) for x, count in ((q, heads), (k, groups)))
    y = s.node("Attention", q, k, v, q_num_heads=heads, kv_num_heads=groups, **attributes)
    return write(s, path, {"x": [1, tokens, width]}, linear(y, width, width))


@pytest.mark.parametrize(
    "form",
    [
        {"tokens": 12, "heads": 2, "groups": 2, "size": 8},
        {"tokens": 9, "heads": 4, "groups": 2, "size": 4, "is_causal": 1},
        {"tokens": 7, "heads": 3, "groups": 1, "size": 4, "softcap": 2.0, "scale": 0.7},
        {"tokens": 8, "heads": 2, "groups": 1, "size": 6, "is_causal": 1, "rotates": True},
    ],
)
def test_accuracy_at_the_defaults(form: dict[str, Any], tmp_path: Path) -> None:
    path = attention_block(tmp_path / "m.onnx", **form)
    frames = np.random.default_rng(0).normal(size=(48, 1, form["tokens"], form["heads"] * form["size"]))
    samples, others = ({"x": part.astype(np.float32)} for part in (frames[:32], frames[32:]))
    network = flow.quantize(flow.read(path), samples)
    products = [node.operator for node in network.nodes if isinstance(node.operator, MatMul) and len(node.inputs) == 2]
    assert [product.stack for product in products] == [form["groups"]] * 2
    (found,), (wanted,) = golden.run(network, others).values(), by_onnxruntime(path, others).values()
    assert 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum()) > 30


def test_the_circuit(tmp_path: Path) -> None:
    """Heads that share their keys, with a causal mask, under stalls."""
    path = attention_block(tmp_path / "m.onnx", tokens=4, heads=4, groups=2, size=2, is_causal=1)
    samples = {"x": np.random.default_rng(0).normal(size=(16, 1, 4, 8)).astype(np.float32)}
    assert_circuit_agrees(flow.quantize(flow.read(path), samples), multipliers=12)
