"""Inputs with an axis more, one longer or one missing: refused, or the result has the shape that was inferred."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import onnx
from onnx import helper
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import lookup
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.result_types import result_types
from onnx_hw.onnx.operators.tensor_type import TensorType
from support.backend_cases import node_cases, plain

MOST = 2000
"""Elements of a case's inputs."""


def _first_cases():
    """The smallest case of every operator that takes tensors of numbers alone, as (node, arrays)."""
    found: dict[Any, Any] = {}
    for case in node_cases():
        graph = case.model.graph
        inner = any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in graph.node[0].attribute)
        if len(graph.node) != 1 or inner or not case.data_sets:
            continue
        (entry,) = graph.node
        given = dict(zip((value.name for value in graph.input), map(plain, case.data_sets[0][0]), strict=True))
        arrays = [given.get(name) for name in entry.input]
        if not all(x is None or (isinstance(x, np.ndarray) and x.dtype != object) for x in arrays):
            continue
        size = sum(x.size for x in arrays if x is not None)
        version = {opset.domain: opset.version for opset in case.model.opset_import}[entry.domain]
        key = entry.domain, entry.op_type
        if size <= MOST and lookup(entry.domain, entry.op_type, version) and (key not in found or size < found[key][0]):
            found[key] = size, _node(entry, version), arrays
    return [pytest.param(node, arrays, id=node.op_type) for _, node, arrays in found.values()]


def _node(entry, version):
    values = {a.name: helper.get_attribute_value(a) for a in entry.attribute}
    spelled = {
        name: value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
    }
    return Node(
        "node", entry.op_type, entry.domain, version, tuple(entry.input), tuple(entry.output), spelled, "graph.node[0]"
    )


def _odd(array):
    """An axis more in front or behind, each axis twice as long, each axis left out."""
    yield np.stack([array, array])
    yield np.stack([array, array], -1)
    yield array[..., None]
    for axis in range(array.ndim):
        yield np.repeat(array, 2, axis)
        if array.shape[axis]:
            yield np.asarray(array.take(0, axis))


def _microsoft(op_type, *arrays, **attributes):
    """A node of com.microsoft, of which onnx has no cases."""
    domain = "com.microsoft"
    inputs = tuple(f"x{k}" for k in range(len(arrays)))
    node = Node("node", op_type, domain, 1, inputs, ("y",), attributes, "graph.node[0]")
    return pytest.param(node, list(arrays), id=f"{domain}.{op_type}")


def _microsoft_cases():
    """Its operators on integers, and its fused ones."""
    u8, i8, f32 = np.uint8, np.int8, np.float32
    random = np.random.default_rng(0)

    def integers(*shape, dtype=u8):
        return random.integers(0, 90, shape).astype(dtype)

    def floats(*shape):
        return random.standard_normal(shape).astype(f32)

    scale, zero = np.asarray(0.05, f32), np.asarray(3, u8)
    one, per_channel, weights = (scale, zero), (np.full(4, 0.02, f32), np.zeros(4, i8)), integers(4, 2, 3, 2, dtype=i8)
    image, matrix, right = integers(1, 2, 4, 3), integers(3, 6), integers(6, 4, dtype=i8)
    bias = np.arange(4, dtype=np.int32)
    yield _microsoft("QLinearConv", image, *one, weights, *per_channel, *one, bias)
    yield _microsoft("QLinearConv", image.transpose(0, 2, 3, 1), *one, weights, scale, i8(0), *one, channels_last=1)
    for columns in (per_channel, (scale, np.asarray(1, i8))):
        yield _microsoft("QGemm", matrix, *one, right, *columns, bias, *one)
        yield _microsoft("QGemm", matrix, *one, right.T, *columns, bias, transB=1)
        yield _microsoft("MatMulIntegerToFloat", matrix, right, scale, columns[0], zero, columns[1], floats(4))
        yield _microsoft("DynamicQuantizeMatMul", floats(3, 6), right, *columns, floats(4))
    for op_type in ("QLinearAdd", "QLinearMul"):
        yield _microsoft(op_type, image, *one, integers(2, 1, 3), *one, *one)
    yield _microsoft("QLinearWhere", integers(3, 1) > 40, matrix, *one, matrix, *one, *one)
    yield _microsoft("QLinearConcat", *one, matrix, *one, integers(3, 2), *one, axis=1)
    for op_type, attributes in (
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {}),
        ("QLinearSoftmax", {"axis": -1, "opset": 13}),
        ("QLinearAveragePool", {"kernel_shape": (2, 2)}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearReduceMean", {"axes": (1,), "keepdims": 0}),
    ):
        yield _microsoft(op_type, image, *one, *one, **attributes)
    yield _microsoft("QuantizeLinear", floats(2, 4), np.full(4, 0.1, f32), np.zeros(4, u8))
    yield _microsoft("DequantizeLinear", integers(2, 4), np.full(4, 0.1, f32), np.zeros(4, u8))
    yield _microsoft("FusedConv", floats(1, 2, 4, 3), floats(4, 2, 3, 2), floats(4), activation="Relu")
    yield _microsoft("FusedMatMul", floats(2, 4, 3), floats(2, 4, 5), transA=1)
    yield _microsoft("FusedGemm", floats(3, 4), floats(5, 4), floats(5), transB=1, activation="Relu")
    for op_type in ("Gelu", "FastGelu", "QuickGelu"):
        yield _microsoft(op_type, floats(4, 8))
    yield _microsoft("BiasGelu", floats(4, 8), floats(8))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CASES = [*_first_cases(), *_microsoft_cases()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("node", "arrays"), CASES)
def test_the_result_has_the_inferred_shape_or_the_inputs_are_refused(node, arrays):
    decisive = lookup(node.domain, node.op_type, node.version).shape_inputs
    for number, array in enumerate(arrays):
        for odd in () if array is None else _odd(array):
            given = [*arrays[:number], odd, *arrays[number + 1 :]]
            types = [
                None if x is None else TensorType(x.dtype, x.shape, x if k in decisive else None)
                for k, x in enumerate(given)
            ]
            try:
                inferred = result_types(node, types, None)
            except (UserError, ValueError):
                continue
            try:
                results = compute(node, given, None)
            except (UserError, ValueError):
                assert node.domain in ("", "ai.onnx.ml"), (
                    f"input {number} as {list(odd.shape)} fits, but cannot be computed"
                )
                continue
            for kind, result in zip(inferred, results, strict=True):
                if kind is not None:
                    assert kind.shape == result.shape, f"input {number}: {list(array.shape)} as {list(odd.shape)}"


def test_most_operators_are_drawn():
    assert len(CASES) > 130


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (1, 3, 1)])
def test_parameters_per_channel_have_one_axis(number, shape):
    """As many entries as there are channels are not enough: elsewhere they would broadcast over other axes."""
    shapes = [(2, 3, 4, 4), *[(3,)] * 4]
    shapes[number] = shape
    names = tuple(f"x{k}" for k in range(5))
    node = Node("node", "BatchNormalization", "", 15, names, ("y",), {}, "graph.node[0]")
    with pytest.raises(UserError, match=r"must have shape \[3\]"):
        result_types(node, [TensorType(np.dtype(np.float32), each) for each in shapes], None)
