"""Functions of one tensor as tables: against onnxruntime, and in the circuit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import helper
from onnx_hw import flow
from onnx_hw.lower.lower_model import import_model
from onnx_hw.lower.ops import constant_arithmetic
from onnx_hw.lower.ops.lookup import MONOTONIC_OPERATORS
from onnx_hw.lower.values import function_table
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.add import Add
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.requantize import Requantize, Staircase
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, write
from support.qdq_models import Sketch

SHAPE = [1, 5, 3, 4]
Build = Callable[[Sketch, str], str]


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32).reshape(-1, 1, 1)


def hard_swish(s: Sketch, x: str) -> str:
    """As exporters take it apart."""
    three, zero, six = (s.constant(np.float32(n)) for n in (3, 0, 6))
    return s.node("Div", s.node("Mul", x, s.node("Clip", s.node("Add", x, three), zero, six)), six)


def batch_normalization(s: Sketch, x: str) -> str:
    numbers = [1, -2, 0.5, 3, 1], [0, 1, 2, 3, 4], [1, 0, 2, 0, 1], [1, 4, 2, 9, 0.1]
    return s.node("BatchNormalization", x, *(s.constant(np.array(n, dtype=np.float32)) for n in numbers))


FUNCTIONS: dict[str, tuple[Build, type]] = {
    "Sigmoid": (lambda s, x: s.node("Sigmoid", x), Staircase),
    "Tanh": (lambda s, x: s.node("Tanh", x), Staircase),
    "LeakyRelu": (lambda s, x: s.node("LeakyRelu", x, alpha=0.1), Staircase),
    "HardSigmoid": (lambda s, x: s.node("HardSigmoid", x, alpha=0.25), Staircase),
    "HardSwish": (lambda s, x: s.node("HardSwish", x), Lookup),
    "Selu": (lambda s, x: s.node("Selu", x), Staircase),
    "Elu": (lambda s, x: s.node("Elu", x, alpha=0.7), Staircase),
    "Softplus": (lambda s, x: s.node("Softplus", x), Staircase),
    "Abs": (lambda s, x: s.node("Abs", x), Lookup),
    "Neg": (lambda s, x: s.node("Neg", x), Lookup),
    "Sin": (lambda s, x: s.node("Sin", x), Lookup),
    "Erf": (lambda s, x: s.node("Erf", x), Staircase),
    "Exp": (lambda s, x: s.node("Exp", x), Staircase),
    "PRelu": (lambda s, x: s.node("PRelu", x, s.constant(column(0.1, -0.5, 0, 1, 0.25))), Lookup),
    "Pow": (lambda s, x: s.node("Pow", x, s.constant(np.float32(2))), Lookup),
    "Max": (lambda s, x: s.node("Max", x, s.constant(np.float32(0.3))), Staircase),
    "SiLU": (lambda s, x: s.node("Mul", x, s.node("Sigmoid", x)), Lookup),
    "HardSwish in parts": (hard_swish, Lookup),
    "square": (lambda s, x: s.node("Mul", x, x), Lookup),
    "negative factor": (lambda s, x: s.node("Mul", x, s.constant(column(1, -1, 0.5, 0, -2))), Lookup),
    "constant minus data": (lambda s, x: s.node("Sub", s.constant(np.float32(1)), x), Lookup),
    "behind Relu": (lambda s, x: s.node("Add", s.node("Relu", x), s.constant(np.float32(0.7))), Requantize),
    "Relu behind": (lambda s, x: s.node("Relu", s.node("Sin", x)), Lookup),
    "BatchNormalization": (batch_normalization, Lookup),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_of_integers(tmp_path: Path, name: str) -> None:
    build, operator = FUNCTIONS[name]
    sketch = Sketch()
    y = sketch.through_integers(build(sketch, sketch.through_integers("x", 0.0217, 9)), 0.0173, -11)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y), 0.0173)
    assert [type(node.operator) for node in network.nodes] == [operator]
    assert_circuit_agrees(network)


@pytest.mark.parametrize("name", ["Sigmoid", "LeakyRelu", "Tanh", "Max"])
def test_rising_functions_of_accumulators(tmp_path: Path, name: str) -> None:
    """They need no integers of their own in front."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0217, 9)
    weights = np.random.default_rng(0).integers(-127, 128, (5, 5, 1, 1)).astype(np.int8)
    sums = sketch.node("Conv", x, sketch.dequantized(weights, [0.001, 0.003, 0.01, 0.002, 0.004]))
    y = sketch.through_integers(FUNCTIONS[name][0](sketch, sums), 0.0173, -11)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y), 0.0173)
    assert not any(isinstance(node.operator, Lookup) for node in network.nodes)
    assert_circuit_agrees(network)


def test_functions_of_two_tensors_are_not_mixed(tmp_path: Path) -> None:
    """x + Sigmoid(x) is a table; x + (other integers of x) is a sum."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0217, 9)
    y = sketch.through_integers(sketch.node("Add", x, sketch.node("Sigmoid", x)), 0.0313, 2)
    other = sketch.through_integers(sketch.node("Sin", x), 0.01, 0)
    z = sketch.through_integers(sketch.node("Add", x, other), 0.0313, 2)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y, z), 0.0313)
    assert sum(isinstance(node.operator, Add) for node in network.nodes) == 1


def test_sixteen_bits_in_onnxruntimes_domain(tmp_path: Path) -> None:
    """What its quantizer writes for opsets whose QuantizeLinear has 8 bits only."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0003, 9, np.int16)
    y = sketch.through_integers(sketch.node("Add", x, sketch.constant(np.float32(0.3))), 0.0217, 9)
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y)
    model = onnx.load(path)
    for node in model.graph.node:
        if "Linear" in node.op_type:
            node.domain = "com.microsoft"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    network = assert_agrees(path, 0.0217)
    assert network.tensors[network.inputs[0].tensor].dtype.bits == 16


@pytest.mark.parametrize("factors", [(1, 2, 0.5, 3, 1), (1, -2, 0.5, 3, 1)])
def test_batch_normalization_of_integers(tmp_path: Path, factors: tuple[float, ...]) -> None:
    """Positive factors need no table."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0217, 9)
    rest = [np.array(v, dtype=np.float32) for v in ([0, 1, 2, 3, 4], [1, 0, 2, 0, 1], [1, 4, 2, 9, 0.1])]
    y = sketch.node("BatchNormalization", x, *map(sketch.constant, (np.array(factors, dtype=np.float32), *rest)))
    network = assert_agrees(
        write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.0313, 2)), 0.0313
    )
    (node,) = network.nodes
    assert isinstance(node.operator, Lookup) == (min(factors) < 0)
    assert_circuit_agrees(network)


@pytest.mark.parametrize("factors", [(1, -2, 0.5, 3, 1), (-1, 0, 0.5, -3, 0)])
@pytest.mark.parametrize("operator", ["BatchNormalization", "Mul"])
def test_signs_that_differ_take_no_table_of_too_many_channels(
    tmp_path: Path, factors: tuple[float, ...], operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """320 channels of 8 bits, as of the identity of a RepVGG, have 81,920 entries; here 5 of them are too many."""
    monkeypatch.setattr(constant_arithmetic, "LARGEST_TABLE", 5 * 256 - 1)
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0217, 9)
    rest = ([0, 1, 2, 3, 4], [1, 0, 2, 0, 1], [1, 4, 2, 9, 0.1]) if operator == "BatchNormalization" else ()
    numbers = [np.array(some, dtype=np.float32) for some in (factors, *rest)]
    shape = (5,) if rest else (5, 1, 1)
    y = sketch.node(operator, x, *(sketch.constant(array.reshape(shape)) for array in numbers))
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.0313, 2))
    network = assert_agrees(path, 0.0313)
    assert [type(node.operator) for node in network.nodes] == [Depthwise, Requantize]
    assert_circuit_agrees(network)


@pytest.mark.parametrize("name", sorted(MONOTONIC_OPERATORS - {"Sign", "Floor", "Ceil", "Round", "Log", "Sqrt"}))
def test_steps_found_by_halves_are_those_of_every_argument(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sums of five channels, a thousand times more than are looked at one by one; some are negative."""
    sketch = Sketch(opset=21)
    x = sketch.through_integers("x", 0.0217, 9)
    weights = np.random.default_rng(0).integers(-127, 128, (5, 5, 1, 1)).astype(np.int8)
    sums = sketch.node("Conv", x, sketch.dequantized(weights, [0.001, 0.003, 0.01, 0.002, 0.004]))
    y = sketch.through_integers(sketch.node(name, sums), 0.0173, -11)
    model = flow.read(write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y))
    tables = []
    for many in (1 << 10, 1 << 30):
        monkeypatch.setattr(function_table, "MAX_ENUMERATED_ARGUMENTS", many)
        tables.append(flow.quantize(model).nodes[-1].operator)
    by_halves, looked_at = tables
    assert isinstance(by_halves, Staircase) and isinstance(looked_at, Staircase)
    assert np.array_equal(by_halves.exact.thresholds, looked_at.exact.thresholds)
    assert (by_halves.exact.low, by_halves.exact.high) == (looked_at.exact.low, looked_at.exact.high)


@pytest.mark.parametrize("shares", [(0.1,), (0.0,), (1.0,), (0.25, 0.0, 0.031, 0.9, 1.0)])
@pytest.mark.parametrize("where", ["sums", "integers", "bounded sums"])
def test_leaks_of_sixteen_bits_take_no_table(tmp_path: Path, shares: tuple[float, ...], where: str) -> None:
    """The greater one of two lines, where there would be a step for each of 65,536 integers."""
    sketch, random = Sketch(opset=21), np.random.default_rng(0)
    y = sketch.through_integers("x", 0.0217, 9, np.int16)
    if where != "integers":
        weights = random.integers(-127, 128, (5, 5, 3, 3)).astype(np.int8)
        y = sketch.node("Conv", y, sketch.dequantized(weights, random.uniform(0.001, 0.01, 5)))
    more = [] if len(shares) == 1 else [sketch.constant(np.float32(shares).reshape(5, 1, 1))]
    y = sketch.node("PRelu", y, *more) if more else sketch.node("LeakyRelu", y, alpha=shares[0])
    if where == "bounded sums":
        y = sketch.node("Clip", y, sketch.constant(np.float32(-30)), sketch.constant(np.float32(90)))
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.00731, -40, np.int16))
    network = assert_agrees(path, 0.00731, rarely=0.02)
    assert not any(isinstance(node.operator, Staircase | Lookup) for node in network.nodes)
    if 0.1 in shares or len(shares) > 1:  # at 0 and 1, only constants are others
        assert_circuit_agrees(network)


def test_many_channels_of_wide_sums(tmp_path: Path) -> None:
    """64 channels with scales of their own: a Sigmoid has steps; of what falls too, there are too many arguments."""
    random = np.random.default_rng(5)
    for kind in ("Sigmoid", "Sin"):
        sketch = Sketch(opset=21)
        x = sketch.through_integers("x", 0.0217, 9)
        scales = random.uniform(0.001, 0.01, 64)
        weights = sketch.dequantized(random.integers(-127, 128, (64, 100)).astype(np.int8), scales)
        y = sketch.node(kind, sketch.node("Gemm", x, weights, transB=1))
        y = sketch.through_integers(y, 1 / 256, -128)
        if kind == "Sin":  # else it would be left to the host
            y = sketch.through_integers(
                sketch.node("MatMul", y, sketch.dequantized(np.ones((64, 3), np.int8), 1.0)), 1.0, 0
            )
        path = write(sketch, tmp_path / f"{kind}.onnx", {"x": (1, 100)}, y)
        tracemalloc.start()
        try:
            if kind == "Sigmoid":
                assert_agrees(path, 1 / 256, rarely=0.01)
                last = flow.quantize(flow.read(path)).nodes[-1].operator
                assert isinstance(last, Staircase), "the host does it"
            else:
                with pytest.raises(UserError, match="must have few arguments"):
                    import_model(flow.read(path))
            assert tracemalloc.get_traced_memory()[1] < 100 << 20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("kind", ["LeakyRelu", "PRelu"])
def test_a_leak_behind_a_wide_sum(tmp_path: Path, kind: str) -> None:
    """More sums can occur than a table is made for: 29 million, of each channel."""
    random, sketch = np.random.default_rng(5), Sketch(opset=21)
    weights = random.integers(100, 128, (3, 900)).astype(np.int8) * random.choice(np.array([-1, 1], np.int8), (3, 900))
    x = sketch.through_integers("x", 0.0217, 9)
    y = sketch.node("Gemm", x, sketch.dequantized(weights, np.float32(0.013)), transB=1)
    share = [sketch.constant(np.array([0.25, 0.0, 0.031], np.float32))] if kind == "PRelu" else []
    y = sketch.through_integers(sketch.node(kind, y, *share), 0.31, -40)
    path = write(sketch, tmp_path / "m.onnx", {"x": (1, 900)}, y)
    assert_agrees(path, 0.31, rarely=0.01)


@pytest.mark.parametrize("reduction", ["ReduceMean", "ReduceSum"])
def test_the_logarithm_of_0_saturates_a_sum(tmp_path: Path, reduction: str) -> None:
    """onnxruntime sums up −∞, too, and its quantizer saturates."""
    sketch = Sketch(13)
    first, second = (np.random.default_rng(k).integers(-99, 99, (6, 6), dtype=np.int8) for k in (1, 2))
    x = sketch.through_integers("x", 0.02, 3)
    energy = sketch.through_integers(sketch.node("MatMul", x, sketch.dequantized(first, 0.02)), 0.05, -128)
    axes = {"axes": [1]} if reduction == "ReduceMean" else {}
    more = [] if axes else [sketch.constant(np.array([1]))]
    total = sketch.node(reduction, sketch.node("Log", energy), *more, **axes)
    total = sketch.through_integers(total, 0.02, 3)
    output = sketch.through_integers(sketch.node("MatMul", total, sketch.dequantized(second, 0.01)), 0.05, 0)
    network = assert_agrees(sketch.write(tmp_path / "m.onnx", (1, 3, 6), output, 3), 0.05, frames=20)
    (log,) = (node.operator for node in network.nodes if isinstance(node.operator, Lookup))
    numbers = log.values[0]
    assert numbers[0] < 3 * numbers[1:].min() and np.isfinite(numbers).all()


def test_numbers_of_a_spline_before_the_first_product(tmp_path: Path) -> None:
    """The data of an input's quantizer is broadcast to a larger constant, as in the layer of a KAN."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0213, 3)
    knots = sketch.constant(np.linspace(-2, 2, 5, dtype=np.float32))
    apart = sketch.node("Sub", sketch.node("Unsqueeze", x, sketch.constant(np.array([2]))), knots)
    hats = sketch.node("Relu", sketch.node("Sub", sketch.constant(np.float32(1)), sketch.node("Abs", apart)))
    flat = sketch.through_integers(sketch.node("Flatten", hats), 0.0079, -128)
    weights = np.random.default_rng(1).integers(-99, 99, (20, 3), dtype=np.int8)
    output = sketch.through_integers(sketch.node("MatMul", flat, sketch.dequantized(weights, 0.01)), 0.05, 0)
    assert_circuit_agrees(assert_agrees(sketch.write(tmp_path / "m.onnx", (1, 4), output, 2), 0.05))
