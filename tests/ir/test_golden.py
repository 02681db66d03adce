"""The golden model as a user meets it: the model's own names, shapes and dtypes around integers on streams."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.lower.lower_model import import_model
from support.onnx_oracle import by_onnxruntime
from support.qdq_models import Sketch

GENERATOR = np.random.default_rng(7)


def written(tmp_path: Path, sketch: Sketch, inputs: dict[str, tuple[int, list[int]]], outputs: dict[str, int]) -> Path:
    """A model of several inputs (element, shape) and outputs (element)."""
    graph = helper.make_graph(
        sketch.nodes,
        "sketch",
        [helper.make_tensor_value_info(name, *of) for name, of in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()],
        sketch.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def classifier(sketch: Sketch, x: str) -> tuple[str, str]:
    """(integers of a Conv, probabilities): scales are powers of two, so that float32 is exact."""
    weights = sketch.dequantized(GENERATOR.integers(-9, 10, (3, 2, 2, 2)).astype(np.int8), np.float32(2**-4))
    y = sketch.through_integers(sketch.node("Conv", x, weights), 2**-2, -5)
    integers = sketch.nodes[-2].output[0]
    y = sketch.node("GlobalMaxPool", y)
    return integers, sketch.node("Softmax", sketch.node("Flatten", y))


def test_head_integers_and_tail(tmp_path: Path) -> None:
    """Channels last and float at the outside; quantized on the host, and probabilities on the host."""
    sketch = Sketch()
    x = sketch.through_integers(sketch.node("Transpose", "x", perm=[0, 3, 1, 2]), 2**-3, 4)
    integers, probabilities = classifier(sketch, x)
    ends = {integers: TensorProto.INT8, probabilities: TensorProto.FLOAT}
    path = written(tmp_path, sketch, {"x": (TensorProto.FLOAT, [1, 4, 5, 2])}, ends)
    network = import_model(flow.read(path))
    frames = {"x": GENERATOR.normal(0, 5, (3, 1, 4, 5, 2)).astype(np.float32)}
    found, wanted = golden.run(network, frames), by_onnxruntime(path, frames)
    assert list(found) == list(wanted)
    assert found[integers].dtype == np.int8 and found[probabilities].dtype == np.float32
    assert np.array_equal(found[integers], wanted[integers])
    np.testing.assert_allclose(found[probabilities], wanted[probabilities], rtol=1e-6)


def test_the_stream_is_the_integers_in_the_order_of_the_boundary(tmp_path: Path) -> None:
    sketch = Sketch()
    y = sketch.node("DequantizeLinear", "x", sketch.constant(np.float32(0.5)), sketch.constant(np.int8(3)))
    integers, _ = classifier(sketch, y)
    path = written(tmp_path, sketch, {"x": (TensorProto.INT8, [1, 2, 4, 5])}, {integers: TensorProto.INT8})
    network = import_model(flow.read(path))
    assert network.head is None and network.tail is None
    frames = {"x": GENERATOR.integers(-128, 128, (2, 1, 2, 4, 5)).astype(np.int8)}
    entering = golden.integers_of(network, frames)
    assert np.array_equal(entering["x"], frames["x"][:, 0].transpose(0, 2, 3, 1))
    assert entering["x"].dtype == np.int64
    values = golden.trace(network, entering)
    assert set(values) == set(network.tensors)
    for name, array in values.items():
        assert array.dtype == np.int64 and array.shape == (2, *network.tensors[name].shape)
        low, high = network.tensors[name].range
        assert low <= array.min() and array.max() <= high
    (boundary,) = network.outputs
    found = golden.run(network, frames)[integers]
    assert np.array_equal(found[:, 0].transpose(0, 2, 3, 1), values[boundary.tensor])


def test_frames_do_not_know_each_other(tmp_path: Path) -> None:
    sketch = Sketch()
    integers, probabilities = classifier(sketch, sketch.through_integers("x", 2**-3, 4))
    ends = {probabilities: TensorProto.FLOAT, integers: TensorProto.INT8}
    network = import_model(flow.read(written(tmp_path, sketch, {"x": (TensorProto.FLOAT, [1, 2, 3, 3])}, ends)))
    frames = GENERATOR.normal(0, 5, (4, 1, 2, 3, 3)).astype(np.float32)
    together = golden.run(network, {"x": frames})
    assert list(together) == [probabilities, integers]
    for k in range(4):
        alone = golden.run(network, {"x": frames[k : k + 1]})
        assert all(np.array_equal(alone[name][0], together[name][k]) for name in together)


def test_a_tail_may_read_graph_inputs(tmp_path: Path) -> None:
    """Such as a mask, or the input itself beside what hardware made of it."""
    sketch = Sketch()
    _, probabilities = classifier(sketch, sketch.through_integers("x", 2**-3, 4))
    masked = sketch.node("Mul", probabilities, "mask")
    peak = sketch.node("ReduceMax", "x", keepdims=0)
    inputs = {"x": (TensorProto.FLOAT, [1, 2, 3, 3]), "mask": (TensorProto.FLOAT, [1, 3])}
    path = written(tmp_path, sketch, inputs, {masked: TensorProto.FLOAT, peak: TensorProto.FLOAT})
    frames = {
        "x": GENERATOR.normal(0, 5, (2, 1, 2, 3, 3)).astype(np.float32),
        "mask": np.array([[[1, 0, 1]], [[0, 1, 1]]], dtype=np.float32),
    }
    found, wanted = golden.run(import_model(flow.read(path)), frames), by_onnxruntime(path, frames)
    for name in (masked, peak):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6)
