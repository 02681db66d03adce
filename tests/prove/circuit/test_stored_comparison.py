"""Comparisons that a build keeps: only of what agreed, only for equal inputs, with nested values of their own types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.prove.circuit import stored_comparison
from onnx_hw.prove.circuit.gate_level import GateLevel, NetActivity
from onnx_hw.prove.circuit.stored_comparison import compared_once
from onnx_hw.runtime.build_folder import opened

AGREES = GateLevel(3, 2, 4, 100, 40, 10, 0, activity={"core": NetActivity(7, 0.5)})
FRAMES = {"x": np.arange(4)}


def test_only_agreement_is_stored_and_only_for_the_same_frames_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[GateLevel] = []

    def compared(result: GateLevel, frames: dict[str, np.ndarray] = FRAMES) -> GateLevel:
        def compare() -> GateLevel:
            asked.append(result)
            return result

        with opened(tmp_path / "build") as build:
            return compared_once(build, "gates", {"netlist": "a"}, frames, GateLevel, compare)

    differs = replace(AGREES, wrong=1, difference="a value")
    assert compared(differs) == differs and compared(differs) == differs and len(asked) == 2
    assert compared(AGREES) == AGREES and len(asked) == 3
    assert compared(differs) == replace(AGREES, cached=True) and len(asked) == 3
    assert compared(AGREES, {"x": np.arange(5)}) == AGREES and len(asked) == 4
    monkeypatch.setattr(stored_comparison, "code_digest", lambda: "of a driver that has changed")
    assert compared(differs, {"x": np.arange(5)}) == differs and len(asked) == 5


def test_the_code_of_the_driver_golden_and_the_simulator_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = stored_comparison.code_digest()
    stored_comparison.code_digest.cache_clear()
    assert stored_comparison.code_digest() == whole
    for package in stored_comparison.PACKAGES:
        others = tuple(other for other in stored_comparison.PACKAGES if other != package)
        monkeypatch.setattr(stored_comparison, "PACKAGES", others)
        stored_comparison.code_digest.cache_clear()
        assert stored_comparison.code_digest() != whole
        monkeypatch.undo()
    stored_comparison.code_digest.cache_clear()
