"""All commands on a system without what POSIX alone has: what Windows lacks is taken away from a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.cli.cli import main
from support.small_model import small_model

SCRIPT = """
import json, os, signal, sys

import serial  # chooses the system's ports by the system's name, which stays

for module in ("fcntl", "pty", "termios", "tty", "resource", "pwd", "grp"):
    sys.modules[module] = None
for name in ("killpg", "openpty", "getuid", "fork", "setsid", "getpgid", "O_NONBLOCK", "O_NOFOLLOW"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "pthread_kill"):
    delattr(signal, name)

from click.testing import CliRunner
from onnx_hw.cli.cli import main

for arguments in json.load(sys.stdin):
    done = CliRunner().invoke(main, arguments)
    print(json.dumps((done.exit_code, done.stdout, done.stderr)), flush=True)
"""
"""Program that calls the commands on its standard input, and prints what each answers."""

QUICK: dict[str, tuple[list[str], int]] = {
    "boards": (["boards"], 0),
    "build": (["build", "m.onnx", "--board", "icebreaker", "--inputs", "x.npz", "--stop-after", "schedule"], 0),
    "cache": (["cache", "--store", "store"], 0),
    "check": (["check", "m.onnx"], 0),
    "doctor": (["doctor"], 0),
    "example": (["example", "digits"], 0),
    "explore": (["explore", "m.onnx", "--stop-after", "schedule", "--jobs", "1"], 0),
    "infer": (["infer", "m-icebreaker", "--inputs", "x.npz"], 1),
    "ops": (["ops"], 0),
    "program": (["program", "m-icebreaker", "--dry-run"], 1),
    "report": (["report", "m-icebreaker", "--no-open"], 0),
    "run": (["run", "m.onnx", "--inputs", "x.npz"], 0),
    "update": (["update", "m-icebreaker", "m.onnx"], 1),
    "verify": (["verify", "m-icebreaker", "--engine", "interpreted", "--stalls", "none"], 0),
}
"""Arguments and exit codes of the commands, by name: those with 1 need more of a build than there is."""

SLOW = [
    ["build", "m.onnx", "--board", "icebreaker", "--inputs", "x.npz", "--stop-after", "simulate"],
    ["infer", "m-icebreaker", "--inputs", "x.npz", "--port", "sim", "--check"],
    ["verify", "m-icebreaker", "--frames", "4", "--jobs", "2"],
]


def answers(commands: list[list[str]], folder: Path) -> list[tuple[int, str, str]]:
    """Return exit code, standard output and standard error of each command, called in ``folder``."""
    small_model(folder / "m.onnx")
    np.savez(folder / "x.npz", x=np.zeros((2, 1, 8), np.float32))
    roots = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    called = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(commands),
        cwd=folder,
        env={**os.environ, **roots},
        capture_output=True,
        text=True,
        check=False,
    )
    assert called.returncode == 0, called.stderr
    return [tuple(json.loads(line)) for line in called.stdout.splitlines()]


def test_every_command(tmp_path: Path) -> None:
    assert sorted(QUICK) == sorted(main.commands), "a new command belongs into this test"
    commands = [arguments for arguments, _ in QUICK.values()]
    for (name, (_, code)), done in zip(QUICK.items(), answers(commands, tmp_path), strict=True):
        assert done[0] == code, (name, done)
        assert "bug of onnx-hw" not in done[2]


@pytest.mark.slow
def test_programs_and_a_simulated_board(tmp_path: Path) -> None:
    build, infer, verify = answers(SLOW, tmp_path)
    assert build[0] == infer[0] == verify[0] == 0, (build, infer, verify)
    assert "cycles of the whole chip, bit by bit" in infer[2]
