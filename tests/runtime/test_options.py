"""What a caller may choose, from Python: texts for paths and names, and what is refused."""

from pathlib import Path

import pytest

from onnx_hw.commands.build import build
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.options import BuildOptions, Evaluator, QuantizeOptions, RunOptions
from onnx_hw.runtime.stage import Stage
from support.fixture_paths import EXAMPLES


def test_texts_are_taken_for_paths_and_names():
    paths = {name: f"{name}.npz" for name in ("model", "out", "inputs", "calibration", "folding")}
    options = BuildOptions(**paths, stop_after="route")  # type: ignore[arg-type]
    assert options == BuildOptions(**{name: Path(path) for name, path in paths.items()}, stop_after=Stage.ROUTE)
    assert BuildOptions(model="models/x.onnx").folder == Path("x-ecp5")  # type: ignore[arg-type]
    assert BuildOptions(model=Path("x.onnx"), board="../boards/mine.py").folder == Path("x-mine")
    assert RunOptions(model="x.onnx", inputs="y.npz", engine="reference").engine is Evaluator.REFERENCE  # type: ignore[arg-type]


def test_a_build_takes_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = build(str(EXAMPLES / "digits" / "digits.onnx"), out="made", stop_after="read")
    assert made.folder == Path("made") and Path("made/report.json").is_file()
    options = BuildOptions(model=EXAMPLES / "digits" / "digits.onnx")
    assert build(options, out="other", stop_after="read").folder == Path("other")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: BuildOptions(model=None), "`model` must be a path, not None"),
        (lambda: BuildOptions(model="x", out=3), "`out` must be a path, not 3"),
        (
            lambda: BuildOptions(model="x", stop_after="rout"),
            "not 'rout'\n  where  stop_after\n  hint   did you mean `route`",
        ),
        (lambda: RunOptions(model="x", inputs=None), "`inputs` must be a path, not None"),
        (
            lambda: RunOptions(model="x", inputs="y", engine="steam"),
            "`engine` must be one of reference, golden, simulation, compiled,",
        ),
        (lambda: QuantizeOptions(sqnr=float("nan")), "the goal of a search must be a number, not nan\n  where  --sqnr"),
        (lambda: QuantizeOptions(accuracy_loss=float("nan")), "must be a number, not nan\n  where  --accuracy-loss"),
    ],
)
def test_what_is_neither(make, told):
    with pytest.raises(UserError) as refused:
        make()
    assert told in str(refused.value)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(UserError) as refused:
        BuildOptions(model="x", out=3, inputs=4, stop_after=5)  # type: ignore[arg-type]
    assert [problem.where for problem in refused.value.problems] == ["out", "inputs", "stop_after"]
