"""Accuracy and noise in an exploration: measured once for each setting of the integers, and part of the front."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.commands.explore.grid import Choice, ChoiceGrid
from onnx_hw.commands.explore.row import ExploreRow, State, with_front
from onnx_hw.runtime.options import BuildOptions, QuantizeOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest, SpeedGoal
from onnx_hw_boards.cells import Cells
from support.cli_runner import call
from support.qdq_models import Sketch


def row(number: int, luts: int, fps: float, **quality: float) -> ExploreRow:
    cells = Cells(lut=luts, ff=0, dsp=0, bram=0, logic=luts)
    return ExploreRow(number, Choice(), "", State.PLANNED, interval=9, estimate=cells, frames_per_second=fps, **quality)


@pytest.mark.parametrize("name", ["accuracy", "sqnr_db"])
def test_the_front_is_over_quality_too(name: str) -> None:
    """What is larger and slower is in front where it loses less; a row that is worse in all three is not."""
    rows = [row(1, 100, 50.0, **{name: 0.5}), row(2, 200, 40.0, **{name: 0.9}), row(3, 300, 40.0, **{name: 0.8})]
    assert [each.best for each in with_front(rows)] == [True, True, False]
    assert [each.best for each in with_front(replace(each, **{name: None}) for each in rows)] == [True, False, False]


def test_latency_counts_where_a_choice_asks_for_it() -> None:
    """What is larger and slower is in front then if a frame alone is done sooner; at one clock, 100 MHz."""
    asking = Choice(scheduling=ScheduleRequest(fastest=SpeedGoal.LATENCY))
    rows = [replace(row(1, 100, 50.0), latency=900), replace(row(2, 200, 40.0), latency=300)]
    rows = [replace(each, target_mhz=100.0) for each in rows]
    assert [each.best for each in with_front(rows)] == [True, False]
    assert [each.best for each in with_front([rows[0], replace(rows[1], choice=asking)])] == [True, True]
    assert rows[1].latency_us == 3.0


def test_latencies_are_choices_of_their_own() -> None:
    grid = ChoiceGrid(latencies_us=(20.0, 40.0), multipliers=(1, 2))
    assert len(grid) == 4 and "--multipliers 2 --latency 40" in str(grid.choices()[-1])
    both = ChoiceGrid(fastest=(SpeedGoal.RATE, SpeedGoal.LATENCY))
    assert [str(choice) for choice in both.choices()] == ["--board ecp5", "--board ecp5 --fastest latency"]


def test_labels_decide_before_noise() -> None:
    rows = [row(1, 100, 50.0, accuracy=0.9, sqnr_db=10.0), row(2, 200, 50.0, accuracy=0.9, sqnr_db=40.0)]
    assert [each.best for each in with_front(rows)] == [True, False]


def test_goals_are_choices_of_their_own() -> None:
    settings = (QuantizeOptions(weights=4, data=8), QuantizeOptions(sqnr=35.0), QuantizeOptions(accuracy_loss=0.5))
    grid = ChoiceGrid(multipliers=(1, 2), integers=settings)
    told = [str(choice) for choice in grid.choices()]
    assert len(told) == len(grid) == 6
    assert [text.split("--board ecp5 --multipliers 2 ")[1] for text in told[3:]] == [
        "--bits weights=4,data=8", "--sqnr 35", "--accuracy-loss 0.5"
    ]  # fmt: skip
    quantizing = grid.choices()[-1].options(BuildOptions(model="m.onnx")).quantizing
    assert (quantizing.weights, quantizing.sqnr, quantizing.accuracy_loss) == (None, None, 0.5)


def test_an_exploration_measures_widths(tmp_path: Path) -> None:
    """More bits, less noise; the table, the page and the file have it, and the goals reach what they ask for."""
    random, sketch = np.random.default_rng(3), Sketch()
    weights = random.normal(0, 1, (6, 4)).astype(np.float32)
    model = sketch.write(tmp_path / "m.onnx", (1, 6), sketch.node("MatMul", "x", sketch.constant(weights)), rank=2)
    x = random.normal(0, 1, (40, 6)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, labels=(x @ weights).argmax(axis=1))
    told = "explore", model, "--stop-after", "schedule", "--calibration", tmp_path / "x.npz", "--out", tmp_path / "e"
    done = call(*told, "--bits", "2", "--bits", "8", "--sqnr", "20")
    assert done.exit_code == 0, done.output
    assert "accuracy" in done.stdout and "dB" in done.stdout and "--sqnr 20" in done.stdout
    rows = json.loads((tmp_path / "e" / "explore.json").read_text())["rows"]
    (few, many, goal) = rows
    assert (few["choice"]["weights"], many["choice"]["data"], goal["choice"]["sqnr"]) == (2, 8, 20.0)
    assert few["sqnr_db"] < 15 < goal["sqnr_db"] < many["sqnr_db"] and many["sqnr_db"] > 30
    assert few["accuracy"] < many["accuracy"] and many["accuracy"] >= 0.95
    page = (tmp_path / "e" / "explore.html").read_text()
    assert "accuracy, %" in page and "signal to noise, dB" in page


def test_one_setting_without_labels_has_noise_alone(tmp_path: Path) -> None:
    random, sketch = np.random.default_rng(3), Sketch()
    weights = random.normal(0, 1, (6, 4)).astype(np.float32)
    model = sketch.write(tmp_path / "m.onnx", (1, 6), sketch.node("MatMul", "x", sketch.constant(weights)), rank=2)
    np.save(tmp_path / "x.npy", random.normal(0, 1, (40, 6)).astype(np.float32))
    told = "explore", model, "--stop-after", "schedule", "--calibration", tmp_path / "x.npy", "--out", tmp_path / "e"
    done = call(*told, "--multipliers", "1,4")
    assert done.exit_code == 0 and "accuracy" not in done.stdout and "dB" in done.stdout, done.output
