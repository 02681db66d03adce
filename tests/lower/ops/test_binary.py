"""Add and Sub of two quantized tensors: against exact rationals, against onnxruntime, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.add import Add
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.schedule.insert_forks import insert_forks
from support.fixture_paths import model as real_model
from support.onnx_oracle import by_onnxruntime, output_by_onnxruntime
from support.qdq_models import Sketch

quick = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SHAPE = [1, 3, 16, 16]


def write(sketch: Sketch, path: Path, shape: list[int], *outputs: str) -> Path:
    """A model with several outputs."""
    graph = helper.make_graph(
        sketch.nodes,
        "sketch",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(shape)) for name in outputs],
        sketch.constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def frames_of(shape: list[int], count: int = 3, spread: float = 2.5) -> np.ndarray:
    return np.random.default_rng(1).uniform(-spread, spread, (count, *shape)).astype(np.float32)


def conv(sketch: Sketch, x: str, channels: int, scale: float, zero: int, seed: int = 0, size: int = 3) -> str:
    """A convolution that keeps its shape, quantized."""
    weights = np.random.default_rng(seed).integers(-127, 128, (channels, channels, size, size)).astype(np.int8)
    w = sketch.dequantized(weights, np.full(channels, 0.004))
    return sketch.through_integers(sketch.node("Conv", x, w, pads=[size // 2] * 4), scale, zero)


def assert_a_step_at_most(path: Path, network: Network, frames: np.ndarray, names: list[str], step: float) -> None:
    found, each = golden.run(network, {"x": frames}), by_onnxruntime(path, {"x": frames})
    assert list(each) == names
    for name, wanted in each.items():
        assert found[name].shape == wanted.shape
        difference = np.abs(found[name] - wanted)
        assert difference.max() <= step * 1.001
        assert (difference > step / 2).mean() <= 0.002


@quick
@given(
    scales=st.tuples(*[st.sampled_from([0.5, 0.25, 0.0371, 1 / 255, 0.0913, 0.7])] * 3),
    zeros=st.tuples(*[st.integers(-128, 127)] * 3),
    op_type=st.sampled_from(["Add", "Sub"]),
    bound=st.sampled_from(["", "Relu", "Clip"]),
)
def test_every_pair_of_integers(
    tmp_path: Path, scales: tuple[float, ...], zeros: tuple[int, ...], op_type: str, bound: str
) -> None:
    """``clamp(rhe((s1·(x1 − z1) ± s2·(x2 − z2))/s_y) + z_y)``, every scale the rational of its float32."""
    sketch = Sketch()
    both = sketch.node("Split", "x", axis=1, domain="")
    sketch.nodes[-1].output.append("second")
    a = sketch.through_integers(both, scales[0], zeros[0])
    b = sketch.through_integers("second", scales[1], zeros[1])
    y = sketch.node(op_type, a, b)
    if bound:
        limits = [sketch.constant(np.float32(v)) for v in (-3, 6)] if bound == "Clip" else []
        y = sketch.node(bound, y, *limits)
    y = sketch.through_integers(y, scales[2], zeros[2])
    path = sketch.write(tmp_path / "m.onnx", [1, 2, 256, 256], y)
    pairs = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij"))
    frame = np.stack([(pairs[k] - zeros[k]) * np.float32(scales[k]) for k in range(2)]).astype(np.float32)
    frames = frame[np.newaxis, np.newaxis]
    network = import_model(flow.read(path))
    integers = golden.integers_of(network, {"x": frames})
    assert [np.array_equal(integers[b.tensor].ravel(), pairs[k].ravel()) for k, b in enumerate(network.inputs)]
    found = golden.trace(network, integers)[network.outputs[0].tensor].reshape(256, 256)

    s1, s2, step = (Fraction(float(np.float32(s))) for s in scales)
    common = s1.denominator * s2.denominator * step.numerator
    p, q = int(s1 / step * common), int(s2 / step * common) * (1 if op_type == "Add" else -1)
    exact = p * (pairs[0] - zeros[0]).astype(object) + q * (pairs[1] - zeros[1]).astype(object)
    if bound:
        exact = np.maximum(exact, -3 / step * common if bound == "Clip" else 0)
        exact = np.minimum(exact, 6 / step * common) if bound == "Clip" else exact  # type: ignore[call-overload]
    rounded = np.array([round(Fraction(v) / common) for v in exact.ravel()]).reshape(256, 256)
    assert np.array_equal(found, np.clip(rounded + zeros[2], -128, 127))

    wanted = output_by_onnxruntime(path, frames)
    assert np.abs(golden.run(network, {"x": frames})[y] - wanted).max() <= float(step) * 1.001


def test_a_residual_block_with_a_branch_to_an_output(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    skip = conv(sketch, x, 3, 0.03, 5)
    y = conv(sketch, skip, 3, 0.05, -7, seed=1)
    total = sketch.through_integers(sketch.node("Relu", sketch.node("Add", skip, y)), 0.041, -128)
    path = write(sketch, tmp_path / "m.onnx", SHAPE, total, skip)
    network = insert_forks(import_model(flow.read(path)))
    assert [node.operator.count for node in network.nodes if isinstance(node.operator, Fork)] == [3]
    assert_a_step_at_most(path, network, frames_of(SHAPE), [total, skip], 0.05)


def test_an_input_with_two_consumers_and_a_sum_with_two(tmp_path: Path) -> None:
    """The input's order is that of the branch through the convolution, on both branches."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0213, 3)
    first = sketch.through_integers(sketch.node("Add", x, conv(sketch, x, 3, 0.0317, 5)), 0.0523, 9)
    second = sketch.through_integers(sketch.node("Sub", conv(sketch, first, 3, 0.0719, 1), first), 0.1037, 0)
    path = sketch.write(tmp_path / "m.onnx", SHAPE, second)
    network = insert_forks(import_model(flow.read(path)))
    assert sum(isinstance(node.operator, Fork) for node in network.nodes) == 2
    factors = [node.operator.factors for node in network.nodes if isinstance(node.operator, Add)]
    assert [k > 0 for _, k in factors] == [True, False]
    assert_a_step_at_most(path, network, frames_of(SHAPE), [second], 0.1037)


def test_a_tensor_added_to_itself(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    y = sketch.through_integers(sketch.node("Add", x, x), 0.05, 9)
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    assert_a_step_at_most(path, insert_forks(import_model(flow.read(path))), frames_of(SHAPE), [y], 0.05)


def test_integers_of_an_input_keep_their_place(tmp_path: Path) -> None:
    """What is made element by element from an input has the order of its stream, which is not the model's."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    y = sketch.through_integers(sketch.node("Relu", x), 0.03, -128)
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    assert_a_step_at_most(path, import_model(flow.read(path)), frames_of(SHAPE), [y], 0.03)


def test_a_sum_that_is_not_quantized_stays_on_the_host(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    y = sketch.node("Relu", sketch.node("Add", conv(sketch, x, 3, 0.03, 5), conv(sketch, x, 3, 0.04, 0, seed=1)))
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    network = import_model(flow.read(path))
    assert network.tail is not None and [node.op_type for node in network.tail.graph.nodes][-2:] == ["Add", "Relu"]
    assert_a_step_at_most(path, network, frames_of(SHAPE), [y], 0.04)


def refusal(sketch: Sketch, tmp_path: Path, y: str) -> str:
    """Of a model in which a convolution follows, so that the sum must not stay on the host."""
    y = conv(sketch, y, 3, 0.1, 0)
    with pytest.raises(UserError) as caught:
        import_model(flow.read(sketch.write(tmp_path / "m.onnx", SHAPE, y)))
    assert all(problem.where for problem in caught.value.problems)
    return str(caught.value)


def test_refuses_accumulators_by_name(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    weights = sketch.dequantized(np.full((3, 3, 3, 3), 100, dtype=np.int8), [0.01])
    sums = sketch.node("Conv", x, weights, pads=[1, 1, 1, 1])
    told = refusal(sketch, tmp_path, sketch.through_integers(sketch.node("Add", x, sums), 0.1, 0))
    assert f"`{sums}` has the integers" in told and "the_add" in told and "QuantizeLinear" in told


@pytest.mark.parametrize("size", [2, 3])
def test_small_sums_are_operands_and_large_ones_are_refused(tmp_path: Path, size: int) -> None:
    """An average that is not quantized: the sum of 4 integers has 1,021 values, that of 9 has 2,296."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0213, 3)
    mean = sketch.node("AveragePool", x, kernel_shape=[size, size])
    other = sketch.through_integers(sketch.node("MaxPool", x, kernel_shape=[size, size]), 0.0213, 3)
    y = sketch.through_integers(sketch.node("Add", other, mean), 0.0317, 0)
    if size == 3:
        assert f"`{mean}` has the integers -1152..1143" in refusal(sketch, tmp_path, y)
        return
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    assert_a_step_at_most(path, import_model(flow.read(path)), frames_of(SHAPE), [y], 0.0317)


def test_an_operand_behind_relu_is_clamped_integers(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    y = sketch.node("Add", conv(sketch, x, 3, 0.03, 5), sketch.node("Relu", x))
    y = sketch.through_integers(y, 0.0937, 0)  # of 0.02 and 0.03: no ties
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    assert_a_step_at_most(path, import_model(flow.read(path)), frames_of(SHAPE), [y], 0.0937)


def test_refuses_what_follows_a_sum_that_is_not_quantized(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    y = sketch.node("Add", conv(sketch, x, 3, 0.03, 5), x)
    told = refusal(sketch, tmp_path, sketch.through_integers(sketch.node("Add", y, x), 0.1, 0))
    assert f"`{y}` must be quantized before Add" in told


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("mean_first", [True, False])
def test_a_broadcast_operand_is_repeated(tmp_path: Path, operator: str, mean_first: bool) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    mean = sketch.through_integers(sketch.node("GlobalAveragePool", x), 0.015, -4)
    operands = (mean, x) if mean_first else (x, mean)
    y = sketch.through_integers(sketch.node(operator, *operands), 0.0317, 2)
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    network = import_model(flow.read(path))
    assert sum(isinstance(node.operator, Rearrange) for node in network.nodes) == 1
    assert_a_step_at_most(path, network, frames_of(SHAPE), [y], 0.0317)


def test_operands_that_are_both_broadcast(tmp_path: Path) -> None:
    """Means of rows and means of columns: neither has the shape of their difference."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.0213, 3)
    rows = sketch.through_integers(sketch.node("ReduceMean", x, axes=[3]), 0.0157, 1)
    columns = sketch.through_integers(sketch.node("ReduceMean", x, axes=[2]), 0.0191, -4)
    y = sketch.through_integers(sketch.node("Sub", columns, rows), 0.0317, 2)
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    network = import_model(flow.read(path))
    assert_a_step_at_most(path, network, frames_of(SHAPE), [y], 0.0317)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("of_input", [True, False])
def test_operands_in_two_orders_are_brought_into_one(tmp_path: Path, operator: str, of_input: bool) -> None:
    """An input by the host, which sends it twice."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    turned = sketch.node("Transpose", x if of_input else conv(sketch, x, 3, 0.03, 5), perm=[0, 1, 3, 2])
    y = sketch.through_integers(sketch.node(operator, conv(sketch, x, 3, 0.03, 5), turned), 0.0317, 0)
    path = sketch.write(tmp_path / "m.onnx", SHAPE, y)
    network = import_model(flow.read(path))
    assert sum(isinstance(node.operator, Rearrange) for node in network.nodes) == (not of_input)
    assert len(network.inputs) == 1 + of_input
    assert_a_step_at_most(path, network, frames_of(SHAPE), [y], 0.0317)


def test_real_sums_of_onnxruntimes_own_integers() -> None:
    """Each quantized sum of a real residual network, fed with the integers that onnxruntime has there."""
    folder = real_model("mlperf_tiny_ic_resnet8_int8")
    model = onnx.load(folder / "model.onnx")
    known = {output.name for output in model.graph.output}
    stored = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in stored if name not in known)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would spin on the cores of other tests
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with np.load(folder / "inputs.npz") as inputs:
        results = session.run(stored, {name: inputs[name][0] for name in inputs})
    integers = {name: array.astype(np.int64) for name, array in zip(stored, results, strict=True)}
    network = import_model(flow.read(folder / "model.onnx"))
    compared = 0
    for node in network.nodes:
        if isinstance(node.operator, Add):
            ((staircase, _),) = network.consumers(node.outputs[0])
            (total,) = node.operator.golden(*(integers[name].transpose(0, 2, 3, 1) for name in node.inputs))
            (found,) = staircase.operator.golden(total)
            assert np.array_equal(found, integers[staircase.outputs[0]].transpose(0, 2, 3, 1))
            compared += found.size
    assert compared == 32 * 32 * 16 + 16 * 16 * 32 + 8 * 8 * 64
