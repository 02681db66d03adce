"""Inputs, outputs and whole float models of every element type: checked, tried without data, calibrated, run."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.commands.check import check_hardware
from onnx_hw.commands.run import run
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.onnx.evaluate import reference
from onnx_hw.quantization.post_training import quantize_without_data
from onnx_hw.quantization.ranges.synthetic import synthetic_frames
from onnx_hw.runtime.options import BuildOptions, Evaluator, RunOptions
from onnx_hw.runtime.stage import Stage
from onnx_hw.samples.read_samples import write_samples
from support.onnx_oracle import write
from support.qdq_models import Sketch
from support.random_float_models import FloatDrawing

REFUSED = ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128")
NO_CAST_FROM = ("FLOAT6E2M3", "FLOAT6E3M2")
TYPES = sorted(set(TensorProto.DataType.keys()) - set(REFUSED))
FLOATS = {"FLOAT16": np.float16, "DOUBLE": np.float64, "BFLOAT16": ml_dtypes.bfloat16}
WEIGHTS = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


def saved(path: Path, nodes: list[onnx.NodeProto], given: int, result: int, constants: list[onnx.TensorProto]) -> Path:
    x, y = (helper.make_tensor_value_info(name, element, [1, 4]) for name, element in (("x", given), ("y", result)))
    graph = helper.make_graph(nodes, "types", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13), path)
    return path


def assert_works(path: Path, folder: Path, *, tolerance: float) -> None:
    """``check``, ``build`` without samples, ``run`` with samples in the model's own dtypes."""
    assert check_hardware(BuildOptions(model=path)) is None
    build(BuildOptions(model=path, out=folder / "out", stop_after=Stage.QUANTIZE))
    samples = folder / "samples.npz"
    write_samples(samples, synthetic_frames(flow.read(path)))
    found, wanted = (
        run(RunOptions(model=path, inputs=samples, engine=engine)) for engine in (Evaluator.GOLDEN, Evaluator.REFERENCE)
    )
    assert found.keys() == wanted.keys()
    for name, expected in wanted.items():
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape)
        if expected.dtype.kind == "f":
            span = float(np.ptp(expected.astype(np.float64)))
            assert np.abs(found[name].astype(np.float64) - expected).max() <= tolerance * span


@pytest.mark.parametrize("name", [name for name in TYPES if name not in NO_CAST_FROM])
def test_inputs(tmp_path: Path, name: str) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("MatMul", ["f", "w"], ["y"])]
    weights = [numpy_helper.from_array(WEIGHTS, "w")]
    path = saved(tmp_path / "m.onnx", nodes, TensorProto.DataType.Value(name), TensorProto.FLOAT, weights)
    assert_works(path, tmp_path, tolerance=0.02)


@pytest.mark.parametrize("name", TYPES)
def test_outputs(tmp_path: Path, name: str) -> None:
    code = TensorProto.DataType.Value(name)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["f"]), helper.make_node("Cast", ["f"], ["y"], to=code)]
    weights = [numpy_helper.from_array(WEIGHTS, "w")]
    # a float type's own step may be coarse: a value beside its tie moves by a whole one
    assert_works(saved(tmp_path / "m.onnx", nodes, TensorProto.FLOAT, code, weights), tmp_path, tolerance=0.15)


def test_indices_stay_within_what_they_index(tmp_path: Path) -> None:
    """An int64 input that chooses rows of an embedding on the host."""
    rows = numpy_helper.from_array(np.arange(12).reshape(3, 4).astype(np.float16), "rows")
    nodes = [
        helper.make_node("Gather", ["rows", "index"], ["r"]),
        helper.make_node("Cast", ["r"], ["f"], to=1),
        helper.make_node("Add", ["f", "x"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, 1, 1, [rows, numpy_helper.from_array(WEIGHTS, "w")])
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("index", TensorProto.INT64, [1]))
    onnx.save(model, path)
    frames = synthetic_frames(flow.read(path))
    assert frames["index"].dtype == np.int64 and set(frames["index"].reshape(-1)) <= {0, 1, 2}
    assert_works(path, tmp_path, tolerance=0.05)


def in_type(path: Path, element: int, dtype: type) -> Path:
    """A float32 model with all its tensors in another float type."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = element
    del model.graph.value_info[:]
    model.opset_import[0].version = 22
    model.ir_version = 10
    other = path.with_name("other.onnx")
    onnx.save(model, other)
    return other


def origins(network: Network) -> set[str]:
    """The ONNX nodes that became hardware, without the widths of their integers, which samples may make wider."""
    names = {name.replace("/float32", "") for node in network.nodes for name in node.origin}
    return {re.sub(r"/int\d+$", "/int", name) for name in names}


@pytest.mark.parametrize(("name", "seed"), [*zip(sorted(FLOATS) * 2, range(6), strict=True)])
def test_a_drawn_network_of_another_float_type(tmp_path: Path, name: str, seed: int) -> None:
    """It becomes the same hardware as in float32, and means nearly the same."""
    drawing = FloatDrawing(7000 + seed)
    inputs, outputs = drawing.draw(3)
    plain = write(drawing.sketch, tmp_path / "m.onnx", inputs, *outputs)
    path = in_type(plain, TensorProto.DataType.Value(name), FLOATS[name])
    model = flow.read(path)
    frames = synthetic_frames(model)
    network = flow.quantize(model, frames)
    for other in (quantize_without_data(model), quantize_without_data(flow.read(plain))):
        assert origins(network) == origins(import_model(other))
    few = {key: array[:2] for key, array in frames.items()}
    found = golden.run(network, few)
    for k in range(2):
        wanted = reference.run(model, {key: array[k] for key, array in few.items()})
        for key in outputs:
            assert found[key][k].dtype == wanted[key].dtype
            span = max(float(np.ptp(wanted[key].astype(np.float64))), 0.1)
            assert np.abs(found[key][k].astype(np.float64) - wanted[key].astype(np.float64)).max() <= 0.4 * span


def test_of_large_inputs_there_are_fewer_frames(tmp_path: Path) -> None:
    sketch = Sketch()
    pooled = sketch.node("GlobalAveragePool", "x")
    model = flow.read(write(sketch, tmp_path / "m.onnx", {"x": (1, 1, 2048, 2048)}, pooled))
    assert synthetic_frames(model)["x"].shape == (4, 1, 1, 2048, 2048)
