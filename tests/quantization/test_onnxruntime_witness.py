"""The second witness, node by node: every quantized node, fed with onnxruntime's own integers, gives onnxruntime's.

onnxruntime computes ``float32(Σ) / scale`` where the product means exact rationals, so a value may differ where the
exact one lies within float32's error of a rounding edge: one step, at most one value in 100,000.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.ops.requantize import Monotone
from support import mlperf_tiny
from support.fixture_paths import EXAMPLES
from support.fixture_paths import model as real_model

MODELS = ("digits", "mlperf_tiny_ad_autoencoder_int8", "tinymaix_mnist_valid_int8", *mlperf_tiny.MLPERF_TINY)
FRAMES = 16


def material(name: str, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """(model, frames by graph input)."""
    if name in mlperf_tiny.NETS:
        return mlperf_tiny.write(name, folder), mlperf_tiny.NETS[name].frames(FRAMES)
    if name == "digits":
        path, samples = EXAMPLES / "digits" / "digits.onnx", EXAMPLES / "digits" / "digits_test.npz"
    else:
        path, samples = real_model(name) / "model.onnx", real_model(name) / "inputs.npz"
    inputs = {value.name for value in flow.read(path).graph.inputs}
    with np.load(samples) as stored:
        return path, {key: stored[key][:FRAMES] for key in stored if key in inputs}


def quantized_values(path: Path, frames: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The result of every QuantizeLinear in onnxruntime, nothing optimized away: by name, (frames, *shape)."""
    model = onnx.load(path)
    elements = {constant.name: constant.data_type for constant in model.graph.initializer}
    known = {output.name for output in model.graph.output}
    wanted = []
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            wanted.append(node.output[0])
            if node.output[0] not in known:
                element = elements.get(node.input[2], TensorProto.INT8)
                model.graph.output.append(helper.make_tensor_value_info(node.output[0], element, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would spin on the cores of other tests
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    count = len(next(iter(frames.values())))
    each = [session.run(wanted, {name: array[k] for name, array in frames.items()}) for k in range(count)]
    return {name: np.stack([values[k] for values in each]) for k, name in enumerate(wanted)}


def as_stream(network: Network, name: str, values: np.ndarray) -> np.ndarray:
    """An ONNX value (frames, 1, channels, rows, columns) or (frames, 1, size) as the tensor of that name."""
    turned = values[:, 0].transpose(0, 2, 3, 1) if values.ndim == 5 else values
    return turned.reshape(len(values), *network.tensors[name].shape).astype(np.int64)


@pytest.mark.parametrize("name", MODELS)
def test_every_quantized_node(name: str, tmp_path: Path) -> None:
    path, frames = material(name, tmp_path)
    network = import_model(flow.read(path))
    witness = quantized_values(path, frames)
    values = golden.integers_of(network, frames)
    compared = differing = nodes = 0
    for node in network.nodes:
        (result,) = node.operator.golden(*(values[operand] for operand in node.inputs))
        values[node.outputs[0]] = result
        if node.outputs[0] in witness:
            wanted = as_stream(network, node.outputs[0], witness[node.outputs[0]])
            difference = np.abs(result - wanted)
            assert difference.max() <= 1, node
            compared, differing, nodes = compared + result.size, differing + int((difference > 0).sum()), nodes + 1
            values[node.outputs[0]] = wanted
    assert nodes == sum(isinstance(node.operator, Monotone) for node in network.nodes) and compared > 0
    assert differing <= max(1, compared // 100_000)


@pytest.mark.parametrize("name", mlperf_tiny.MLPERF_TINY)
def test_the_end_of_a_deep_network(name: str, tmp_path: Path) -> None:
    """A step here and there on the way changes no clear decision, and hardly anything of a vector."""
    path, frames = material(name, tmp_path)
    (output,) = onnx.load(path).graph.output
    wanted = quantized_values(path, frames)[output.name][:, 0].astype(np.int64)
    found = golden.run(import_model(flow.read(path)), frames)[output.name][:, 0].astype(np.int64)
    if name == "autoencoder":
        assert (np.abs(found - wanted) <= 1).mean() > 0.99
        return
    *_, second, best = np.sort(wanted, axis=1).T
    clear = best - second > 8
    assert clear.sum() >= 12 and len(set(wanted.argmax(axis=1).tolist())) > 1
    assert np.array_equal(found.argmax(axis=1)[clear], wanted.argmax(axis=1)[clear])
