"""Cosine similarity in the ways in which it is spelled out: against onnxruntime, in floats and in integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import reference
from onnx_hw.samples.samples import one_frame
from support.onnx_oracle import by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

ROWS, CHANNELS = 5, 8


def summed(s: Sketch, x: str, y: str, axis: int, keepdims: int) -> str:
    product = s.node("Mul", x, y)
    return s.node("ReduceSum", product, s.constant(np.array([axis])), keepdims=keepdims)


def root_of_product(s: Sketch, a: str, b: str, axis: int, keepdims: int) -> str:
    """TorchScript's way."""
    product = s.node("Mul", *(summed(s, x, x, axis, keepdims) for x in (a, b)))
    return s.node("Max", s.node("Sqrt", product), s.constant(np.float32(1e-8)))


def product_of_roots(s: Sketch, a: str, b: str, axis: int, keepdims: int) -> str:
    return s.node("Mul", *(s.node("Sqrt", summed(s, x, x, axis, keepdims)) for x in (b, a)))


def product_of_norms(s: Sketch, a: str, b: str, axis: int, keepdims: int) -> str:
    norms = (s.node("ReduceL2", x, axes=[axis], keepdims=keepdims) for x in (a, b))
    return s.node("Mul", *(s.node("Max", s.constant(np.float32(1e-6)), norm) for norm in norms))


def one_norm(s: Sketch, a: str, b: str, axis: int, keepdims: int) -> str:
    return s.node("Mul", *(s.node("Sqrt", summed(s, x, x, axis, keepdims)) for x in (a, a)))


def bounded(s: Sketch, a: str, b: str, axis: int, keepdims: int) -> str:
    """A bound that changes results."""
    product = s.node("Mul", *(summed(s, x, x, axis, keepdims) for x in (a, b)))
    return s.node("Max", s.node("Sqrt", product), s.constant(np.float32(2)))


def similarity(path: Path, denominator: object, keepdims: int = 0) -> Path:
    """Write a model that compares rows after two products."""
    assert callable(denominator)
    s, random = Sketch(), np.random.default_rng(3)
    a, b = (
        s.node("MatMul", x, s.constant(random.normal(0, 0.4, (6, CHANNELS)).astype(np.float32))) for x in ("x", "y")
    )
    quotient = s.node("Div", summed(s, a, b, -1, keepdims), denominator(s, a, b, -1, keepdims))
    return write(s, path, {"x": [1, ROWS, 6], "y": [1, ROWS, 6]}, quotient)


SPELLINGS = [root_of_product, product_of_roots, product_of_norms]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_cosine_is_a_product_of_normalized_data(tmp_path: Path, spelling: object, keepdims: int) -> None:
    path = similarity(tmp_path / "m.onnx", spelling, keepdims)
    canonical = canonicalize(flow.read(path).frame.model)
    assert sum(node.op_type == "LpNormalization" for node in canonical.graph.nodes) == 2
    frames = random_frames(flow.read(path), 3)
    for name, wanted in by_onnxruntime(path, frames).items():
        computed = np.stack([reference.run(canonical, one_frame(frames, k))[name] for k in range(3)])
        np.testing.assert_allclose(computed, wanted, atol=2e-6)


@pytest.mark.parametrize("other", [one_norm, bounded])
def test_other_quotients_stay(tmp_path: Path, other: object) -> None:
    canonical = canonicalize(flow.read(similarity(tmp_path / "m.onnx", other)).frame.model)
    assert not any(node.op_type == "LpNormalization" for node in canonical.graph.nodes)


def test_data_of_zeros_have_the_similarity_0(tmp_path: Path) -> None:
    path = similarity(tmp_path / "m.onnx", root_of_product)
    frames = {name: np.zeros_like(array) for name, array in random_frames(flow.read(path), 1).items()}
    canonical = canonicalize(flow.read(path).frame.model)
    (wanted,) = by_onnxruntime(path, frames).values()
    (computed,) = reference.run(canonical, one_frame(frames, 0)).values()
    assert not wanted.any() and not computed.any()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_cosine_keeps_its_accuracy(tmp_path: Path, spelling: object) -> None:
    """The quotient of sums kept 16 dB."""
    path = similarity(tmp_path / "m.onnx", spelling)
    model = flow.read(path)
    network, frames = flow.quantize(model, random_frames(model, 32)), random_frames(model, 8)
    (computed,), (wanted,) = golden.run(network, frames).values(), by_onnxruntime(path, frames).values()
    assert 10 * np.log10((wanted**2).sum() / ((computed - wanted) ** 2).sum()) >= 35
