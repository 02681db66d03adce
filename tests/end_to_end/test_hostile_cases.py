"""Drawn hostile cases end with a documented exit code, by themselves, and without a traceback.

``ONNX_HW_HOSTILE_CASES=300`` tries that many; a run of the tests tries one of each kind.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx_hw.commands.build import build
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.stage import Stage
from support.hostile_cases import KINDS, HostileEnd, Materials, run_case, run_command
from support.hostile_files import FILE_KINDS
from support.tiny_float_model import IMAGES, tiny_float_model

ALL_KINDS = (*KINDS, *FILE_KINDS)
CASES = int(os.environ.get("ONNX_HW_HOSTILE_CASES", str(len(ALL_KINDS))))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and links")


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Materials:
    folder = tmp_path_factory.mktemp("materials")
    onnx.save(tiny_float_model(), folder / "m.onnx")
    np.savez(folder / "samples.npz", image=IMAGES[:8])
    made = build(
        BuildOptions(
            model=folder / "m.onnx",
            board="icebreaker",
            calibration=folder / "samples.npz",
            out=folder / "b",
            stop_after=Stage.SIMULATE,
        )
    )
    return Materials(folder / "m.onnx", folder / "samples.npz", made.folder)


@pytest.mark.parametrize("seed", range(CASES))
def test_it_ends_as_documented(seed: int, materials: Materials, tmp_path: Path) -> None:
    end = run_case(ALL_KINDS[seed % len(ALL_KINDS)], seed, materials, tmp_path)
    assert end.fault == "", f"{end.fault}: {end.words}\n{end.said[-3000:]}"


def test_a_fault_is_recognized() -> None:
    assert HostileEnd((), 70, "").fault and HostileEnd((), None, "").fault and HostileEnd((), -11, "").fault
    assert HostileEnd((), 1, "Traceback (most recent call last):").fault
    assert not HostileEnd((), 1, "error[argument]: ...").fault


@pytest.mark.parametrize("command", [["verify", "b"], ["program", "b", "--dry-run"], ["report", "b", "--no-open"]])
def test_a_pipe_in_place_of_a_report_keeps_nobody_waiting(
    command: list[str], materials: Materials, tmp_path: Path
) -> None:
    shutil.copytree(materials.build, tmp_path / "b")
    (tmp_path / "b" / "report.json").unlink()
    os.mkfifo(tmp_path / "b" / "report.json")
    end = run_command(command, tmp_path)
    assert end.fault == "" and end.code == 1, end
