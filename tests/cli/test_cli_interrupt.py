"""Ctrl-C in every stage: exit code 130, one line, nothing left running, and a folder in which the build goes on."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import onnx
import onnx_hw_boards
from onnx import TensorProto
from onnx_hw.cli.cli import main
from onnx_hw.cli.terminal import Terminal
from onnx_hw.runtime.progress import Running
from onnx_hw.runtime.stage import Stage
from onnx_hw_tools import tools
from support.qdq_models import Sketch


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The least that goes through all stages: a product of four numbers and a matrix."""
    sketch = Sketch()
    data = sketch.through_integers("x", 0.1, 3)
    weights = sketch.dequantized(np.arange(-4, 4, dtype=np.int8).reshape(4, 2), np.float32(0.5))
    scores = sketch.through_integers(sketch.node("MatMul", data, weights), 0.2, 0)
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(sketch.model([1, 4], TensorProto.FLOAT, scores, 2, TensorProto.FLOAT), path)
    return path


def command(model: Path, out: Path, last: Stage) -> list[str]:
    return ["build", str(model), "--out", str(out), "--stop-after", last.value]


def assert_interrupted(exit_code: int, said: str, stage: Stage) -> None:
    assert exit_code == 130, said
    *_, line, empty, word = said.splitlines()
    assert line.split()[1] == stage.value and line.endswith("interrupted")
    kept = "nothing is written yet" if stage is Stage.READ else "what is done is kept in "
    assert not empty and word.startswith(f"interrupted: {kept}"), word  # click ends the line of the terminal's ^C
    assert "`onnx-hw build " in word
    assert "Traceback" not in said and "error" not in said and "Exception" not in said


def assert_tidy(out: Path) -> None:
    """Nothing half done: what has a name is complete."""
    if not out.exists():
        return
    assert not [path for path in out.iterdir() if path.name.startswith(".") and path.name != ".lock"]
    assert not list(out.glob("*-failed")) and not list(out.glob("traceback*"))
    json.loads((out / "report.json").read_text())


@pytest.mark.parametrize("stage", Stage.until(Stage.SIMULATE), ids=str)
def test_ctrl_c_when_a_stage_begins(stage: Stage, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Terminal.stage

    @contextmanager
    def interrupted(self: Terminal, which: Stage) -> Iterator[Running]:
        with usual(self, which) as running:
            if which is stage:
                signal.raise_signal(signal.SIGINT)
            yield running

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(Terminal, "stage", interrupted)
        done = CliRunner().invoke(main, command(model, out, stage))
    assert_interrupted(done.exit_code, done.stderr, stage)
    assert_tidy(out)
    assert (
        CliRunner().invoke(main, command(model, out, min(stage, Stage.ASSEMBLE, key=list(Stage).index))).exit_code == 0
    )


IMPORTING = """\
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["onnx-hw", "check", {model!r}]
from onnx_hw.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["click", "onnx_hw.cli.build", "numpy"])
def test_ctrl_c_while_modules_are_imported(module: str, model: Path) -> None:
    script = IMPORTING.format(module=module, model=str(model))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 130 and "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


# ---- while a tool runs ----------------------------------------------------------------------------------------------

WRAPPER = """\
#!/bin/sh
case "$*" in *"$INTERRUPTED_CALL"*) touch {started} ;; esac
exec {real} "$@"
"""

STUBBORN = """\
#!/bin/sh
case "$*" in *"$INTERRUPTED_CALL"*) trap '' TERM; touch {started}; sleep 60 ;; esac
exec {real} "$@"
"""


SLOW = STUBBORN.replace("trap '' TERM; ", "")


class Terminal_:
    """Commands started as a shell would: each with its children in a process group of its own."""

    def __init__(self, folder: Path, script: str) -> None:
        self.started, self.mark = folder / "started", f"ONNX_HW_TEST={uuid.uuid4()}"
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.environment |= dict([self.mark.split("=")])
        onnx_hw_boards.board("ecp5")  # the programs of a chip family are known with its first board
        for name in ("yosys", "verilator", "c++", "nextpnr-ecp5", "ecppack"):
            tool = tools.find(name)
            wrapper = folder / name
            wrapper.write_text(script.format(started=self.started, real=shlex.join(tool.command)))
            wrapper.chmod(0o755)
            self.environment |= {tools.CATALOGUE[name].variable: str(wrapper), **dict(tool.environment)}

    def start(self, arguments: list[str], call: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        """The process, ended or when a tool has been called with ``call``; ``before`` stands before the command."""
        self.started.unlink(missing_ok=True)
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "onnx_hw", *arguments],
            env={**self.environment, "INTERRUPTED_CALL": call},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        while process.poll() is None and not self.started.exists():
            time.sleep(0.01)
        return process

    def run(self, arguments: list[str], call: str = "never", *, times: int = 1) -> tuple[int, str]:
        """Exit code and standard error; Ctrl-C is pressed as soon as a tool is called with ``call``."""
        process = self.start(arguments, call)
        for _ in range(times if process.poll() is None else 0):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.5)
        _, said = process.communicate(timeout=300)
        return process.returncode, said

    def children(self) -> list[str]:
        """Command lines of all processes that descend from ours."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (place / "environ").read_bytes().split(b"\0"):
                    found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it has ended, or is somebody else's
        return found

    def assert_alone(self) -> None:
        until = time.monotonic() + 5
        while self.children() and time.monotonic() < until:
            time.sleep(0.05)
        assert not self.children()


CALLS = (
    (Stage.SIMULATE, "write_verilog"),  # yosys
    (Stage.SIMULATE, "circuit0.cpp"),  # the compiler
    (Stage.SYNTHESIZE, "synth_ecp5"),
    (Stage.ROUTE, "--textcfg"),
    (Stage.PACK, "--compress"),
)


@pytest.mark.slow(minutes=0.7)
def test_ctrl_c_while_a_tool_runs(model: Path, tmp_path: Path) -> None:
    """One build, interrupted again and again; each time it comes further."""
    terminal, out = Terminal_(tmp_path, WRAPPER), tmp_path / "out"
    stages, came_to = list(Stage), Stage.READ
    for stage, call in CALLS:
        code, said = terminal.run(command(model, out, Stage.PACK), call)
        assert terminal.started.exists(), said
        assert_interrupted(code, said, stage)
        terminal.assert_alone()
        assert_tidy(out)
        for before in (Stage.SYNTHESIZE, Stage.GATES, Stage.ROUTE):
            line = re.search(rf" {before.value} .* (\S+)$", said, re.MULTILINE)
            if line is not None and stages.index(before) < stages.index(came_to):
                assert line[1] == "cached"
        came_to = stage
    code, said = terminal.run(command(model, out, Stage.PACK))
    assert code == 0, said
    assert said.count("cached\n") == 3 and (out / "tiny.bit").stat().st_size > 10_000


def test_an_impatient_ctrl_c_leaves_no_tool_behind(model: Path, tmp_path: Path) -> None:
    """The second one ends the time that a tool is given to end by itself."""
    terminal, out = Terminal_(tmp_path, STUBBORN), tmp_path / "out"
    began = time.monotonic()
    code, said = terminal.run(command(model, out, Stage.SIMULATE), "write_verilog", times=2)
    assert terminal.started.exists(), said
    assert_interrupted(code, said, Stage.SIMULATE)
    terminal.assert_alone()
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("ignored", [(signal.SIGINT,), (signal.SIGINT, signal.SIGHUP)], ids=["background", "nohup"])
def test_what_was_ignored_at_the_start_stays_ignored(
    ignored: tuple[signal.Signals, ...], model: Path, tmp_path: Path
) -> None:
    """A build in the background goes on at Ctrl-C, under nohup also when the terminal goes; SIGTERM ends all of it."""
    terminal, out = Terminal_(tmp_path, SLOW), tmp_path / "out"
    traps = "".join(f"trap '' {number.name[3:]}; " for number in ignored)
    ignoring = ["sh", "-c", f'{traps}exec "$@"', "sh"]
    process = terminal.start(command(model, out, Stage.SIMULATE), "write_verilog", ignoring)
    for number in ignored:
        os.killpg(process.pid, number)
    time.sleep(0.5)
    assert process.poll() is None and terminal.children()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("ended by SIGTERM: what is done is kept"), said
    terminal.assert_alone()
    assert_tidy(out)
