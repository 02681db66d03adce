"""MatMul of two quantized tensors: exact, from the file to the circuit."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.onnx.evaluate import reference
from onnx_hw.ops.matmul import MatMul
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.design_bench import Bench, assert_proven, random_stall
from support.qdq_models import Sketch
from support.random_cases import few
from support.targets import ecp5_at

Shape = tuple[int, ...]


def imported(sketch: Sketch, inputs: dict[str, Shape], output: str, folder: Path) -> Network:
    graph = helper.make_graph(
        sketch.nodes,
        "product",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.INT8, None)],
        sketch.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "m.onnx")
    return import_model(flow.read(folder / "m.onnx"))


def quantized(sketch: Sketch, value: str, step: float, zero: int) -> str:
    """The integers of a value."""
    constants = sketch.constant(np.float32(step)), sketch.constant(np.array(zero, dtype=np.int8))
    return sketch.node("QuantizeLinear", value, *constants)


SHAPES: list[tuple[Shape, Shape]] = [
    ((1, 5, 6), (6, 4)),
    ((3, 6), (6, 1)),
    ((1, 2, 3, 6), (1, 1, 6, 5)),
    ((1, 1), (1, 7)),
    ((1, 6), (1, 6, 3)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("zeros", [(0, 0), (-128, 3), (7, 0), (0, -1)])
def test_golden_is_the_real_number_rounded(left: Shape, right: Shape, zeros: tuple[int, int], tmp_path: Path) -> None:
    """``rhe(Σ s(x − z) · t(w − v) / r) + q``, saturated, in exact fractions; steps are powers of two, so ties occur."""
    sketch, steps = Sketch(), (2**-3, 2**-2)
    a, b = (sketch.through_integers(name, step, zero) for name, step, zero in zip("ab", steps, zeros, strict=True))
    network = imported(
        sketch, {"a": left, "b": right}, quantized(sketch, sketch.node("MatMul", a, b), 0.5, 5), tmp_path
    )
    (product,) = (node for node in network.nodes if isinstance(node.operator, MatMul))
    assert len(product.inputs) == 2
    random = np.random.default_rng(0)
    integers = [random.integers(-128, 128, (3, *shape)) for shape in (left, right)]
    numbers = [(x - z) for x, z in zip(integers, zeros, strict=True)]
    frames = {name: (x * s).astype(np.float32) for name, x, s in zip("ab", numbers, steps, strict=True)}
    (found,) = golden.run(network, frames).values()
    sums = np.stack([x @ y for x, y in zip(*numbers, strict=True)])
    wanted = [min(max(round(Fraction(int(total), 32) * 2) + 5, -128), 127) for total in sums.reshape(-1)]
    assert found.reshape(-1).tolist() == wanted


def test_a_product_between_integers(tmp_path: Path) -> None:
    """QLinearMatMul of two inputs of the graph, whose scales are constants."""
    sketch = Sketch()
    a, b = (quantized(sketch, name, 2**-3, zero) for name, zero in (("a", 3), ("b", -2)))
    scale, zeros = sketch.constant(np.float32(2**-3)), [sketch.constant(np.int8(zero)) for zero in (3, -2, 5)]
    half = sketch.constant(np.float32(0.5))
    result = sketch.node("QLinearMatMul", a, scale, zeros[0], b, scale, zeros[1], half, zeros[2])
    network = imported(sketch, {"a": (4, 6), "b": (6, 3)}, result, tmp_path)
    integers = [np.random.default_rng(0).integers(-128, 128, (3, *shape)) for shape in ((4, 6), (6, 3))]
    numbers = [x - z for x, z in zip(integers, (3, -2), strict=True)]
    (found,) = golden.run(network, {n: (x / 8).astype(np.float32) for n, x in zip("ab", numbers, strict=True)}).values()
    wanted = [round(Fraction(int(total), 32)) + 5 for total in (numbers[0] @ numbers[1]).reshape(-1)]
    assert found.reshape(-1).tolist() == np.clip(wanted, -128, 127).tolist()


def likeness(folder: Path, rows: int = 4, features: int = 3) -> Network:
    """Queries times keys: both made from the same words in hardware, with zero points."""
    sketch, random = Sketch(), np.random.default_rng(0)
    x = sketch.through_integers("x", 2**-3, -3)
    made = []
    for zero in (4, -9):
        weights = sketch.dequantized(random.integers(-9, 10, (features, features)).astype(np.int8), np.float32(2**-3))
        made.append(sketch.through_integers(sketch.node("MatMul", x, weights), 2**-1, zero))
    keys = sketch.node("Transpose", made[1], perm=[1, 0])
    return imported(
        sketch, {"x": (rows, features)}, quantized(sketch, sketch.node("MatMul", made[0], keys), 4.0, 0), folder
    )


def test_queries_times_keys_as_a_circuit(tmp_path: Path) -> None:
    """The transposed keys are the product's weights as they come: nothing is rearranged."""
    network = likeness(tmp_path)
    assert not any("Rearrange" in repr(node.operator) for node in network.nodes)
    design, _ = schedule_network(network, Budget(mac_lanes=9), target=ecp5_at(100))
    for seed in range(2):
        assert_proven(Bench(design).prove(random_stall(design, 3, seed), frames=3, seed=seed))


def test_golden_equals_the_reference(tmp_path: Path) -> None:
    """All steps are powers of two: float32 is exact."""
    network, model = likeness(tmp_path), flow.read(tmp_path / "m.onnx")
    frames = {"x": (np.random.default_rng(1).integers(-128, 128, (20, 4, 3)) / 8).astype(np.float32)}
    (found,) = golden.run(network, frames).values()
    wanted = np.stack([next(iter(reference.run(model, {"x": x}).values())) for x in frames["x"]])
    assert np.array_equal(found, wanted) and len(np.unique(found)) > 20


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """Shapes that ``numpy.matmul`` broadcasts: on either side an axis may be missing, or have one element."""
    rows, inputs, columns = (draw(st.integers(1, 4)) for _ in range(3))
    stack = draw(st.lists(st.integers(1, 3), max_size=3))
    sides = []
    for matrix in ((rows, inputs), (inputs, columns)):
        side = [draw(st.sampled_from([length, 1])) for length in stack]
        sides.append((*side[draw(st.integers(0, len(side))) :], *matrix))
    return sides[0], sides[1]


@few
@given(stacks(), st.booleans(), st.booleans())
def test_any_stacks(shapes: tuple[Shape, Shape], turn_left: bool, turn_right: bool) -> None:
    """Each operand as it comes or transposed; sums of products of exact integers with zero points."""
    sketch, given_shapes, names = Sketch(), {}, []
    for name, shape, turned, zero in zip("ab", shapes, (turn_left, turn_right), (-3, 9), strict=True):
        given_shapes[name] = (*shape[:-2], *shape[:-3:-1]) if turned else shape
        value = sketch.through_integers(name, 0.5, zero)
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        names.append(sketch.node("Transpose", value, perm=order) if turned else value)
    with TemporaryDirectory() as folder:
        network = imported(sketch, given_shapes, quantized(sketch, sketch.node("MatMul", *names), 1.0, 5), Path(folder))
    random = np.random.default_rng(sum(shapes[0]))
    numbers = {n: random.integers(-125, 110, (2, *shape)) for n, shape in given_shapes.items()}
    (found,) = golden.run(network, {n: (x / 2).astype(np.float32) for n, x in numbers.items()}).values()
    left, right = (
        numbers[name].swapaxes(-1, -2) if turned else numbers[name]
        for name, turned in (("a", turn_left), ("b", turn_right))
    )
    sums = np.stack([x @ y for x, y in zip(left, right, strict=True)])
    wanted = [min(max(round(Fraction(int(total), 4)) + 5, -128), 127) for total in sums.reshape(-1)]
    assert found.shape == sums.shape and found.reshape(-1).tolist() == wanted


@pytest.mark.parametrize(
    ("left", "right", "stack"),
    [
        ((2, 3, 4, 5), (2, 3, 5, 6), 6),
        ((2, 3, 4, 5), (2, 1, 5, 6), 2),
        ((2, 1, 4, 5), (2, 3, 5, 6), 2),
        ((4, 5), (3, 5, 6), 1),
        ((3, 4, 5), (5, 6), 1),
    ],
)
def test_nothing_is_multiplied_or_sent_twice(left: Shape, right: Shape, stack: int, tmp_path: Path) -> None:
    """An axis of one operand only makes a matrix wider or gives it more vectors: each operand comes once."""
    sketch = Sketch()
    a, b = (sketch.through_integers(name, 0.5, 0) for name in "ab")
    network = imported(
        sketch, {"a": left, "b": right}, quantized(sketch, sketch.node("MatMul", a, b), 1.0, 0), tmp_path
    )
    (product,) = (node for node in network.nodes if isinstance(node.operator, MatMul))
    assert product.operator.stack == stack
    assert product.operator.macs == np.matmul(np.zeros(left), np.zeros(right)).size * left[-1]
    assert [tensor.size for tensor in product.operator.operands()] == [np.prod(left), np.prod(right)]
    assert not any("Rearrange" in repr(node.operator) for node in network.nodes)


def heads(folder: Path, tokens: int, heads: int, size: int) -> Network:
    """Queries times keys of each head, times values: without a function between the two products."""
    sketch, random = Sketch(), np.random.default_rng(0)
    x = sketch.through_integers("x", 2**-3, -3)
    split = []
    for axes in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        weights = random.integers(-9, 10, (heads * size, heads * size)).astype(np.int8)
        product = sketch.node("MatMul", x, sketch.dequantized(weights, np.float32(2**-3)))
        shape = sketch.constant(np.array([1, tokens, heads, size]))
        split.append(sketch.node("Transpose", sketch.node("Reshape", product, shape), perm=axes))
    queries, keys, values = (sketch.through_integers(name, 2.0, 4) for name in split)
    scores = sketch.through_integers(sketch.node("MatMul", queries, keys), 16.0, 0)
    result = sketch.node("Transpose", sketch.node("MatMul", scores, values), perm=(0, 2, 1, 3))
    return imported(sketch, {"x": (1, tokens, heads * size)}, quantized(sketch, result, 64.0, 0), folder)


def test_heads_as_a_circuit(tmp_path: Path) -> None:
    """Two products of stacks, one behind the other, under stalls; with steps of powers of 2 golden is the reference."""
    network, model = heads(tmp_path, 4, 2, 3), flow.read(tmp_path / "m.onnx")
    frames = {"x": (np.random.default_rng(1).integers(-128, 128, (20, 1, 4, 6)) / 8).astype(np.float32)}
    (found,) = golden.run(network, frames).values()
    wanted = np.stack([next(iter(reference.run(model, {"x": x}).values())) for x in frames["x"]])
    assert np.array_equal(found, wanted) and len(np.unique(found)) > 20
    design, _ = schedule_network(network, Budget(mac_lanes=12), target=ecp5_at(100))
    assert_proven(Bench(design).prove(random_stall(design, 2, 1), frames=2, seed=1))
