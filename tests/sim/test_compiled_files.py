"""Compiled simulations whose files are damaged are compiled again; none of them is loaded or believed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_hw_sim.interpreted import InterpretedSimulator
from onnx_hw_sim.lockstep.library import build_lockstep
from onnx_hw_sim.lockstep.program import TABLES
from onnx_hw_sim.lockstep.simulator import LockstepSimulator
from onnx_hw_sim.shared_library import LIBRARY, VERILOG
from onnx_hw_tools.compiled_files import LOCK, RECORD, compile_once
from support.simulated_circuits import DEAD, assert_same, stimulus


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "inside").touch()


DAMAGES = (zeroed, cut, folder_instead, Path.unlink)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["a", "b", RECORD])
def test_damaged_files_are_made_again_and_others_are_not(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    made = []

    def make() -> None:
        made.append({place.name for place in tmp_path.iterdir()})
        for file in ("a", "b", "beside"):
            (tmp_path / file).write_bytes(file.encode() * 100)

    for _ in range(2):
        compile_once(tmp_path, ["a", "b"], make)
        assert made == [{LOCK}]
    damage(tmp_path / name)
    for _ in range(2):
        compile_once(tmp_path, ["a", "b"], make)
        assert made == [{LOCK}, {LOCK}]
    assert [(tmp_path / file).read_bytes() for file in ("a", "b")] == [b"a" * 100, b"b" * 100]


def link_instead(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def pipe_instead(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links")
@pytest.mark.parametrize("damage", [folder_instead, link_instead, pipe_instead], ids=lambda damage: damage.__name__)
def test_what_stands_in_the_place_of_a_lock_is_removed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    made = []

    def make() -> None:
        made.append({place.name for place in tmp_path.iterdir()})
        (tmp_path / "a").touch()

    compile_once(tmp_path, ["a"], make)
    damage(tmp_path / LOCK)
    (tmp_path / RECORD).unlink()
    compile_once(tmp_path, ["a"], make)
    assert made == [{LOCK}, {LOCK}]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", [LIBRARY, TABLES, VERILOG])
def test_a_damaged_simulation_is_compiled_again(tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    """The damaged library is not loaded: one that ends early would kill this process."""
    circuit, given = DEAD.circuit(), [stimulus(DEAD, 2, seed=6)]
    library = build_lockstep(circuit, tmp_path)
    damage(library.parent / name)
    (seen,) = LockstepSimulator.build(circuit, tmp_path).run_together(given)
    assert_same(seen, InterpretedSimulator(circuit, DEAD).run(given[0]))
