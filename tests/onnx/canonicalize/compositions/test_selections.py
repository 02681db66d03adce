"""Where, comparisons and boolean operators between products: against onnxruntime, and the circuit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.multiply import Multiply
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 0.037


def product(s: Sketch, x: str, inputs: int, outputs: int) -> str:
    integers = np.random.default_rng(len(s.constants)).integers(-127, 128, (inputs, outputs)).astype(np.int8)
    return s.node("MatMul", x, s.dequantized(integers, 0.0077))


def number(s: Sketch, *numbers: float) -> str:
    array = np.array(numbers, np.float32)
    return s.constant(array if len(numbers) > 1 else array.reshape(()))


def as_float(s: Sketch, condition: str) -> str:
    return s.node("Cast", condition, to=TensorProto.FLOAT)


FORMS: dict[str, Callable[[Sketch, str, str, str], str]] = {
    "function of one": lambda s, a, b, c: s.node(
        "Where", s.node("Less", a, number(s, 0.25)), s.node("Mul", a, number(s, 0.11)), a
    ),
    "third chooses": lambda s, a, b, c: s.node("Where", s.node("GreaterOrEqual", c, number(s, 0.25)), a, b),
    "greater of two": lambda s, a, b, c: s.node("Where", s.node("Greater", a, b), a, c),
    "constant or data": lambda s, a, b, c: s.node("Where", s.node("LessOrEqual", a, b), number(s, 0.7, 0, -1), c),
    "data or constant": lambda s, a, b, c: s.node("Where", s.node("Less", a, b), c, number(s, 0.7)),
    "equal": lambda s, a, b, c: as_float(s, s.node("Equal", a, b)),
    "and": lambda s, a, b, c: as_float(
        s, s.node("And", s.node("Greater", a, b), s.node("Not", s.node("Greater", a, number(s, 0.5))))
    ),
    "or": lambda s, a, b, c: as_float(s, s.node("Or", *(s.node("Less", v, number(s, -0.25)) for v in (a, a)))),
    "xor": lambda s, a, b, c: as_float(s, s.node("Xor", *(s.node("Less", a, number(s, n)) for n in (-0.25, 0.5)))),
    "mask": lambda s, a, b, c: s.node("Where", s.constant(np.array([[True, False, True], [False, False, True]])), a, b),
    "mask and constant": lambda s, a, b, c: s.node(
        "Where", s.constant(np.array([[True], [False]])), number(s, 1, 2, 3), b
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_golden_is_onnxruntime(name: str, tmp_path: Path) -> None:
    """Steps are powers of two and integers few: numbers are often equal, and floats exact."""
    s = Sketch()
    parts = [s.through_integers(product(s, s.through_integers(v, 0.25, 1), 2, 3), 0.25, k) for k, v in enumerate("xzw")]
    y = s.through_integers(FORMS[name](s, *parts), 0.0625, -3)
    y = s.through_integers(product(s, y, 3, 2), STEP, 1)
    path = write(s, tmp_path / "m.onnx", {v: [1, 2, 2] for v in "xzw"}, y)
    network = assert_agrees(path, STEP, frames=12)
    assert any(isinstance(node.operator, Multiply) for node in network.nodes) == (name in CHOICES)
    if name == "greater of two":
        assert_circuit_agrees(network)


CHOICES = {"third chooses", "greater of two", "constant or data", "data or constant", "and"}
"""Forms of several tensors; the others are functions of one, or moves."""


def test_a_threshold_of_floats(tmp_path: Path) -> None:
    s, rng = Sketch(), np.random.default_rng(0)
    a, b, c = (s.node("MatMul", "x", s.constant(rng.normal(0, 0.5, (4, 5)).astype(np.float32))) for _ in range(3))
    gated = s.node("Where", s.node("Greater", a, number(s, 0.0)), b, s.node("Mul", c, number(s, 0.5)))
    y = s.node("MatMul", gated, s.constant(rng.normal(0, 0.5, (5, 3)).astype(np.float32)))
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 4]}, y))
    frames = random_frames(model, 64)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    error = golden.run(flow.quantize(model, frames), frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 25


def test_a_comparison_behind_the_last_product_stays_on_the_host(tmp_path: Path) -> None:
    s = Sketch()
    x = s.through_integers(product(s, s.through_integers("x", 0.25, 1), 2, 3), 0.25, 0)
    y = s.node("Where", s.node("Greater", x, number(s, 0.5)), x, number(s, 0.0))
    network = flow.quantize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 2, 2]}, y)))
    assert network.tail is not None and {"Greater", "Where"} <= {node.op_type for node in network.tail.graph.nodes}


def test_without_products_a_comparison_is_a_table(tmp_path: Path) -> None:
    s = Sketch()
    x = s.through_integers("x", 0.25, 1)
    y = s.node("Where", s.node("Greater", x, number(s, 0.5)), s.node("Neg", x), number(s, 0.5))
    path = write(s, tmp_path / "m.onnx", {"x": [1, 2, 2]}, s.through_integers(y, 0.25, 0))
    assert [type(node.operator) for node in assert_agrees(path, 0.25).nodes] == [Lookup]


def test_an_infinite_constant_is_refused(tmp_path: Path) -> None:
    s = Sketch()
    x = s.through_integers(product(s, s.through_integers("x", 0.25, 1), 2, 3), 0.25, 0)
    y = s.node("Where", s.constant(np.eye(2, 3, dtype=bool)), x, number(s, -np.inf))
    y = product(s, s.through_integers(y, 0.25, 0), 3, 2)
    path = write(s, tmp_path / "m.onnx", {"x": [1, 2, 2]}, s.through_integers(y, 0.25, 0))
    with pytest.raises(UserError, match="Where"):
        flow.quantize(flow.read(path))
