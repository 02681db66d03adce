"""Ranges of drawn inputs, whatever scale a file has."""

from __future__ import annotations

from math import inf, isfinite, nan

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.prove.model.frames import ranges_to_draw
from onnx_hw.runtime.options import ReadOptions


@pytest.mark.parametrize("scale", [0.5, -0.5, 0.0, 3e38, inf, -inf, nan])
def test_a_range_goes_from_a_finite_number_to_a_greater_one(tmp_path, scale):
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="d"),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [
            numpy_helper.from_array(np.array(scale, np.float32), "s"),
            numpy_helper.from_array(np.array(3, np.int8), "z"),
        ],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    found = list(ranges_to_draw(flow.read(path, ReadOptions(lenient=True)).graph))
    assert found and all(isfinite(high - low) and low <= high for ranges in found for low, high in ranges)
    if scale == 0.5:
        assert found[0] == [(-65.5, 62.0)]
