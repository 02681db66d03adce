"""Operators whose results depend on no data are folded: they are constants of the hardware."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

import onnx_hw
from onnx import TensorProto
from onnx_hw.onnx.operators import operators
from onnx_hw.onnx.operators.registry import facts_of_operator
from support.onnx_oracle import assert_circuit_agrees
from support.qdq_models import Sketch


def whole(s: Sketch, number: object) -> str:
    return s.constant(np.array(number, dtype=np.int64))


def mel(s: Sketch, x: str) -> str:
    bins = s.node("MelWeightMatrix", *(whole(s, n) for n in (3, 6, 16000)), s.constant(np.float32(100.0)),
                  s.constant(np.float32(7000.0)))  # fmt: skip
    return s.node("MatMul", x, bins)


def windowed(op_type: str) -> Callable[[Sketch, str], str]:
    return lambda s, x: s.node("Mul", x, s.node(op_type, whole(s, 4)))


def by_size(s: Sketch, x: str) -> str:
    return s.node("Div", x, s.node("Cast", s.node("Size", x), to=TensorProto.FLOAT))


MODELS: dict[str, Callable[[Sketch, str], str]] = {
    "Constant": lambda s, x: s.node("Add", x, s.node("Constant", value_floats=[0.5, -0.25, 0.0, 1.0])),
    "ConstantOfShape": lambda s, x: s.node("Add", x, s.node("ConstantOfShape", whole(s, [4, 4]))),
    "Shape": lambda s, x: s.node("Reshape", x, s.node("Shape", s.constant(np.zeros((2, 8), np.float32)))),
    "Size": by_size,
    "Range": lambda s, x: s.node("Mul", x, s.node("Range", *(s.constant(np.float32(n)) for n in (1, 3, 0.5)))),
    "EyeLike": lambda s, x: s.node("Add", x, s.node("EyeLike", s.constant(np.zeros((4, 4), np.float32)), k=1)),
    "HannWindow": windowed("HannWindow"),
    "HammingWindow": windowed("HammingWindow"),
    "BlackmanWindow": windowed("BlackmanWindow"),
    "MelWeightMatrix": mel,
}


@pytest.mark.parametrize("name", MODELS)
def test_becomes_a_constant(name: str) -> None:
    random, s = np.random.default_rng(6), Sketch(17)
    weights = s.constant(random.uniform(-1, 1, (4, 4)).astype(np.float32))
    y = s.node("Relu", MODELS[name](s, s.node("MatMul", "x", weights)))
    model = s.model((4, 4), TensorProto.FLOAT, y, 2, TensorProto.FLOAT)
    frames = random.uniform(-1, 1, (60, 4, 4)).astype(np.float32)
    quantized = onnx_hw.quantize(model, {"x": frames[:40]})
    parts = (quantized.network.head, quantized.network.tail)
    assert all(node.op_type != name for part in parts if part is not None for node in part.graph.nodes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = np.stack([session.run(None, {"x": frame})[0] for frame in frames[40:]])
    error = dict(quantized(frames[40:]))[y].reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) >= 30
    assert_circuit_agrees(quantized.network)


def test_each_of_them_has_a_model() -> None:
    assert {row.op_type for row in operators() if facts_of_operator(row.domain, row.op_type).of_no_data} == set(MODELS)
