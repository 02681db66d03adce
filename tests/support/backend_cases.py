"""ONNX's own backend cases, and their expectations compared with ours."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx.backend.test
from onnx.backend.test.case.node import collect_testcases

import onnx
from onnx import numpy_helper
from onnx_hw.onnx.evaluate.check_inputs import check_feeds
from onnx_hw.onnx.operators.evaluate import evaluate

DATA = Path(onnx.backend.test.__file__).parent / "data"


@cache
def node_cases():
    """Every case of a single operator, or of its expansion into others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # computing some expectations warns of overflow
        return collect_testcases(None)


def plain(value):
    """A value of a case as the reference engine holds it."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        value = numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        value = numpy_helper.to_optional(value)
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "UST":
        return value.astype(object)
    return value


def stored(path, kind=onnx.TensorProto):
    """A value in a file of the cases; the files do not say whether they hold a tensor, a sequence or an optional."""
    message = kind()
    message.ParseFromString(path.read_bytes())
    return plain(message)


def assert_same(computed, expected, rtol, atol):
    """Equal in element type, shape and, within the tolerances of the case, in value."""
    if isinstance(expected, list):
        assert isinstance(computed, list)
        assert len(computed) == len(expected)
        for one, other in zip(computed, expected, strict=True):
            assert_same(one, other, rtol, atol)
    elif expected is None:
        assert computed is None
    else:
        assert computed.dtype == expected.dtype
        assert computed.shape == expected.shape
        if expected.dtype.kind == "O":
            assert computed.tolist() == expected.tolist()
        else:
            narrow = expected.dtype.kind == "V"
            np.testing.assert_allclose(
                computed.astype(np.float32) if narrow else computed,
                expected.astype(np.float32) if narrow else expected,
                rtol=rtol,
                atol=atol,
            )


def assert_case(graph, inputs, outputs, rtol=1e-3, atol=1e-7):
    """That a graph computes the outputs of a case, both in the graph's order."""
    feeds = {value.name: plain(array) for value, array in zip(graph.inputs, inputs, strict=True)}
    names = [value.name for value in graph.outputs]
    results = evaluate(graph, check_feeds(graph, feeds), names)
    for name, expected in zip(names, outputs, strict=True):
        assert_same(results[name], plain(expected), rtol, atol)
