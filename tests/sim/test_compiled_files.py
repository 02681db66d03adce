"""Compiled simulations whose files are damaged are compiled again; none of them is loaded or believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_hw_sim.interpreted import InterpretedSimulator
from onnx_hw_sim.lockstep.library import build_lockstep
from onnx_hw_sim.lockstep.program import TABLES
from onnx_hw_sim.lockstep.simulator import LockstepSimulator
from onnx_hw_sim.shared_library import LIBRARY, VERILOG
from onnx_hw_tools.compiled_files import RECORD, are_intact, clear, record
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
def test_every_damage_is_seen(tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    for file in ("a", "b", "lock"):
        (tmp_path / file).write_bytes(file.encode() * 100)
    record(tmp_path, ["a", "b"])
    assert are_intact(tmp_path, ["a", "b"])
    damage(tmp_path / name)
    assert not are_intact(tmp_path, ["a", "b"])
    clear(tmp_path, tmp_path / "lock")
    assert [file.name for file in tmp_path.iterdir()] == ["lock"]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", [LIBRARY, TABLES, VERILOG])
def test_a_damaged_simulation_is_compiled_again(tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    """The damaged library is not loaded: one that ends early would kill this process."""
    circuit, given = DEAD.circuit(), [stimulus(DEAD, 2, seed=6)]
    library = build_lockstep(circuit, tmp_path)
    damage(library.parent / name)
    (seen,) = LockstepSimulator.build(circuit, tmp_path).run_together(given)
    assert_same(seen, InterpretedSimulator(circuit, DEAD).run(given[0]))
