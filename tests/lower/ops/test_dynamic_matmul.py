"""MatMul of two quantized tensors: exact, from the file to the circuit."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.ops.matmul import MatMul
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.design_bench import Bench, assert_proven, random_stall
from support.qdq_models import Sketch
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


def test_a_stack_of_matrices_is_refused(tmp_path: Path) -> None:
    sketch = Sketch()
    a, b = (sketch.through_integers(name, 0.5, 0) for name in "ab")
    with pytest.raises(UserError, match=r"must be one matrix, not \[2, 6, 5\]"):
        imported(
            sketch, {"a": (2, 3, 6), "b": (2, 6, 5)}, quantized(sketch, sketch.node("MatMul", a, b), 1.0, 0), tmp_path
        )
