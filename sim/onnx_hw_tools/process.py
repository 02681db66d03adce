"""Running programs: output kept in a log, several at a time, none left behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

LAST_LINES = 12
GRACE = 3.0  # seconds between the request to end and the kill


@dataclass(frozen=True)
class Command:
    """One program to run.

    Attributes:
        tool: the name to use in messages.
        argv: the whole command line.
        cwd: folder it runs in.
        log: file that receives its output.
        environment: variables added to those of this process.
    """

    tool: str
    argv: tuple[str, ...]
    cwd: Path
    log: Path
    environment: tuple[tuple[str, str], ...] = ()


class ToolFailed(Exception):
    """A tool ended with an error, or did not end.

    Attributes:
        tool: its name.
        reason: ``exit code 1``, ``killed by SIGKILL``, ``still running after 60 s``.
        log: the file with everything it printed.
        last_lines: the end of that file.
    """

    def __init__(self, tool: str, reason: str, log: Path, last_lines: tuple[str, ...]):
        super().__init__(tool, reason, log, last_lines)
        self.tool = tool
        self.reason = reason
        self.log = log
        self.last_lines = last_lines

    def __str__(self) -> str:
        return "\n".join((f"{self.tool} failed ({self.reason}); its output is in {self.log}", *self.last_lines))


def execute(commands: list[Command], *, parallel: int = 1, timeout: float | None = None) -> None:
    """Run all commands, at most ``parallel`` at a time, in their order.

    Whatever ends this function early (a failure, a timeout, Ctrl-C) ends every child and its children first.

    Raises:
        ToolFailed: for the first command that fails or takes longer than ``timeout`` seconds.
    """
    waiting = deque(commands)
    running: dict[subprocess.Popen[bytes], tuple[Command, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                command = waiting.popleft()
                running[_start(command)] = (command, time.monotonic())
            for child, (command, since) in list(running.items()):
                if child.poll() is not None:
                    del running[child]
                    if child.returncode:
                        raise _failed(command, _reason(child.returncode))
                elif timeout is not None and time.monotonic() - since > timeout:
                    raise _failed(command, f"still running after {timeout:g} s")
            _wait_a_little(running)
    finally:
        _end(list(running))


def _start(command: Command) -> subprocess.Popen[bytes]:
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("wb") as log:
        called = shlex.join(command.argv)
        log.write(f"$ {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in called)}\n".encode())
        log.flush()
        return subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**os.environ, **dict(command.environment)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # compilers start children of their own; the group ends as one
        )


def _wait_a_little(running: dict[subprocess.Popen[bytes], tuple[Command, float]]) -> None:
    if running:
        try:
            next(iter(running)).wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            pass


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    """Ask every process group to end; after a grace period, kill what is left of it."""
    try:
        for child in children:
            _signal(child, signal.SIGTERM)
        until = time.monotonic() + GRACE
        for child in children:
            try:
                child.wait(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
    finally:  # also when a second Ctrl-C ends the grace
        for child in children:
            _signal(child, signal.SIGKILL)  # a group may outlive its first process
            child.wait()


def _signal(child: subprocess.Popen[bytes], what: signal.Signals) -> None:
    try:
        os.killpg(child.pid, what)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        pass


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


def _failed(command: Command, reason: str) -> ToolFailed:
    lines = command.log.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    return ToolFailed(command.tool, reason, command.log, tuple(line for line in lines if line.strip())[-LAST_LINES:])
