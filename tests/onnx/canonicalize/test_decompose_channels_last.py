"""Operators on integers whose channels are innermost, as onnxruntime writes them for some processors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.mac_counts import macs_in_hardware
from onnx_hw.onnx.evaluate import reference
from onnx_hw.ops.rearrange import Rearrange

DOMAIN = "com.microsoft"


def written(folder: Path, rank: int, seed: int) -> Path:
    """Two convolutions, an average and another over all places; ``rank`` counts the axes of the data."""
    random = np.random.default_rng(seed)
    space, ones = [7, 6][: rank - 2], [1] * (rank - 2)
    constants = {
        "s": np.float32(0.03), "z": np.uint8(120), "t": np.array(0.02, np.float32), "n": np.int8(0),
        "w": random.integers(-90, 90, (5, 3, *(3 for _ in space))).astype(np.int8),
        "ws": random.uniform(0.005, 0.02, 5).astype(np.float32), "wz": np.zeros(5, np.int8),
        "b": random.integers(-3000, 3000, 5).astype(np.int32),
        "v": random.integers(-90, 90, (5, 1, *(2 for _ in space))).astype(np.int8),
    }  # fmt: skip

    def node(op_type: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(
            op_type, inputs, [output], f"the_{output}", domain=DOMAIN, channels_last=1, **attributes
        )

    grid = ["s", "z"]
    nodes = [
        node("QLinearConv", ["x", *grid, "w", "ws", "wz", *grid, "b"], "a", pads=[1] * 2 * len(space)),
        node("QLinearConv", ["a", *grid, "v", "t", "n", *grid], "d", group=5),
        node("QLinearAveragePool", ["d", *grid, *grid], "e", kernel_shape=[2, *ones[1:]]),
        node("QLinearGlobalAveragePool", ["e", *grid, *grid], "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "channels_last",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, *space, 3])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, *ones, 5])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("rank", [3, 4])
def test_they_become_hardware_as_they_are(rank: int, tmp_path: Path) -> None:
    for seed in range(3):
        model = flow.read(written(tmp_path, rank, seed))
        network = flow.quantize(model)
        assert macs_in_hardware(network) == 1.0 and network.tail is None
        assert not any(isinstance(node.operator, Rearrange) for node in network.nodes)
        shape = model.graph.inputs[0].shape
        frames = {"x": np.random.default_rng(seed).integers(0, 256, (6, *shape)).astype(np.uint8)}  # type: ignore[misc]
        found = golden.run(network, frames)["y"].astype(np.int64)
        wanted = np.stack([reference.run(model, {"x": frame})["y"] for frame in frames["x"]]).astype(np.int64)
        assert found.shape == wanted.shape and wanted.std() > 0
        assert np.abs(found - wanted).max() <= 1
