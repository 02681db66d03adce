"""Attention, rotations and masks of a Softmax as compositions: against onnxruntime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import reference
from support.onnx_oracle import by_onnxruntime, random_frames, write
from support.qdq_models import Sketch
from support.random_cases import few

TOLERANCE = 1e-5


def composed(sketch: Sketch, shapes: dict[str, list[int]], output: str) -> Counter[str]:
    """The operators of a canonical model, whose reference must equal onnxruntime."""
    with TemporaryDirectory() as folder:
        path = write(sketch, Path(folder) / "m.onnx", shapes, output)
        model = flow.read(path)
        frames = random_frames(model, 2, 1.0)
        (wanted,) = by_onnxruntime(path, frames).values()
    canonical = canonicalize(model)
    for k, expected in enumerate(wanted):
        (found,) = reference.run(canonical, {name: array[k] for name, array in frames.items()}).values()
        assert found.shape == expected.shape
        assert np.allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE)
    return Counter(node.op_type for node in canonical.graph.nodes)


@st.composite
def attentions(draw: st.DrawFn) -> tuple[dict[str, list[int]], dict[str, Any], np.ndarray | None]:
    """Shapes of queries, keys and values, attributes, and a constant mask: numbers, or booleans, or None."""
    groups, shared = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    queries, keys, size, width = (draw(st.integers(1, 5)) for _ in range(4))
    heads = groups * shared
    shapes = {"q": [1, heads, queries, size], "k": [1, groups, keys, size], "v": [1, groups, keys, width]}
    attributes: dict[str, Any] = {"is_causal": draw(st.integers(0, 1))}
    if draw(st.booleans()):
        shapes = {name: [1, tokens, count * n] for name, (_, count, tokens, n) in shapes.items()}
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    attributes |= draw(st.sampled_from([{}, {"scale": 0.6}, {"softcap": 1.5}, {"scale": 2.0, "softcap": 0.5}]))
    of_mask = draw(st.sampled_from([(queries, keys), (1, 1, queries, keys), (1, heads, queries, keys)]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    numbers = random.normal(0, 1, of_mask).astype(np.float32)
    mask = draw(st.sampled_from([None, numbers, np.where(numbers > 1, -np.inf, numbers), numbers < 0.5]))
    return shapes, attributes, mask


@few
@given(attentions())
def test_any_attention(drawn: tuple[dict[str, list[int]], dict[str, Any], np.ndarray | None]) -> None:
    """A row that sees nothing is 0, as onnxruntime has it."""
    shapes, attributes, mask = drawn
    s = Sketch(opset=23)
    inputs = ["q", "k", "v", *([] if mask is None else [s.constant(mask)])]
    operators = composed(s, shapes, s.node("Attention", *inputs, **attributes))
    assert operators["MatMul"] == 2 and operators["Softmax"] + operators["MaskedSoftmax"] == 1
    assert "Attention" not in operators


def test_a_mask_of_data_is_added() -> None:
    s = Sketch(opset=23)
    shapes = {"q": [1, 2, 3, 4], "k": [1, 2, 5, 4], "v": [1, 2, 5, 4], "m": [1, 1, 3, 5]}
    assert composed(s, shapes, s.node("Attention", "q", "k", "v", "m"))["Add"] == 1


def test_keys_of_the_past_stand_before_the_others() -> None:
    """onnxruntime wants to give them back; the graph does not ask for them."""
    s = Sketch(opset=23)
    shapes = {"q": [1, 2, 3, 4], "k": [1, 2, 3, 4], "v": [1, 2, 3, 2], "a": [1, 2, 2, 4], "b": [1, 2, 2, 2]}
    y = s.node("Attention", "q", "k", "v", "", "a", "b", is_causal=1)
    s.nodes[-1].output.extend(["present_keys", "present_values"])
    with TemporaryDirectory() as folder:
        path = write(s, Path(folder) / "m.onnx", shapes, y)
        model = flow.read(path)
        frames = random_frames(model, 1, 1.0)
        (wanted,) = by_onnxruntime(path, frames).values()
    del s.nodes[-1].output[1:]
    with TemporaryDirectory() as folder:
        canonical = canonicalize(flow.read(write(s, Path(folder) / "m.onnx", shapes, y)))
    assert any(node.op_type == "MaskedSoftmax" for node in canonical.graph.nodes)
    (found,) = reference.run(canonical, {name: array[0] for name, array in frames.items()}).values()
    assert np.allclose(found, wanted[0], atol=TOLERANCE)


def between_products(s: Sketch, shape: list[int], function: Callable[[str], str]) -> str:
    """A function of the product of an input and a constant, before another product."""
    size = shape[-1]
    matrices = (s.constant(np.random.default_rng(k).normal(0, 0.5, (size, size)).astype(np.float32)) for k in range(2))
    return s.node("MatMul", function(s.node("MatMul", "x", next(matrices))), next(matrices))


CAUSAL = np.triu(np.ones((4, 4), dtype=bool), 1)
LEAST = float(np.finfo(np.float32).min)
MASKS: dict[str, tuple[int, Callable[[Sketch, str], str]]] = {
    "minus infinity": (1, lambda s, x: s.node("Add", x, s.constant(np.where(CAUSAL, -np.inf, 0).astype(np.float32)))),
    "on the left": (1, lambda s, x: s.node("Add", s.constant(np.where(CAUSAL, -1e9, 0.25).astype(np.float32)), x)),
    "subtracted": (1, lambda s, x: s.node("Sub", x, s.constant(np.where(CAUSAL, 1e9, 0).astype(np.float32)))),
    "a window": (1, lambda s, x: s.node("Add", x, s.constant(np.where(CAUSAL, -100, 0).astype(np.float32)))),
    "relative to its row": (
        1,
        lambda s, x: s.node("Add", x, s.constant((np.where(CAUSAL, -300, 0) - 500).astype(np.float32))),
    ),
    "chosen": (1, lambda s, x: s.node("Where", s.constant(CAUSAL), s.constant(np.float32(LEAST)), x)),
    "chosen otherwise": (1, lambda s, x: s.node("Where", s.constant(~CAUSAL), x, s.constant(np.float32(-np.inf)))),
    "a finite bias": (0, lambda s, x: s.node("Add", x, s.constant(np.where(CAUSAL, -50, 0).astype(np.float32)))),
    "chosen finite": (0, lambda s, x: s.node("Where", s.constant(CAUSAL), s.constant(np.float32(-50)), x)),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_a_softmax(name: str) -> None:
    count, form = MASKS[name]
    s = Sketch(opset=17)
    y = between_products(s, [1, 2, 4, 4], lambda x: s.node("Softmax", form(s, x), axis=-1))
    operators = composed(s, {"x": [1, 2, 4, 4]}, y)
    assert (operators["MaskedSoftmax"], operators["Softmax"]) == (count, 1 - count)


def test_a_safe_softmax_is_a_masked_one() -> None:
    """As torch writes it: 0 instead of NaN."""
    s = Sketch(opset=17)

    def safe(x: str) -> str:
        y = s.node("Softmax", MASKS["minus infinity"][1](s, x), axis=-1)
        return s.node("Where", s.node("IsNaN", y), s.constant(np.float32(0)), y)

    operators = composed(s, {"x": [1, 2, 4, 4]}, between_products(s, [1, 2, 4, 4], safe))
    assert operators - Counter(["Identity"]) == {"MatMul": 2, "MaskedSoftmax": 1}


def test_a_row_that_sees_nothing_is_no_masked_softmax(tmp_path: Path) -> None:
    s = Sketch(opset=17)
    mask = s.constant(np.full((4, 4), -np.inf, dtype=np.float32))
    y = between_products(s, [1, 4, 4], lambda x: s.node("Softmax", s.node("Add", x, mask), axis=-1))
    canonical = canonicalize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 4, 4]}, y)))
    assert not any(node.op_type == "MaskedSoftmax" for node in canonical.graph.nodes)


@pytest.mark.parametrize("shape", [[1, 3, 5, 8], [1, 5, 24]])
@pytest.mark.parametrize(
    "attributes", [{}, {"interleaved": 1}, {"rotary_embedding_dim": 4}, {"rotary_embedding_dim": 6, "interleaved": 1}]
)
@pytest.mark.parametrize("places", [None, [[0, 2, 4, 1, 6]]])
def test_rotations(shape: list[int], attributes: dict[str, int], places: list[list[int]] | None) -> None:
    s = Sketch(opset=23)
    half = attributes.get("rotary_embedding_dim", 8) // 2
    angles = np.random.default_rng(0).uniform(-3, 3, (7, half) if places else (1, 5, half)).astype(np.float32)
    inputs = ["x", s.constant(np.cos(angles)), s.constant(np.sin(angles))]
    inputs += [s.constant(np.array(places))] if places else []
    heads = {"num_heads": 3} if len(shape) == 3 or "rotary_embedding_dim" in attributes else {}
    operators = composed(s, {"x": shape}, s.node("RotaryEmbedding", *inputs, **attributes, **heads))
    assert "RotaryEmbedding" not in operators and operators["Mul"] == 2
