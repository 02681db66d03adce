"""Small QDQ models against onnxruntime, and their networks in the circuit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx.shape_inference
import onnxruntime

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.model import Model
from support.design_bench import Bench, assert_proven, random_stall
from support.qdq_models import Sketch


def write(
    sketch: Sketch,
    path: Path,
    shapes: Mapping[str, Sequence[int]],
    *outputs: str,
    integers: str = "",
    element: int = TensorProto.FLOAT,
) -> Path:
    """A model with any inputs and outputs (float, but the int64 one named ``integers``)."""
    graph = helper.make_graph(
        sketch.nodes,
        "sketch",
        [helper.make_tensor_value_info(name, element, shape) for name, shape in shapes.items()],
        [
            helper.make_tensor_value_info(n, TensorProto.INT64 if n == integers else TensorProto.FLOAT, None)
            for n in outputs
        ],
        sketch.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", sketch.opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def random_frames(model: Model, count: int = 3, spread: float = 2.5) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {
        value.name: generator.uniform(-spread, spread, (count, *value.shape)).astype(np.float32)  # type: ignore[arg-type, misc]
        for value in model.graph.inputs
    }


def by_onnxruntime(path: Path, frames: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every output, (frames, *shape), without graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would spin on the cores of other tests
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # it warns of shapes that its own quantizer declared
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    count = len(next(iter(frames.values())))
    results = [session.run(names, {name: array[k] for name, array in frames.items()}) for k in range(count)]
    return {name: np.stack(arrays) for name, arrays in zip(names, zip(*results, strict=True), strict=True)}


def output_by_onnxruntime(path: Path, frames: np.ndarray) -> np.ndarray:
    """The same of a model with one input, which the frames are of, and one output."""
    (given,) = onnx.load(path).graph.input
    (output,) = by_onnxruntime(path, {given.name: frames}).values()
    return output


def assert_agrees(path: Path, step: float, *, rarely: float = 0.002, frames: int = 3) -> Network:
    """Golden and onnxruntime differ by one step at most, and seldom; returns the network."""
    model = flow.read(path)
    network = flow.quantize(model)
    given = random_frames(model, frames)
    found = golden.run(network, given)
    for name, wanted in by_onnxruntime(path, given).items():
        assert found[name].shape == wanted.shape and found[name].dtype == wanted.dtype, name
        difference = np.abs(found[name].astype(np.float64) - wanted)
        assert difference.max() <= step * 1.001, name
        assert (difference > step / 2).mean() <= rarely, name
    return network


def assert_circuit_agrees(network: Network, *, multipliers: int = 8, frames: int = 2) -> None:
    """The circuit of a small network, its streams stalled, does what golden and the firing law say."""
    design = flow.schedule(network, multipliers=multipliers)
    assert_proven(Bench(design).prove(random_stall(design, frames, seed=1), frames=frames))
