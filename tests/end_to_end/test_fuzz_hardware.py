"""Mutants of small networks through ``check`` and ``run``: every answer in words, soon; a yes of ``check`` is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx import ModelProto, TensorProto, helper, numpy_helper
from support.fuzzing import outcome
from support.mutations import float_network, mutant, quantized_network

LONGEST = 5.0  # seconds


def survive(folder: Path, numbers: range) -> None:
    """A mutant that fails is drawn again by its number: ``mutant(number)``."""
    stages = set()
    for number in numbers:
        found = outcome(mutant(number), folder)
        assert not found.fault, (number, found)
        assert found.seconds < LONGEST, (number, found)
        stages.add(found.stage)
    assert stages >= {"refused", "run"}


@pytest.mark.parametrize("seed", range(2))
def test_what_is_changed_can_be_built(tmp_path: Path, seed: int) -> None:
    for network in (float_network, quantized_network):
        found = outcome(network(seed), tmp_path)
        assert (found.stage, found.fault) == ("run", "")


def test_mutants(tmp_path: Path) -> None:
    survive(tmp_path, range(20))


@pytest.mark.slow
def test_more_mutants(tmp_path: Path) -> None:
    """Thousands of others: ``benchmarks/fuzz_models.py``."""
    survive(tmp_path, range(1000, 1040))


def changed(kind: str) -> ModelProto:
    """A quantized convolution with one thing that no lowering may stumble over."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["i", "s"], ["w"]),
        helper.make_node("Conv", ["d", "w"], ["c"], pads=[0, 0, -1, 1] if kind == "a negative pad" else [0] * 4),
        helper.make_node("Clip", ["c", "low"], ["y"]),
    ]
    constants = {
        "s": np.float32(0.1),
        "z": np.zeros(0 if kind == "an empty zero point" else (), np.int8),
        "i": np.ones((2, 1, 2, 2), np.int8),
        "low": np.zeros(0 if kind == "an empty bound" else (), np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "changed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None if kind == "no shape" else [1, 1, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("kind", ["nothing", "a negative pad", "an empty zero point", "an empty bound", "no shape"])
def test_what_mutants_have_found(tmp_path: Path, kind: str) -> None:
    assert not outcome(changed(kind), tmp_path).fault
