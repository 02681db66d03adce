"""Reductions, moves, transforms and Einsum between products: each against onnxruntime, some as circuits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.onnx.canonicalize.compositions.composer import COMPOSITIONS
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 0.043


@dataclass(frozen=True)
class Form:
    """An operator between two products of numbers with a shape: the shape of its data, its nodes, its outputs."""

    shape: tuple[int, ...]
    nodes: Callable[[Sketch, str], str]
    size: int
    opset: int = 17
    step: float = 0.0213
    rarely: float = 0.002


def numbers(s: Sketch, *shape: int) -> str:
    return s.constant(np.random.default_rng(len(s.constants)).normal(0, 0.5, shape).astype(np.float32))


def whole(s: Sketch, array: object) -> str:
    return s.constant(np.array(array, dtype=np.int64))


def stored(s: Sketch, *shape: int) -> str:
    integers = np.random.default_rng(len(s.constants)).integers(-127, 128, shape).astype(np.int8)
    return s.dequantized(integers, 0.0077)


def einsum(equation: str, *shape: int) -> Callable[[Sketch, str], str]:
    return lambda s, x: s.node("Einsum", x, stored(s, *shape), equation=equation)


FORMS = {
    "ReduceL1": Form((1, 2, 3), lambda s, x: s.node("ReduceL1", x, axes=[2]), 2),
    "ReduceSumSquare": Form((1, 2, 3), lambda s, x: s.node("ReduceSumSquare", x, axes=[2], keepdims=0), 2, step=0.11),
    "ReduceL2": Form((1, 2, 3), lambda s, x: s.node("ReduceL2", x, whole(s, [2])), 2, opset=18),
    "ReduceLogSum": Form(
        (1, 2, 3), lambda s, x: s.node("ReduceLogSum", s.node("Sigmoid", x), axes=[1]), 3, rarely=0.02
    ),
    "ReduceLogSumExp": Form((1, 2, 3), lambda s, x: s.node("ReduceLogSumExp", x, axes=[1]), 3, rarely=0.02),
    "GlobalLpPool": Form((1, 2, 2, 2), lambda s, x: s.node("GlobalLpPool", x, p=2), 2),
    "LpPool": Form((1, 2, 2, 3), lambda s, x: s.node("LpPool", x, kernel_shape=[2, 2], p=1), 4, step=0.031),
    "LpPool of order 3": Form((1, 2, 2, 3), lambda s, x: s.node("LpPool", x, kernel_shape=[2, 2], p=3), 4, rarely=0.02),
    "Sum": Form((1, 6), lambda s, x: s.node("Sum", x, s.node("Mul", x, numbers(s)), numbers(s, 6)), 6),
    "Mean": Form((1, 6), lambda s, x: s.node("Mean", x, s.node("Abs", x), numbers(s, 6)), 6),
    "Max": Form((1, 6), lambda s, x: s.node("Max", x, numbers(s), s.through_integers(s.node("Abs", x), 0.031, 0)), 6),
    "CastLike": Form((1, 6), lambda s, x: s.node("CastLike", x, numbers(s)), 6),
    "GatherND": Form((1, 2, 3), lambda s, x: s.node("GatherND", x, whole(s, [[0, 1], [0, 0], [0, 1]])), 9),
    "GatherElements": Form((1, 2, 3), lambda s, x: s.node("GatherElements", x, whole(s, [[[1, 0, 1]]]), axis=1), 3),
    "ReverseSequence": Form(
        (1, 2, 3), lambda s, x: s.node("ReverseSequence", x, whole(s, [2]), batch_axis=0, time_axis=1), 6
    ),
    "Trilu": Form((1, 2, 3), lambda s, x: s.node("Trilu", x, upper=0), 6),
    "ScatterND": Form((1, 2, 3), lambda s, x: s.node("ScatterND", numbers(s, 4, 3), whole(s, [[[2], [0]]]), x), 12),
    "ScatterElements": Form(
        (1, 4), lambda s, x: s.node("ScatterElements", x, whole(s, [[3, 1]]), numbers(s, 1, 2), axis=1), 4
    ),
    "Col2Im": Form(
        (1, 4, 4), lambda s, x: s.node("Col2Im", x, whole(s, [3, 3]), whole(s, [2, 2])), 9, opset=18, step=0.031
    ),
    "OneHot": Form(
        (1, 2, 3),
        lambda s, x: s.node("OneHot", s.node("ArgMax", x, axis=2, keepdims=0), whole(s, 3), numbers(s, 2), axis=1),
        6,
    ),
    "Hardmax": Form((1, 2, 3), lambda s, x: s.node("Hardmax", x, axis=2), 6),
    "CumSum": Form((1, 2, 3), lambda s, x: s.node("CumSum", x, whole(s, 1), exclusive=1, reverse=1), 6),
    "DFT": Form((1, 4, 1), lambda s, x: s.node("DFT", x, axis=1, onesided=1), 6, rarely=0.02),
    "inverse DFT": Form((1, 3, 2), lambda s, x: s.node("DFT", x, axis=1, inverse=1), 6, rarely=0.02),
    "STFT": Form(
        (1, 8, 1), lambda s, x: s.node("STFT", x, whole(s, 2), numbers(s, 4), whole(s, 4), onesided=1), 18, rarely=0.03
    ),
    "Einsum, matrix": Form((1, 2, 3), einsum("bij,jk->bki", 3, 2), 4),
    "Einsum, left": Form((1, 2, 3), lambda s, x: s.node("Einsum", stored(s, 4, 2), x, equation="oi,bij->boj"), 12),
    "Einsum, stack": Form((1, 2, 3), einsum("...ij,ij->...i", 2, 3), 2),
    "Einsum, sums": Form((1, 2, 3), lambda s, x: s.node("Einsum", x, equation="bij->j"), 3),
    "Einsum, outer": Form((1, 2, 3), einsum("bij,k->bkij", 2), 12),
}

STEPS_OF_WEIGHTS = {"CumSum", "DFT", "inverse DFT", "STFT"}
"""Forms whose constants a build has to quantize: they need samples, and the last step differs more often."""


def between_products(s: Sketch, form: Form) -> str:
    """A product, the operator, and a product that needs its result on integers."""
    count = int(np.prod(form.shape))
    x = s.through_integers(s.node("MatMul", s.through_integers("x", 0.03125, -5), stored(s, 3, count)), 0.0271, 3)
    y = s.through_integers(form.nodes(s, s.node("Reshape", x, whole(s, form.shape))), form.step, 2)
    return s.through_integers(
        s.node("MatMul", s.node("Reshape", y, whole(s, [1, form.size])), stored(s, form.size, 2)), STEP, 1
    )


@pytest.mark.parametrize("name", FORMS)
def test_golden_is_onnxruntime(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    s = Sketch(opset=form.opset)
    path = write(s, tmp_path / "m.onnx", {"x": [1, 3]}, between_products(s, form))
    if name in STEPS_OF_WEIGHTS:
        model = flow.read(path)
        frames = random_frames(model, 32)
        (wanted,) = by_onnxruntime(path, frames).values()
        (found,) = golden.run(flow.quantize(model, frames), frames).values()
        assert ((found - wanted) ** 2).sum() < 1e-3 * (wanted**2).sum()
        return
    network = assert_agrees(path, STEP, rarely=form.rarely, frames=30)
    assert network.head is None or name.split(",")[0] not in {node.op_type for node in network.head.graph.nodes}
    if name in ("Hardmax", "Einsum, stack"):
        assert_circuit_agrees(network)


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("name", sorted(FORMS))
def test_the_circuits(name: str, tmp_path: Path) -> None:
    s = Sketch(opset=FORMS[name].opset)
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 3]}, between_products(s, FORMS[name])))
    assert_circuit_agrees(flow.quantize(model, random_frames(model, 8)))


def test_every_composition_has_a_form() -> None:
    names = {node for form in FORMS for node in (form, form.split()[-1], form.split(",")[0])}
    elsewhere = {"MatMul", "Gemm", "Concat", "Min", "PRelu", "Scatter", "Cast", "Where", "Resize"}
    elsewhere |= {"Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal", "And", "Or", "Xor", "Not"}
    elsewhere |= {"RNN", "GRU", "LSTM"}  # test_recurrent
    elsewhere |= {"Attention", "RotaryEmbedding", "IsNaN", "Softmax"}  # test_attention
    elsewhere |= {
        "Conv",
        "MaxPool",
        "AveragePool",
        "GlobalMaxPool",
        "GlobalAveragePool",
        "ConvTranspose",
    }  # test_volumes
    elsewhere |= {"Add", "Sub", "Mul", "Div", "Pow"}  # lower.ops.test_normalizations
    elsewhere |= {"LogSoftmax", "Log", "LRN", "ReduceProd", "CumProd", "TopK", "SwiGLU"}  # test_along_axes
    elsewhere |= {"CausalConvWithState", "Compress", "IsInf", "GridSample"}
    assert set(COMPOSITIONS) <= names | elsewhere


def test_slopes_of_a_prelu_are_data(tmp_path: Path) -> None:
    s, rng = Sketch(), np.random.default_rng(0)
    layers = [s.constant(rng.normal(0, 0.5, n).astype(np.float32)) for n in ((4, 5), (4, 5), (5, 3))]
    x, slopes = (s.node("MatMul", "x", layer) for layer in layers[:2])
    y = s.node("MatMul", s.node("PRelu", x, s.node("Sigmoid", slopes)), layers[2])
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 4]}, y))
    frames = random_frames(model, 32)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    error = golden.run(flow.quantize(model, frames), frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30
