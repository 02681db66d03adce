"""``onnx-hw run --engine board``: the whole chip behind a port, by the driver; and a board without a link."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

from onnx import TensorProto
from onnx_hw.commands.run import run
from onnx_hw.runtime.options import Evaluator, RunOptions
from support.cli_runner import call
from support.fixture_paths import EXAMPLES
from support.onnx_files import model, tensor, value, write


@pytest.mark.slow
def test_the_chip_computes_what_golden_does(tmp_path: Path) -> None:
    """LogSoftmax is no part of the driver: this host has the compiler."""
    draw = np.random.default_rng(1)
    weights = tensor("w", TensorProto.FLOAT, (6, 4), draw.normal(size=24).astype(np.float32))
    nodes = [make_node("MatMul", ["x", "w"], ["s"]), make_node("LogSoftmax", ["s"], ["y"])]
    sides = {"inputs": [value("x", (1, 6))], "outputs": [value("y", (1, 4))]}
    path, samples = write(tmp_path, model(nodes, constants=[weights], **sides)), tmp_path / "x.npz"
    np.savez(samples, x=draw.normal(size=(5, 1, 6)).astype(np.float32))
    found, wanted = (
        run(RunOptions(model=path, inputs=samples, engine=engine, board="icebreaker", calibration=samples))
        for engine in (Evaluator.BOARD, Evaluator.GOLDEN)
    )
    assert found["y"].shape == (5, 1, 4) and np.array_equal(found["y"], wanted["y"])


def test_a_board_without_a_link() -> None:
    digits = EXAMPLES / "digits"
    said = call("run", digits / "digits.onnx", "--inputs", digits / "digits_test.npz", "--engine", "board")
    assert said.exit_code == 1 and "`ecp5` has none" in said.output and "--board icebreaker" in said.output
