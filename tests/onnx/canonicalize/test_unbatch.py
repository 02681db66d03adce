"""A static batch of N is N frames, unless the frames are mixed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.commands.check import check_hardware
from onnx_hw.commands.run import run
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.options import BuildOptions, Evaluator, RunOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from support.onnx_files import write


def constant(name: str, array: object, dtype: type = np.float32):
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def tensor(name: str, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def network(batch: int | str, seed: int, folder: Path) -> Path:
    """Convolution, pool, a way around, and classes; the batch in constants, too, where it is a number."""
    random = np.random.default_rng(seed)
    first = batch if isinstance(batch, int) else -1
    c, side = int(random.integers(2, 4)), 2 * int(random.integers(2, 4))
    draw = lambda *shape: random.normal(0, 0.4, shape)  # noqa: E731
    constants = [
        constant("w", draw(c, 2, 3, 3)),
        constant("v", draw(c, c, 1, 1)),
        constant("b", draw(1, c, 1, 1)),
        constant("shape", [first, c * side * side // 4], np.int64),
        constant("sizes", [first if first > 0 else 1, c, side, side], np.int64),
        constant("g", draw(c * side * side // 4, 5)),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], pads=[1] * 4),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool", "v"], ["way"]),
        helper.make_node("Add", ["way", "b"], ["biased"]),
        helper.make_node("Add", ["biased", "pool"], ["sum"]),
        helper.make_node("Reshape", ["sum", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "g"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"], axis=1),
    ]
    outputs = [tensor("y", (batch, 5))]
    if isinstance(batch, int):
        nodes.append(helper.make_node("Resize", ["sum", "", "", "sizes"], ["larger"], mode="nearest"))
        outputs.append(tensor("larger", (batch, c, side, side)))
    graph = helper.make_graph(nodes, "g", [tensor("x", (batch, 2, side, side))], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return write(folder, model, f"batch{batch}.onnx")


def computed(path: Path, samples: Path, engine: Evaluator) -> dict[str, np.ndarray]:
    return run(RunOptions(model=path, inputs=samples, engine=engine, calibration=samples))


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_gives_what_its_frames_give(tmp_path: Path, seed: int) -> None:
    """The same network with a batch of 1; and the reference of the whole batch is near."""
    batch = 2 + seed
    many, one = network(batch, seed, tmp_path), network(1, seed, tmp_path)
    (x,) = flow.read(one).graph.inputs
    frames = np.random.default_rng(seed).normal(0, 1, (2 * batch, *x.shape)).astype(np.float32)  # type: ignore[misc]
    batched = tmp_path / "batched.npz"
    np.savez(batched, x=frames.reshape(2, batch, *frames.shape[2:]))
    single = tmp_path / "single.npz"
    np.savez(single, x=frames)
    found, wanted = computed(many, batched, Evaluator.GOLDEN), computed(one, single, Evaluator.GOLDEN)
    near = computed(many, batched, Evaluator.REFERENCE)
    for name, array in found.items():
        assert array.shape == near[name].shape == (2, batch, *wanted[name].shape[2:])
        assert np.array_equal(array.reshape(wanted[name].shape), wanted[name])
        assert np.abs(array - near[name]).max() < 0.1 * np.ptp(near[name])


def labelled(folder: Path, count: int) -> tuple[Path, Path]:
    """(a network of three frames, two samples for it with so many labels)."""
    path, samples = network(3, 0, folder), folder / "samples.npz"
    (x,) = flow.read(path).graph.inputs
    numbers = np.random.default_rng(1).normal(size=(2, *x.shape)).astype(np.float32)  # type: ignore[misc]
    np.savez(samples, x=numbers, labels=np.arange(count) % 5)
    return path, samples


def test_every_frame_has_a_label(tmp_path: Path) -> None:
    path, samples = labelled(tmp_path, 2)
    with pytest.raises(UserError, match="6, not 2"):
        build(BuildOptions(model=path, out=tmp_path / "out", inputs=samples, stop_after=Stage.READ))
    assert check_hardware(BuildOptions(model=path)) is None


@pytest.mark.slow
def test_a_batch_is_proven_frame_by_frame(tmp_path: Path) -> None:
    path, samples = labelled(tmp_path, 6)
    options = BuildOptions(
        model=path,
        out=tmp_path / "out",
        inputs=samples,
        stop_after=Stage.SIMULATE,
        scheduling=ScheduleRequest(multipliers=8),
    )
    made = build(options).report
    assert any("batch" in note for note in made.model.notes)
    assert made.accuracy is not None and made.accuracy.samples == 6


MIXING = {
    "softmax over the batch": ([helper.make_node("Softmax", ["x"], ["y"], axis=0)], []),
    "softmax over the batch, counted from behind": ([helper.make_node("Softmax", ["x"], ["y"], axis=-2)], []),
    "backwards": (
        [helper.make_node("Slice", ["x", "from", "to", "axis", "step"], ["y"])],
        [constant(n, [k], np.int64) for n, k in (("from", -1), ("to", -9), ("axis", 0), ("step", -1))],
    ),
    "turned": ([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], []),
    "another shape": (
        [
            helper.make_node("Reshape", ["x", "shape"], ["r"]),
            helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0, 2]),
            helper.make_node("Reshape", ["t", "back"], ["y"]),
        ],
        [constant("shape", [2, 2, 4], np.int64), constant("back", [4, 4], np.int64)],
    ),
    "a mean": (
        [helper.make_node("ReduceMean", ["x"], ["m"], axes=[0]), helper.make_node("Sub", ["x", "m"], ["y"])],
        [],
    ),
    "a term for each": ([helper.make_node("Add", ["x", "c"], ["y"])], [constant("c", np.eye(4))]),
    "a bias for each": (
        [helper.make_node("Gemm", ["x", "c", "b"], ["y"])],
        [constant("c", np.eye(4)), constant("b", np.eye(4))],
    ),
    "a product from the left": ([helper.make_node("MatMul", ["c", "x"], ["y"])], [constant("c", np.eye(4))]),
    "a scale for each": (
        [
            helper.make_node("QuantizeLinear", ["x", "c", "z"], ["q"], axis=0),
            helper.make_node("DequantizeLinear", ["q", "c", "z"], ["y"], axis=0),
        ],
        [constant("c", [1, 2, 3, 4]), constant("z", [0] * 4, np.int8)],
    ),
    "a running sum": ([helper.make_node("CumSum", ["x", "c"], ["y"])], [constant("c", 0, np.int64)]),
    "a shape that data decides": (
        [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Cast", ["sum"], ["length"], to=TensorProto.INT64),
            helper.make_node("Unsqueeze", ["length", "c"], ["shape"]),
            helper.make_node("Reshape", ["x", "shape"], ["unknown"]),
            helper.make_node("Relu", ["x"], ["y"]),
        ],
        [constant("c", [0], np.int64)],
    ),
    "one of them": (
        [helper.make_node("Gather", ["x", "c"], ["one"], axis=0), helper.make_node("Add", ["x", "one"], ["y"])],
        [constant("c", [2], np.int64)],
    ),
}


@pytest.mark.parametrize("title", MIXING)
def test_frames_that_are_mixed_are_no_frames(tmp_path: Path, title: str) -> None:
    nodes, constants = MIXING[title]
    graph = helper.make_graph(nodes, "g", [tensor("x", (4, 4))], [tensor("y", (4, 4))], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    read = flow.read(write(tmp_path, model))
    assert read.frame.model is read and read.frame.batch == 1


def test_borders_that_have_no_batch(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["u"], ["v"])]
    for shapes in ((2, 3), (3, 3)), ((3,), (3,)), ((1, 3), (1, 3)):
        inputs, outputs = ([tensor(n, s) for n, s in zip(names, shapes, strict=True)] for names in ("xu", "yv"))
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        read = flow.read(write(tmp_path, model))
        assert read.frame.batch == (3 if shapes == ((3, 3), (3, 3)) else 1)
        assert read.frame is read.frame and replace(read, name="other").frame.model.name == "other"
