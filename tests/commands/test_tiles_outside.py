"""Build of a network with convolutions whose weights come from the flash of a board, each once for a tile of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx
import onnx_hw
from onnx import TensorProto, helper, numpy_helper
from onnx_hw.assemble.design_file import read_design
from onnx_hw.ir import golden
from onnx_hw.ops.matmul import MatMul

SAMPLES = np.random.default_rng(1).normal(size=(6, 1, 3, 8, 8)).astype(np.float32)

LAYERS = ((3, 8, 3, 2, 1), (8, 16, 3, 2, 1), (16, 48, 1, 1, 1), (48, 48, 3, 1, 48), (48, 24, 1, 1, 1))
"""Inputs, outputs, kernel, stride and groups: an image of 2 × 2 pixels is widened, filtered and narrowed again."""


def convolutions() -> onnx.ModelProto:
    """Return x[1,3,8,8] → Conv, Relu → … → Conv → y[1,24,2,2], with random floats."""
    random, nodes, constants, tensor = np.random.default_rng(0), [], [], "x"
    for k, (inputs, outputs, size, stride, groups) in enumerate(LAYERS):
        kernel = random.normal(size=(outputs, inputs // groups, size, size)) / np.sqrt(inputs // groups * size * size)
        constants += [numpy_helper.from_array(kernel.astype(np.float32), f"w{k}")]
        constants += [numpy_helper.from_array(random.normal(size=outputs).astype(np.float32) / 9, f"b{k}")]
        padded: dict[str, Any] = {"pads": [size // 2] * 4, "strides": [stride] * 2, "group": groups}
        last = k == len(LAYERS) - 1
        nodes.append(
            helper.make_node("Conv", [tensor, f"w{k}", f"b{k}"], ["y" if last else f"s{k}"], f"conv{k}", **padded)
        )
        if not last:
            nodes.append(helper.make_node("Relu", [f"s{k}"], [tensor := f"h{k}"], f"relu{k}"))
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 24, 2, 2])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> onnx_hw.Build:
    return onnx_hw.build(
        convolutions(),
        board="ulx3s",
        calibration=SAMPLES,
        memory="flash",
        stop_after="simulate",
        witness=False,
        out=tmp_path_factory.mktemp("tiled"),
    )


def test_every_value_and_every_firing_agrees(built: onnx_hw.Build) -> None:
    simulation = built.report.simulation
    assert simulation is not None and (simulation.mismatches, simulation.firing_mismatches) == (0, 0)
    assert simulation.values_compared > 500 and simulation.firings_compared > 10_000


def test_each_weight_comes_once_a_frame(built: onnx_hw.Build) -> None:
    """The convolutions of four pixels lie outside, one tile each."""
    design = read_design(built.folder).design
    products = [(node.name, node.operator) for node in design.network.nodes if isinstance(node.operator, MatMul)]
    tiles = {name.split("/")[0]: operator.tile for name, operator in products if operator.taped}
    assert tiles == {"conv1": 4, "conv2": 4, "conv4": 4}
    assert design.tape is not None and design.tape.used_bytes == 16 * 72 + 16 * 48 + 48 * 24


def test_the_flash_sets_the_pace(built: onnx_hw.Build) -> None:
    design, simulation = read_design(built.folder).design, built.report.simulation
    assert simulation is not None
    assert design.interval == design.tape_cycles
    assert design.interval <= simulation.interval_cycles <= 1.02 * design.interval


@pytest.mark.slow
def test_the_whole_chip_computes_as_golden(built: onnx_hw.Build) -> None:
    """Let frames pass the simulated link: the host puts tiles of results in their places."""
    network = read_design(built.folder).design.network
    result = onnx_hw.infer(built.folder, SAMPLES[:2], port="sim")
    np.testing.assert_array_equal(result["y"], golden.run(network, {"x": SAMPLES[:2]})["y"])
