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
from typing import TYPE_CHECKING, Any, NoReturn

import click

from onnx_hw.cli.error_report import explain
from onnx_hw.cli.terminal import Terminal
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.options import BuildOptions, RunOptions, VerifyOptions
from onnx_hw.runtime.progress import Progress

if TYPE_CHECKING:
    from onnx_hw.commands.build import Build
    from onnx_hw.commands.explore.command import ExploreOptions
    from onnx_hw.commands.explore.result import Explored
    from onnx_hw.commands.explore.row import ExploreRow
    from onnx_hw.commands.infer import InferOptions, Inferred
    from onnx_hw.commands.verify import Verified
    from onnx_hw.samples.outputs import Outputs


class Workshop:
    """Functions behind the commands. A test that only looks at the options puts another workshop here."""

    def build(self, options: BuildOptions, progress: Progress) -> Build:
        from onnx_hw.commands.build import build

        return build(options, progress)

    def run(self, options: RunOptions, progress: Progress) -> Outputs:
        from onnx_hw.commands.run import run

        return run(options, progress)

    def verify(self, options: VerifyOptions, progress: Progress) -> Verified:
        from onnx_hw.commands.verify import verify

        return verify(options, progress)

    def explore(
        self, options: ExploreOptions, progress: Progress, changed: Callable[[tuple[ExploreRow, ...]], None]
    ) -> Explored:
        from onnx_hw.commands.explore.command import explore_model

        return explore_model(options, progress, changed)

    def infer(self, options: InferOptions, progress: Progress) -> Inferred:
        from onnx_hw.commands.infer import infer

        return infer(options, progress)

    def open(self, page: Path) -> None:
        """Show a page in the user's browser, if there is one."""
        import webbrowser

        webbrowser.open(page.as_uri())

    def check_hardware(self, options: BuildOptions) -> UserError | None:
        from onnx_hw.flow import check_hardware

        return check_hardware(options)


@dataclass
class CliSession:
    """One call of the command.

    Attributes:
        workshop: what the command calls.
        terminal: where it speaks.
        folder: its output folder, once that is known; the traceback of a bug goes there.
    """

    workshop: Workshop = field(default_factory=Workshop)
    terminal: Terminal = field(default_factory=Terminal)
    folder: Path | None = None


class CommandLine(click.Group):
    """The group of all commands; the one place that catches everything and turns it into words and an exit code."""

    def main(self, *arguments: Any, **settings: Any) -> NoReturn:
        session = CliSession(settings.pop("obj", None) or Workshop())
        # The process ends with the call, so the collector need not look for cycles among millions of dead objects.
        atexit.register(gc.freeze)
        try:
            with _ended_politely():
                ended = super().main(*arguments, **{**settings, "standalone_mode": False, "obj": session})
            code = int(ended or ExitCode.OK)
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else ExitCode.USAGE
        except BaseException as error:
            ending = explain(error, session.folder)
            code = ending.exit_code
            session.terminal.problems(ending.problems)
            if code is ExitCode.INTERRUPTED:
                session.terminal.note("interrupted")
        sys.exit(int(code))


@contextmanager
def _ended_politely() -> Iterator[None]:
    """Unwind the stack at SIGTERM and SIGHUP as at Ctrl-C, so that running tools end, too.

    A signal that was ignored when we were started stays ignored: a caller with ``nohup``, or in the background of a
    shell's script, wants us to outlive the terminal (SIGHUP) and its Ctrl-C (SIGINT, which Python leaves alone then).
    SIGTERM ends us there, and every tool with us.
    """
    signals = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()

    def stop(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    heeded = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
