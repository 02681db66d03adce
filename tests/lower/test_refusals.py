"""What cannot be built is refused: everything at once, each with its place, its reason and a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.commands.check import check_hardware
from onnx_hw.ir import golden
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.options import BuildOptions, ReadOptions
from support.qdq_models import Sketch

WEIGHTS = np.ones((4, 4, 3, 3), dtype=np.int8)


def problems(path: Path) -> list[tuple[str, str]]:
    """(code, operator that is blamed) of everything that stands in the way."""
    with pytest.raises(UserError) as caught:
        import_model(flow.read(path))
    assert all(problem.stage == "capability" for problem in caught.value.problems)
    assert str(caught.value)
    return [(problem.code, problem.where.split("(")[1].split(" ")[0]) for problem in caught.value.problems]


def conv(sketch: Sketch, x: str, weights: np.ndarray = WEIGHTS, **attributes: object) -> str:
    w = sketch.dequantized(weights, np.float32(0.01))
    return sketch.node("Conv", x, w, **{"pads": [1, 1, 1, 1], **attributes})


def layer(sketch: Sketch, x: str, **attributes: object) -> str:
    return sketch.through_integers(conv(sketch, x, **attributes), 0.1, 0)


def written(tmp_path: Path, build: Callable[[Sketch, str], str], rank: int = 4) -> Path:
    """A model that quantizes its input of [1, 4, 8, 8]."""
    sketch = Sketch()
    return sketch.write(tmp_path / "m.onnx", [1, 4, 8, 8], build(sketch, sketch.through_integers("x", 0.02, 3)), rank)


def test_faults_of_many_layers_are_told_at_once(tmp_path: Path) -> None:
    def build(sketch: Sketch, x: str) -> str:
        y = sketch.node("Bernoulli", layer(sketch, x))
        y = layer(sketch, sketch.through_integers(y, 0.01, 0))
        weights = sketch.constant(np.full((4, 4, 1, 1), 0.3, dtype=np.float32))
        y = sketch.through_integers(sketch.node("Conv", y, weights), 0.1, 0)  # float weights
        y = sketch.node("Div", layer(sketch, y), sketch.constant(np.float32(0)))
        return layer(sketch, sketch.through_integers(y, 0.1, 0))

    found = problems(written(tmp_path, build))
    assert sorted(found) == [("division", "Div"), ("unsupported", "Bernoulli"), ("weights-float", "Conv")]


def test_a_stand_in_is_never_blamed(tmp_path: Path) -> None:
    """Behind the Bernoulli everything is fine: rows, channels, layouts, activations, a flattened end."""

    def build(sketch: Sketch, x: str) -> str:
        y = sketch.node("Bernoulli", layer(sketch, x))
        y = conv(sketch, sketch.through_integers(y, 0.01, 0))
        y = sketch.node("Add", y, sketch.constant(np.ones((4, 1, 1), dtype=np.float32)))
        y = sketch.through_integers(sketch.node("Relu", y), 0.1, 0)
        y = sketch.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
        y = sketch.node("Flatten", sketch.node("Transpose", y, perm=[0, 2, 3, 1]))
        y = sketch.node("MatMul", y, sketch.dequantized(np.ones((64, 5), dtype=np.int8), np.float32(0.01)))
        y = sketch.node("Add", y, sketch.constant(np.arange(5, dtype=np.float32)))
        return sketch.through_integers(y, 0.1, 0)

    assert problems(written(tmp_path, build, rank=2)) == [("unsupported", "Bernoulli")]


def test_the_reason_why_accumulators_would_leave_is_told_once(tmp_path: Path) -> None:
    def build(sketch: Sketch, x: str) -> str:
        y = sketch.node("Bernoulli", conv(sketch, x))
        return layer(sketch, sketch.through_integers(y, 0.1, 0))

    assert problems(written(tmp_path, build)) == [("unsupported", "Bernoulli")]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s, x: layer(s, conv(s, x, WEIGHTS * 127)), "not-quantized"),
        (lambda s, x: layer(s, s.node("Clip", x, s.constant(np.float32(0.05)))), "not-quantized"),  # between integers
        (
            lambda s, x: layer(s, s.node("MaxPool", x, kernel_shape=[1, 1], strides=[9, 9], pads=[1] * 4)),
            "window-outside",
        ),
        (lambda s, x: layer(s, s.node("Sigmoid", layer(s, x))), "quantize-before"),
        (
            lambda s, x: layer(s, s.node("Resize", x, "", s.constant(np.array([1, 1, 2, 2], "f")), mode="cubic")),
            "not-quantized",  # the sums of the resize
        ),
        (
            lambda s, x: layer(s, s.through_integers(s.node("HardSwish", conv(s, x, 127 * WEIGHTS)), 0.1, 0)),
            "quantize-before",
        ),
        (lambda s, x: layer(s, s.through_integers(s.node("Log", x), 0.1, 0)), "not-a-number"),
        (
            lambda s, x: layer(
                s, s.node("PRelu", layer(s, x), s.constant(np.ones((1, 4, 8, 8), "f") * np.eye(8, dtype="f")))
            ),
            "constant-per-pixel",
        ),
        (lambda s, x: layer(s, s.node("Add", layer(s, x), s.constant(np.float32(np.nan)))), "not-finite"),
        (lambda s, x: layer(s, s.node("Clip", layer(s, x), s.constant(np.float32(np.nan)))), "not-finite"),
        (lambda s, x: layer(s, s.node("Sub", s.constant(np.float32(1)), layer(s, x))), "quantize-before"),
        (lambda s, x: layer(s, s.node("Div", s.constant(np.float32(1)), layer(s, x))), "quantize-before"),
        (lambda s, x: layer(s, s.node("Relu", s.node("Add", layer(s, x), s.constant(np.float32(1))))), "not-quantized"),
        (
            lambda s, x: s.through_integers(s.node("Conv", x, s.dequantized(WEIGHTS, np.arange(1, 5), axis=1)), 0.1, 0),
            "weight-axis",
        ),
    ],
)
def test_single_faults(tmp_path: Path, build: Callable[[Sketch, str], str], expected: str) -> None:
    codes = {code for code, _ in problems(written(tmp_path, build))}
    assert codes == {expected}


def test_a_host_operator_may_follow_the_last_integers(tmp_path: Path) -> None:
    """Not only Softmax: whatever does not multiply, computed from the integers that left."""

    def build(sketch: Sketch, x: str) -> str:
        y = sketch.node("LpNormalization", layer(sketch, x), axis=1, p=1)
        return sketch.node("Sigmoid", sketch.node("Relu", y))

    network = import_model(flow.read(written(tmp_path, build)))
    assert [node.op_type for node in network.tail.graph.nodes][1:] == ["LpNormalization", "Relu", "Sigmoid"]
    frames = np.random.default_rng(1).normal(0, 1, (2, 1, 4, 8, 8)).astype(np.float32)
    (found,) = golden.run(network, {"x": frames}).values()
    assert found.shape == (2, 1, 4, 8, 8) and found.min() >= 0.5


def test_data_of_unknown_shape(tmp_path: Path) -> None:
    """The lengths of a Split's parts arrive with the data."""
    weights = np.ones((3, 2), dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Split", ["table", "lengths"], ["first", "second"], axis=1),
            helper.make_node("Gemm", ["second", "weights"], ["y"], transB=1),
        ],
        "g",
        [helper.make_tensor_value_info("lengths", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((3, 4), np.float32), "table"), numpy_helper.from_array(weights, "weights")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    refusal = check_hardware(BuildOptions(model=path, reading=ReadOptions(lenient=True)))
    assert refusal is not None and "the shape of `second" in str(refusal)


def test_more_weights_than_any_chip_stores_are_too_large_and_not_unsupported(tmp_path: Path) -> None:
    """2,048 groups of 2 inputs are stored with the zeros between them."""
    weights = np.ones((4096, 2, 3, 1), dtype=np.int8)
    sketch = Sketch()
    y = conv(sketch, sketch.through_integers("x", 0.02, 3), weights, group=2048, pads=[1, 0, 1, 0])
    path = sketch.write(tmp_path / "m.onnx", [1, 4096, 2, 1], sketch.through_integers(y, 0.1, 0), 4)
    with pytest.raises(UserError, match="at most 16,777,216 weights, with the zeros between groups") as caught:
        import_model(flow.read(path))
    assert caught.value.exit_code is ExitCode.DOES_NOT_FIT


def test_a_network_with_another_obstacle_is_refused_whatever_it_weighs(tmp_path: Path) -> None:
    weights = np.ones((4096, 2, 3, 1), dtype=np.int8)
    sketch = Sketch()
    y = conv(sketch, sketch.through_integers("x", 0.02, 3), weights[:, :1, :1], group=4096, pads=[0] * 4)
    y = sketch.node("Bernoulli", sketch.through_integers(y, 0.1, 0))
    y = conv(sketch, sketch.through_integers(y, 0.1, 0), weights, group=2048, pads=[1, 0, 1, 0])
    path = sketch.write(tmp_path / "m.onnx", [1, 4096, 2, 1], sketch.through_integers(y, 0.1, 0), 4)
    with pytest.raises(UserError) as caught:
        import_model(flow.read(path))
    assert {problem.code for problem in caught.value.problems} == {"unsupported", "too-many-weights"}
    assert caught.value.exit_code is ExitCode.USAGE


def test_every_place_of_a_large_tensor_may_have_a_constant_of_its_own(tmp_path: Path) -> None:
    """A position embedding of a vision transformer has 37,824 numbers."""
    sketch, places = Sketch(), np.linspace(-1, 1, 2 * 9000, dtype=np.float32).reshape(1, 1, 2, 9000)
    y = sketch.node("Add", sketch.through_integers("x", 0.02, 3), sketch.constant(places))
    path = sketch.write(tmp_path / "m.onnx", [1, 1, 2, 9000], sketch.through_integers(y, 0.05, 0), 4)
    (found,) = golden.run(import_model(flow.read(path)), {"x": np.zeros((1, 1, 1, 2, 9000), dtype=np.float32)}).values()
    assert np.array_equal(found[0, 0], np.rint(places[0] / np.float32(0.05)) * np.float32(0.05))
