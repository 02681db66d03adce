"""The last line of every build that stopped says what there is, and a command to go on with that exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx_hw.cli.cli import main
from onnx_hw.runtime.stage import Stage
from support.cli_runner import call
from support.small_model import small_model
from support.tiny_float_model import tiny_float_model


@pytest.fixture(autouse=True)
def in_a_folder_with_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_model(tmp_path / "small.onnx")
    onnx.save(tiny_float_model(), "tiny.onnx")
    Path("broken.onnx").write_bytes(b"no model")
    np.savez("x.npz", x=np.zeros((2, 1, 8), np.float32))


def last_line(*arguments: object) -> tuple[int, str]:
    done = call("build", *arguments)
    line = [line for line in done.output.splitlines() if line.strip()][-1]
    for command in re.findall(r"`onnx-hw ([^`]+)`", line):
        words = shlex.split(command)
        options = {name for option in main.commands[words[0]].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options, command
    return done.exit_code, line


@pytest.mark.parametrize(
    ("board", "stage", "says"),
    [
        ("ecp5", Stage.READ, "`onnx-hw build small.onnx --inputs x.npz` goes on to the bitstream"),
        ("icebreaker", Stage.QUANTIZE, "`onnx-hw build small.onnx --board icebreaker --inputs x.npz` goes on"),
        ("icebreaker", Stage.SCHEDULE, "`onnx-hw verify small-icebreaker --inputs x.npz` proves this design with more"),
        ("icebreaker", Stage.ASSEMBLE, "`onnx-hw infer small-icebreaker --inputs x.npz --port sim` computes with the"),
        ("verilog", Stage.SCHEDULE, "goes on to the Verilog, which yosys writes"),
    ],
)
def test_after_stop_after(board: str, stage: Stage, says: str) -> None:
    code, line = last_line("small.onnx", "--board", board, "--inputs", "x.npz", "--stop-after", stage.value)
    assert code == 0 and line.lstrip().startswith("next ") and says in line, line


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("nowhere.onnx",), 1, "nothing is written yet; `onnx-hw example digits` writes a model to try"),
        (("broken.onnx",), 1, "nothing is written yet; `onnx-hw check broken.onnx` says what can be built"),
        (("small.onnx", "--board", "nope"), 1, "nothing is written yet; `onnx-hw check small.onnx` says"),
        (("small.onnx", "--inputs", "nowhere.npz"), 1, "nothing is written yet; `onnx-hw check small.onnx` says"),
        (
            ("small.onnx", "--multipliers", "1"),
            2,
            "small-ecp5/report.html shows what is done; once the error is",
        ),
        (("tiny.onnx",), 1, "tiny-ecp5/report.html shows what is done; once the error is mended, the build goes on"),
        (("small.onnx", "--out", "x.npz"), 1, "nothing is written yet; `onnx-hw check small.onnx` says"),
    ],
)
def test_after_an_error(arguments: tuple[str, ...], code: int, says: str) -> None:
    ended, line = last_line(*arguments)
    assert line.startswith("next: ") and says in line, line
    assert ended == code
