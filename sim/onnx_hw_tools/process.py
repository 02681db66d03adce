"""Running programs: output kept in a log, several at a time, none left behind."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAST_LINES = 12
GRACE_SECONDS = 3.0  # between the request to end and the kill
POLL_SECONDS = 0.01  # between two looks at the running programs
ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


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


def python_command(tool: str, module: str, *arguments: str, cwd: Path, log: Path) -> Command:
    """Return the command that runs a module in another Python process, which imports from where this one does."""
    argv = (sys.executable or "python", "-m", module, *arguments)
    return Command(tool, argv, cwd, log, (("PYTHONPATH", os.pathsep.join(_absolute_roots())),))


def _absolute_roots() -> list[str]:
    """Return the folders that Python imports from; no relative ones where the current folder is gone."""
    try:
        return [os.path.abspath(entry) for entry in sys.path if entry]
    except FileNotFoundError:
        return [entry for entry in sys.path if os.path.isabs(entry)]


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


class ToolCancelled(Exception):
    """The caller does not want the work any more."""


_owner: ContextVar[str] = ContextVar("owner", default="")
_cancelled: set[str] = set()
_running: dict[str, list[subprocess.Popen[bytes]]] = {}
"""Running programs, by owner."""
_changing = threading.Lock()
"""Lock of these two: a program that begins is known before it can be cancelled."""


def called_for(owner: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Make a call whose tools end, with ``ToolCancelled``, as soon as another thread calls ``end_tools_of(owner)``."""
    token = _owner.set(owner)
    try:
        return call(*arguments)
    finally:
        _owner.reset(token)


def end_tools_of(owner: str) -> None:
    """Kill the tools that run in this process for an owner; none begins any more.

    At once, not with the grace of ``execute``: where this process is asked to end again, it does so without waiting for
    the thread that would look after them.
    """
    with _unbroken(), _changing:
        _cancelled.add(owner)
        for child in _running.get(owner, ()):
            if child.returncode is None:
                _end_group(child, kill=True)


def execute(commands: list[Command], *, parallel: int = 1, timeout: float | None = None) -> None:
    """Run all commands, at most ``parallel`` at a time, in their order.

    Whatever ends this function early (a failure, a timeout, Ctrl-C) ends every child and its children first.

    Raises:
        ToolFailed: for the first command that fails or takes longer than ``timeout`` seconds.
        ToolCancelled: see ``end_tools_of``.
    """
    waiting, owner = deque(commands), _owner.get()
    running: dict[subprocess.Popen[bytes], tuple[Command, float]] = {}
    try:
        while waiting or running:
            if owner in _cancelled:
                raise ToolCancelled
            while waiting and len(running) < parallel:
                command = waiting.popleft()
                with _unbroken(), _changing:
                    if owner in _cancelled:
                        raise ToolCancelled
                    child = _start(command)
                    running[child] = (command, time.monotonic())
                    _running.setdefault(owner, []).append(child)
            for child, (command, since) in list(running.items()):
                if not _runs(child):
                    del running[child]
                    _forget(owner, child)
                    if child.returncode:
                        raise ToolCancelled if owner in _cancelled else failed(command, _reason(child.returncode))
                elif timeout is not None and time.monotonic() - since > timeout:
                    raise failed(command, f"still running after {timeout:g} s")
            if running:
                time.sleep(POLL_SECONDS)
    finally:
        _end(list(running))
        for child in running:
            _forget(owner, child)


def _forget(owner: str, child: subprocess.Popen[bytes]) -> None:
    """Forget a child that has ended: its number may soon be another process'."""
    with _unbroken(), _changing:
        _running[owner].remove(child)
        if not _running[owner]:
            del _running[owner]


def _start(command: Command) -> subprocess.Popen[bytes]:
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("wb") as log:
        called = shlex.join(command.argv)
        log.write(f"$ {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in called)}\n".encode())
        log.flush()
        try:
            return subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env={**os.environ, **dict(command.environment)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # compilers start children of their own; the group ends as one
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows, for its Ctrl-C
            )
        except OSError as error:
            if error.errno not in (errno.ENOEXEC, errno.ENOENT, errno.EACCES):
                raise
            raise failed(command, f"cannot be started: {error.strerror}") from None


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    """Ask every process group to end; after a grace period, kill what is left of it."""
    try:
        for child in children:
            _end_group(child, kill=False)
        until = time.monotonic() + GRACE_SECONDS
        while any(map(_runs, children)) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
    finally:  # also when a second Ctrl-C ends the grace
        with _unbroken():
            for child in children:
                _end_group(child, kill=True)  # a group may outlive its first process
                child.wait()


def _runs(child: subprocess.Popen[bytes]) -> bool:
    with _unbroken():
        return child.poll() is None


@contextmanager
def _unbroken() -> Iterator[None]:
    """Delay signals that ask this process to end until after the block.

    An exception out of a signal's handler may come between any two steps: a child would be started and nobody know of
    it, or the lock that ``Popen`` holds while it looks be held for ever.
    """
    heard: list[int] = []
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():  # handlers run in no other
            for number in ENDING_SIGNALS:
                if callable(signal.getsignal(number)):
                    before[number] = signal.signal(number, lambda number, _frame: heard.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if heard:
            signal.raise_signal(heard[0])


def _end_group(child: subprocess.Popen[bytes], *, kill: bool) -> None:
    """Ask a child and its children to end, or kill them; on Windows, which has no such request, kill them."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(child.pid, signal.SIGKILL if kill else signal.SIGTERM)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
            pass
    elif child.poll() is None:
        try:
            subprocess.run(("taskkill", "/T", "/F", "/PID", str(child.pid)), capture_output=True, check=False)
        except OSError:
            pass
        child.kill()


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


def failed(command: Command, reason: str) -> ToolFailed:
    """Return the error of a command, with the last lines of its log."""
    lines = command.log.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    return ToolFailed(command.tool, reason, command.log, tuple(line for line in lines if line.strip())[-LAST_LINES:])
