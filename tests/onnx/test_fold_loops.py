"""A loop that claims to run for ever is not run while constants are folded."""

import time

import numpy as np

from onnx import TensorProto, helper, numpy_helper
from onnx_hw.onnx.evaluate.fold_constants import fold
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.load.read import read


def test_an_endless_loop_stays_a_node(tmp_path):
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]),
        ],
    )
    constants = [
        numpy_helper.from_array(np.array(2**62, dtype=np.int64), "turns"),
        numpy_helper.from_array(np.array(True), "yes"),
        numpy_helper.from_array(np.zeros(1, dtype=np.float32), "zero"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Loop", ["turns", "yes", "zero"], ["end"], body=body),
            helper.make_node("Add", ["x", "end"], ["y"]),
        ],
        "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        constants,
    )
    path = tmp_path / "endless.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    start = time.monotonic()
    folded = fold(infer(read(path)))
    assert any(node.op_type == "Loop" for node in folded.graph.nodes)
    assert time.monotonic() - start < 20  # not a speed: the alternative is never
