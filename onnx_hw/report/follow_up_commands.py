"""Commands for a build that is done: verify it, put it on the board, compute there."""

from __future__ import annotations

import shlex
from pathlib import Path

import onnx_hw_boards
from onnx_hw.report.build_command import spelled_value
from onnx_hw.report.model import Report
from onnx_hw.runtime.options import BuildOptions
from onnx_hw_boards.linked_board import LinkedBoard

MORE_FRAMES = 10_000


def follow_up_commands(report: Report) -> dict[str, str]:
    """Return the commands by what they do; empty where nothing was proven."""
    options = report.asked.options if report.asked is not None else {}
    if report.simulation is None or "model" not in options:
        return {}
    out, model = options.get("out"), Path(options["model"])
    folder = str(out or BuildOptions(model=model, board=options["board"]).folder)
    commands: dict[str, tuple[str, ...]] = {
        "prove it with more frames": ("verify", folder, "--frames", str(MORE_FRAMES))
    }
    if report.serial is not None and "bitstream" in report.files:
        commands["put it on the board"] = ("program", folder, *program_options(report))
        samples = samples_options(report)
        commands["compute on the board"] = ("infer", folder, *((*samples, "--check") if samples else ("--self-test",)))
    commands["compare it with another build"] = ("report", folder, "OTHER")
    return {what: shlex.join(["onnx-hw", *words]) for what, words in commands.items()}


def program_command(report: Report, folder: Path) -> str:
    """Return the command that puts a build in ``folder`` on its board."""
    return shlex.join(["onnx-hw", "program", str(folder), *program_options(report)])


def infer_command(report: Report, folder: Path, *more: str) -> str:
    """Return a command that computes on the board: with the samples of the build, else its self-test.

    Args:
        more: further options.
    """
    return shlex.join(["onnx-hw", "infer", str(folder), *(samples_options(report) or ("--self-test",)), *more])


def samples_options(report: Report) -> tuple[str, ...]:
    """Return the options that give the samples of the build once more; empty for a build without."""
    options = report.asked.options if report.asked is not None else {}
    samples, resize = options.get("inputs"), options.get("resize")
    if not samples:
        return ()
    return "--inputs", spelled_value(samples), *(("--resize", resize) if resize else ())


def program_options(report: Report) -> tuple[str, ...]:
    """Return the options of `onnx-hw program`: a board may be programmed by flash alone, or be the user's own."""
    name = report.board.name
    if name not in onnx_hw_boards.names():
        asked = str(report.asked.options["board"]) if report.asked is not None else ""
        return "--board", spelled_value(asked) if asked.endswith(".py") else "FILE.py"
    board = onnx_hw_boards.board(name)
    return ("--flash",) if isinstance(board, LinkedBoard) and board.loader.memory is None else ()
