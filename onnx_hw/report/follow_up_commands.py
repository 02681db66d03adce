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
    folder = Path(out or BuildOptions(model=model, board=options["board"]).folder)
    commands = {"prove it with more frames": _command("verify", folder, "--frames", str(MORE_FRAMES))}
    if report.serial is not None and "bitstream" in report.files:
        check = ("--check",) if samples_options(report) else ()
        commands["put it on the board"] = program_command(report, folder)
        commands["compute on the board"] = infer_command(report, folder, *check)
    commands["compare it with another build"] = _command("report", folder, "OTHER")
    return commands


def verify_command(report: Report, folder: Path) -> str:
    """Return the command that proves a build with its samples, else with more frames."""
    return _command("verify", folder, *(samples_options(report) or ("--frames", str(MORE_FRAMES))))


def program_command(report: Report, folder: Path) -> str:
    """Return the command that puts a build in ``folder`` on its board."""
    return _command("program", folder, *program_options(report))


def infer_command(report: Report, folder: Path, *more: str) -> str:
    """Return a command that computes on the board: with the samples of the build, else its self-test.

    Args:
        more: further options.
    """
    return _command("infer", folder, *(samples_options(report) or ("--self-test",)), *more)


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


def _command(name: str, folder: Path, *options: str) -> str:
    return shlex.join(["onnx-hw", name, str(folder), *options])
