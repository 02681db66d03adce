"""What is seen on a terminal, in a pipe, and by a reader that has gone away."""

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from onnx_hw.cli.terminal import Terminal, duration
from onnx_hw.messages.errors import Problem
from onnx_hw.runtime.stage import Stage


def test_durations():
    assert [duration(s) for s in (0.04, 61.23, 99.94, 100, 839.2, 3600)] == [
        "0.0 s", "61.2 s", "99.9 s", "1 min 40 s", "13 min 59 s", "60 min 00 s",
    ]  # fmt: skip


def test_plain_lines(capsys):
    terminal = Terminal()
    terminal.expect(Stage.until(Stage.QUANTIZE))
    with terminal.stage(Stage.READ) as running:
        running.fact = "reading"
        running.fact = "9 nodes"
    with terminal.stage(Stage.PACK) as running:  # not expected: no number
        running.fact = "a fact " * 30
    first, second = capsys.readouterr().err.splitlines()
    assert first == f" 1/2  read       {'9 nodes':<80}    0.0 s"
    assert second.startswith(" pack       a fact a fact")
    assert "\x1b" not in first + second


@pytest.mark.parametrize(("raised", "said"), [(ValueError, "failed"), (KeyboardInterrupt, "interrupted")])
def test_a_stage_that_does_not_end_well_keeps_its_line(capsys, raised, said):
    terminal = Terminal()
    with pytest.raises(raised), terminal.stage(Stage.ROUTE):
        raise raised
    assert capsys.readouterr().err.split() == ["route", said]


def test_a_log_is_shown_while_it_grows(capsys, tmp_path):
    """The first line is on the terminal before the stage ends; the file may move, and another one may follow."""
    terminal = Terminal(verbose=True)
    log, moved, second = tmp_path / "first.log", tmp_path / "moved.log", tmp_path / "second.log"
    seen = threading.Event()
    told = terminal.err.print

    def noticed(*parts, **settings):
        told(*parts, **settings)
        if "one" in str(parts[0]):
            seen.set()

    terminal.err.print = noticed  # type: ignore[method-assign]
    with terminal.stage(Stage.SYNTHESIZE) as running:
        running.log = log  # named before it is written
        log.write_text("one\ntw")
        assert seen.wait(10)
        with log.open("a") as file:
            file.write("o\nlast words")
        log.rename(moved)
        second.write_text("another tool\n")
        running.log = second
    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert lines[:-1] == ["one", "two", "last words", "another tool"]


def test_without_verbose_no_log_is_shown(capsys, tmp_path):
    log = tmp_path / "log"
    log.write_text("hidden\n")
    with Terminal().stage(Stage.ROUTE) as running:
        running.log = log
    assert "hidden" not in capsys.readouterr().err


SCRIPT = """
import time
from onnx_hw.runtime.options import Stage
from onnx_hw.cli.terminal import Terminal
terminal = Terminal()
terminal.expect((Stage.READ,))
with terminal.stage(Stage.READ) as running:
    running.fact = "under way"
    time.sleep(0.4)
    running.fact = "done"
terminal.warn("act", "so")
terminal.note("a build of a model", "→ a folder for a board")
"""


def on_a_terminal(**environment):
    """What the script writes to a pseudo-terminal."""
    ours, theirs = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**plain, "TERM": "xterm", "COLUMNS": "80", "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # how Linux says that the other side is closed
        pass
    assert child.wait(20) == 0
    os.close(ours)
    return written.decode()


def test_a_live_line_is_rewritten_and_kept():
    text = on_a_terminal()
    assert "under way" in text
    assert text.index("under way") < text.index("done")
    assert "\x1b[2K" in text  # the line was erased in between
    assert "\x1b[33mwarning" in text


@pytest.mark.parametrize(("columns", "between"), [("41", " "), ("40", f"\r\n{'':16}")])
def test_a_note_that_is_too_long_is_cut_between_its_parts(columns, between):
    assert f"a build of a model{between}→ a folder for a board\r\n" in on_a_terminal(COLUMNS=columns)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_problem_is_broken_between_its_words_and_parts(monkeypatch, width):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    what, where = (
        "the chip must hold the design: " * 5,
        "; ".join(f"`conv{k}/Conv` takes {k} block RAMs" for k in range(9)),
    )
    terminal = Terminal()
    with terminal.err.capture() as caught:
        terminal.problems([Problem("too-big", what.strip(), where, "use fewer lanes")])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", caught.get()).splitlines()
    assert max(map(len, lines)) <= width
    begin, hint = (
        next(k for k, line in enumerate(lines) if line.startswith(f"  {name}")) for name in ("where", "hint")
    )
    assert " ".join(" ".join(lines[:begin]).split()) == f"error[too-big]: {what.strip()}"
    assert [line[9:].strip() for line in lines[begin:hint]] == [
        f"{part}{';' * (k < 8)}" for k, part in enumerate(where.split("; "))
    ]
    assert lines[hint].rstrip() == "  hint   use fewer lanes"


def test_no_color():
    assert "\x1b[3" not in on_a_terminal(NO_COLOR="1")


@pytest.mark.parametrize("command", [["ops"], ["--help"], ["boards"]], ids=" ".join)
def test_a_reader_that_goes_away_gets_no_traceback(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "onnx_hw", *command], stdout=writing, stderr=subprocess.PIPE, timeout=60,
        cwd=Path(__file__).parent, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
    )  # fmt: skip
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode in (0, 1)
