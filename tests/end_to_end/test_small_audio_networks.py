"""1-D networks of some 772 weights with a residual addition fit a small iCE40, whatever their shape is."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnx
from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.schedule.schedule_for_board import full_budget, schedule_for_board
from support.design_bench import assert_proven, prove
from support.random_audio_networks import AudioNetwork


def scheduled(seed: int, folder: Path) -> Design:
    drawn, path = AudioNetwork(seed), folder / "audio.onnx"
    onnx.save(drawn.model, str(path))
    network = flow.quantize(flow.read(path), {"audio": drawn.samples})
    return schedule_for_board(find_board("icebreaker"), network)[0]


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5, 6, 7, 8, 9])
def test_fits(seed: int, tmp_path: Path) -> None:
    design = scheduled(seed, tmp_path)
    shell = shell_cells(design.network, design.target.board, design.clock_mhz)
    assert not full_budget(design.target.board, None, shell).excess(design.with_fifos())


def test_is_proven(tmp_path: Path) -> None:
    design = scheduled(0, tmp_path)
    assert any(folding.numbers().get("blocks") for folding in design.foldings.values())
    run: Run = prove(design, frames=2)
    assert_proven(run)
