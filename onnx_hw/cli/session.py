"""One call of the command line: what it works with, and how it ends."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import click

from onnx_hw.cli.error_report import explain
from onnx_hw.cli.help_groups import write_commands
from onnx_hw.cli.terminal import Terminal
from onnx_hw.cli.usage_hints import UnknownCommand
from onnx_hw.messages.errors import ExitCode


@dataclass
class CliSession:
    """One call of the command.

    Attributes:
        terminal: where it speaks.
        folder: its output folder, once that is known; the traceback of a bug goes there.
        next_step: function that returns the last line of a command that ends early: what there is, and what to do next.
    """

    terminal: Terminal = field(default_factory=Terminal)
    folder: Path | None = None
    next_step: Callable[[ExitCode], str] | None = None


class CommandLine(click.Group):
    """The group of all commands; the one place that catches everything and turns it into words and an exit code."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        write_commands({name: self.commands[name] for name in self.list_commands(context)}, formatter)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if not name.startswith("-") and self.get_command(context, name) is None and not context.resilient_parsing:
            raise UnknownCommand(name, self.commands, context)
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except EOFError as error:  # click would take it for an end of the user's input, hence for an interruption
            raise RuntimeError(f"a file ends too soon: {error}") from error

    def main(self, *arguments: Any, **settings: Any) -> NoReturn:
        session = CliSession()
        # The process ends with the call, so the collector need not look for cycles among millions of dead objects.
        atexit.register(gc.freeze)
        try:
            with _ended_politely():
                ended = super().main(*arguments, **{**settings, "standalone_mode": False, "obj": session})
            code = int(ended or ExitCode.OK)
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else ExitCode.USAGE
            if code == 128 + signal.SIGTERM:  # at SIGHUP there is no terminal any more
                step = "" if session.next_step is None else session.next_step(ExitCode.INTERRUPTED)
                session.terminal.note("ended by SIGTERM" + (f": {step}" if step else ""))
        except BaseException as error:
            ending = explain(error, session.folder)
            code = ending.exit_code
            session.terminal.problems(ending.problems)
            step = "" if session.next_step is None else session.next_step(ending.exit_code)
            if code is ExitCode.INTERRUPTED:
                session.terminal.note("interrupted" + (f": {step}" if step else ""))
            elif step:
                session.terminal.note(f"next: {step}")
        sys.exit(int(code))


@contextmanager
def _ended_politely() -> Iterator[None]:
    """Unwind the stack at SIGTERM and SIGHUP as at Ctrl-C, so that running tools end, too.

    A signal that was ignored when we were started stays ignored: a caller with ``nohup``, or in the background of a
    shell's script, wants us to outlive the terminal (SIGHUP) and its Ctrl-C (SIGINT, which Python leaves alone then).
    SIGTERM ends us there, and every tool with us.
    """
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    signals = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has no SIGHUP

    def stop(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    heeded = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
