"""Inputs with an axis more, one longer or one missing: refused, or the result has the shape that was inferred."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import onnx
from backend_cases import node_cases, plain
from onnx import helper
from onnx_hw.errors import UserError
from onnx_hw.onnx.model import Node
from onnx_hw.onnx.operators import lookup
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.result_types import result_types
from onnx_hw.onnx.operators.tensor_type import TensorType

MOST = 2000
"""Elements of a case's inputs."""


def _first_cases():
    """The smallest case of every operator that takes tensors of numbers alone, as (node, arrays)."""
    found = {}
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
    """An axis more in front, each axis twice as long, each axis left out."""
    yield np.stack([array, array])
    for axis in range(array.ndim):
        yield np.repeat(array, 2, axis)
        if array.shape[axis]:
            yield np.asarray(array.take(0, axis))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CASES = _first_cases()


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
                results = compute(node, given, None)
            except (UserError, ValueError):
                continue
            for kind, result in zip(inferred, results, strict=True):
                if kind is not None:
                    assert kind.shape == result.shape, f"input {number}: {list(array.shape)} as {list(odd.shape)}"


def test_most_operators_are_drawn():
    assert len(CASES) > 130
