"""``onnx-hw run`` on a circuit: every frame is computed, whatever the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_hw.commands.run import run
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.matmul import MatMul
from onnx_hw.prove.circuit import sharded
from onnx_hw.runtime.options import Evaluator, RunOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.schedule_request import ScheduleRequest
from support.small_model import small_model

FRAMES = 21


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A model, and more samples than a slow simulator proves a build with; in shards of 8 frames."""
    monkeypatch.setattr(sharded, "CYCLES_A_SHARD", 1)
    samples = np.random.default_rng(2).normal(0, 4, (FRAMES, 1, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=samples)
    scheduling = ScheduleRequest(multipliers=8)
    return {"model": small_model(tmp_path / "m.onnx"), "inputs": tmp_path / "x.npz", "scheduling": scheduling}


@pytest.mark.parametrize(
    "engine",
    [
        Evaluator.INTERPRETED,
        *(pytest.param(e, marks=pytest.mark.slow) for e in (Evaluator.SIMULATION, Evaluator.GATES)),
    ],
)
def test_all_frames(files: Mapping[str, Any], engine: Evaluator) -> None:
    progress = Silent()
    outputs = run(RunOptions(**files, engine=engine), progress)
    expected = run(RunOptions(**files, engine=Evaluator.GOLDEN))
    assert outputs.keys() == expected.keys()
    for name, values in expected.items():
        assert len(values) == FRAMES
        np.testing.assert_array_equal(outputs[name], values)
    assert progress.stages[-1].fact == f"{FRAMES} frames bit-exact with golden, every firing as predicted"


def test_a_circuit_that_differs(files: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden is changed behind the circuit's back, in the last shard alone."""
    golden = MatMul.golden

    def wrong(self: MatMul, *arrays: np.ndarray) -> Any:
        (sums,) = golden(self, *arrays)
        return (sums + (len(sums) == FRAMES - 16 + sharded.WARM_UP_FRAMES),)

    monkeypatch.setattr(MatMul, "golden", wrong)
    with pytest.raises(UserError, match=r"golden .* circuit") as error:
        run(RunOptions(**files, engine=Evaluator.INTERPRETED))
    assert error.value.exit_code == 4
    assert error.value.problems[0].where == "frames 14 .. 20, which begin with a reset"
