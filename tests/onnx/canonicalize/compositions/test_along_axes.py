"""Operators along axes and interpolations between products of float models, against numpy's formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import onnx_hw
from onnx import TensorProto
from support.onnx_oracle import assert_circuit_agrees
from support.qdq_models import Sketch

Array = np.ndarray


@dataclass(frozen=True)
class Form:
    """An operator on data of a shape: the operators that it must not leave to the host, and its formula."""

    shape: tuple[int, ...]
    nodes: Callable[[Sketch, str], str]
    formula: Callable[[Array], Array]
    opset: int = 21
    least_db: float = 30


def whole(s: Sketch, array: object) -> str:
    return s.constant(np.array(array, dtype=np.int64))


def log_softmax(x: Array, axis: int = -1) -> Array:
    less = x - x.max(axis=axis, keepdims=True)
    return less - np.log(np.exp(less).sum(axis=axis, keepdims=True))


def lrn(x: Array) -> Array:
    sums = [(x[:, max(0, c - 1) : c + 2] ** 2).sum(axis=1) for c in range(x.shape[1])]
    return x / (1.5 + 0.6 / 3 * np.stack(sums, axis=1)) ** 0.75


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


GRID = np.random.default_rng(3).uniform(-1.1, 1.1, (1, 3, 4, 2)).astype(np.float32)
TURNED = np.stack(np.meshgrid([0.75, 0.25, -0.25, -0.75], [-0.5, 0.5, 3.0]), axis=-1)[None].astype(np.float32)


def bilinear(x: Array) -> Array:
    """By the definition, place by place; outside of the image there are zeros."""
    result = np.zeros((*x.shape[:2], *GRID.shape[1:3]))
    for place in np.ndindex(GRID.shape[1:3]):
        column, row = ((GRID[(0, *place)].astype(np.float64) + 1) * np.array(x.shape[:1:-1]) - 1) / 2
        for i in range(x.shape[2]):
            for j in range(x.shape[3]):
                weight = max(0, 1 - abs(row - i)) * max(0, 1 - abs(column - j))
                result[(..., *place)] += weight * x[:, :, i, j]
    return result


def cubic(x: Array) -> Array:
    """Twice as large, with a = −3/4, edges repeated."""

    def along(x: Array) -> Array:  # the last axis
        size, made = x.shape[-1], []
        for k in range(2 * size):
            at = (k + 0.5) / 2 - 0.5
            near = np.floor(at).astype(int) + np.arange(-1, 3)
            d = np.abs(at - near)
            a = -0.75
            inner = ((a + 2) * d - (a + 3)) * d * d + 1
            outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
            made.append(x[..., np.clip(near, 0, size - 1)] @ np.where(d <= 1, inner, outer))
        return np.stack(made, axis=-1)

    return along(along(x).swapaxes(2, 3)).swapaxes(2, 3)


FORMS = {
    "LogSoftmax": Form((1, 2, 3), lambda s, x: s.node("LogSoftmax", x), log_softmax),
    "LogSoftmax of all axes": Form(
        (1, 2, 3), lambda s, x: s.node("LogSoftmax", x), lambda x: log_softmax(x.reshape(1, 6)).reshape(x.shape), 11
    ),
    "Log of Softmax": Form(
        (1, 2, 3), lambda s, x: s.node("Log", s.node("Softmax", x, axis=1)), lambda x: log_softmax(x, 1)
    ),
    "LRN": Form((1, 5, 2, 2), lambda s, x: s.node("LRN", x, size=3, alpha=0.6, beta=0.75, bias=1.5), lrn),
    "ReduceProd": Form(
        (1, 5, 2), lambda s, x: s.node("ReduceProd", s.node("Sigmoid", x), whole(s, [1])), lambda x: sigmoid(x).prod(1)
    ),
    "CumProd": Form(
        (1, 3, 2), lambda s, x: s.node("CumProd", x, whole(s, 1)), lambda x: np.cumprod(x, 1), 26, least_db=25
    ),
    "TopK": Form((1, 3, 4), lambda s, x: s.node("TopK", x, whole(s, [1])), lambda x: x.max(-1)),
    "SwiGLU": Form(
        (1, 6), lambda s, x: s.node("SwiGLU", x, s.node("Abs", x), alpha=1.5),
        lambda x: x * sigmoid(1.5 * x) * abs(x), 28,
    ),
    "Compress": Form(
        (1, 2, 3), lambda s, x: s.node("Compress", x, s.constant(np.array([True, False, True])), axis=2),
        lambda x: x[..., [0, 2]],
    ),
    "IsInf": Form((1, 6), lambda s, x: s.node("Where", s.node("IsInf", x), s.node("Abs", x), x), lambda x: x),
    "GridSample": Form((1, 2, 2, 3), lambda s, x: s.node("GridSample", x, s.constant(GRID)), bilinear),
    "GridSample that moves": Form(
        (1, 2, 2, 4), lambda s, x: s.node("GridSample", x, s.constant(TURNED), mode="nearest"),
        lambda x: np.concatenate([x[..., ::-1], 0 * x[:, :, :1]], axis=2),
    ),
    "cubic Resize": Form(
        (1, 2, 2, 3),
        lambda s, x: s.node("Resize", x, "", s.constant(np.float32([1, 1, 2, 2])), mode="cubic", cubic_coeff_a=-0.75),
        cubic,
    ),
    "antialiased Resize": Form(
        (1, 2, 4),
        lambda s, x: s.node("Resize", x, "", s.constant(np.float32([1, 1, 0.5])), mode="linear", antialias=1),
        lambda x: x @ (np.array([[4, 0], [3, 1], [1, 3], [0, 4]]) / 8),
    ),
}  # fmt: skip

CIRCUITS = ("LogSoftmax", "LRN", "ReduceProd", "GridSample")


@pytest.mark.parametrize("name", FORMS)
def test_keeps_its_accuracy_in_hardware(name: str) -> None:
    form, random = FORMS[name], np.random.default_rng(7)
    s, size = Sketch(form.opset), int(np.prod(form.shape))
    first = random.uniform(-0.9, 0.9, (4, size)).astype(np.float32)
    made = form.formula(random.uniform(-1, 1, form.shape))
    second = random.uniform(-1, 1, (made.size, 3)).astype(np.float32)
    y = form.nodes(s, s.node("Reshape", s.node("MatMul", "x", s.constant(first)), whole(s, form.shape)))
    operators = {node.op_type for node in s.nodes}
    output = s.node("MatMul", s.node("Reshape", y, whole(s, [1, made.size])), s.constant(second))
    if name == "TopK":
        for node in s.nodes:
            node.output.extend(["places"] if node.op_type == "TopK" else [])
    model = s.model((1, 4), TensorProto.FLOAT, output, 2, TensorProto.FLOAT)
    frames = random.uniform(-1, 1, (160, 1, 4)).astype(np.float32)
    quantized = onnx_hw.quantize(model, {"x": frames[:120]})
    parts = (quantized.network.head, quantized.network.tail)
    on_host = {node.op_type for part in parts if part is not None for node in part.graph.nodes}
    assert not operators - {"MatMul", "Reshape"} & on_host
    wanted = np.stack([form.formula((x @ first).reshape(form.shape)).reshape(1, -1) @ second for x in frames[120:]])
    error = dict(quantized(frames[120:]))[output].reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) >= form.least_db
    if name in CIRCUITS:
        assert_circuit_agrees(quantized.network)


def test_a_causal_convolution() -> None:
    random, s = np.random.default_rng(2), Sketch(27)
    weights = random.uniform(-0.5, 0.5, (3, 1, 3)).astype(np.float32)
    bias = np.array([0.1, -0.2, 0.3], dtype=np.float32)
    y = s.node("CausalConvWithState", "x", s.constant(weights), s.constant(bias), activation="silu")
    s.nodes[-1].output.append("present")
    model = s.model((1, 3, 6), TensorProto.FLOAT, y, 3, TensorProto.FLOAT)
    frames = random.uniform(-1, 1, (80, 1, 3, 6)).astype(np.float32)
    quantized = onnx_hw.quantize(model, {"x": frames[:60]})
    assert quantized.network.nodes
    whole_signal = np.concatenate([np.zeros((20, 3, 2)), frames[60:, 0]], axis=2)
    sums = sum(whole_signal[:, :, k : k + 6] * weights[:, 0, k][:, None] for k in range(3)) + bias[:, None]
    wanted = sums * sigmoid(sums)
    error = dict(quantized(frames[60:]))[y].reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) >= 30
