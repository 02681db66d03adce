"""One node as a model, computed by us and by onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime

from onnx import helper
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import lookup
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.result_types import result_types
from onnx_hw.onnx.operators.tensor_type import TensorType

onnxruntime.set_default_logger_severity(4)  # errors are raised; its log would only repeat them


def ours(op_type, inputs, *, version, domain="", outputs=1, **attributes):
    """The node's outputs by our function; of the types that were inferred before."""
    node = Node(
        "node",
        op_type,
        domain,
        version,
        tuple("" if x is None else f"x{k}" for k, x in enumerate(inputs)),
        tuple(f"y{k}" for k in range(outputs)),
        {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()},
        "graph.node[0]",
    )
    results = compute(node, inputs, None)
    if any(isinstance(x, dict) for x in inputs):
        return results
    decisive = lookup(domain, op_type, version).shape_inputs  # what the shape depends on must be known
    types = [
        None if x is None else TensorType(x.dtype, x.shape, np.asarray(x) if k in decisive else None)
        for k, x in enumerate(inputs)
    ]
    for inferred, result in zip(result_types(node, types, None), results, strict=True):
        assert inferred is None or (inferred.dtype, inferred.shape) == (result.dtype, result.shape)
    return results


def theirs(op_type, inputs, types, *, version, domain="", outputs=1, **attributes):
    """The node's outputs by onnxruntime; ``types`` are their dtypes, None for what is not a tensor."""
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    node = helper.make_node(op_type, names, [f"y{k}" for k in range(outputs)], domain=domain, **attributes)
    given = {name: np.asarray(x) for name, x in zip(names, inputs, strict=True) if x is not None}
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in given.items()
        ],
        [
            helper.make_tensor_value_info(f"y{k}", helper.np_dtype_to_tensor_dtype(dtype), None)
            if dtype is not None
            else helper.make_empty_tensor_value_info(f"y{k}")
            for k, dtype in enumerate(types)
        ],
    )
    opsets = (
        [helper.make_opsetid(domain, version)]
        if domain == ""
        else [
            helper.make_opsetid("", 17),
            helper.make_opsetid(domain, version),
        ]
    )
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)


def assert_agrees(op_type, inputs, *, rtol=1e-5, atol=5e-6, steps=0, **call):
    """Both give the same element types, shapes and values; integers may be ``steps`` apart."""
    computed = ours(op_type, inputs, **call)
    witness = theirs(op_type, inputs, [value.dtype for value in computed], **call)
    for mine, other in zip(computed, witness, strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        if mine.dtype.kind in "iu" and steps:
            assert np.abs(mine.astype(np.int64) - other.astype(np.int64)).max(initial=0) <= steps
        elif mine.dtype == object:
            assert mine.tolist() == other.tolist()
        else:
            np.testing.assert_allclose(mine, other, rtol=rtol, atol=atol)
