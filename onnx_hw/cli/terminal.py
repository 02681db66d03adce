"""Everything that is printed: one line a stage, warnings, problems, results.

Results go to standard output, all the rest to standard error. On a terminal the line of the stage under way is
rewritten until the stage ends; elsewhere only finished lines appear. Nothing depends on colour (``NO_COLOR``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from onnx_hw.cli.tail_log import follow_log
from onnx_hw.messages.errors import Problem
from onnx_hw.messages.text import legible, printable
from onnx_hw.runtime.progress import Running
from onnx_hw.runtime.stage import Stage

WIDEST = 110  # characters; a stage line on a wide terminal is still read at one glance
FACTS = 16  # characters before what is said of a stage
HINT = 9  # characters before what is said of where a problem is, and how to mend it
PLAIN_WIDTH = 160  # of tables that go to a file or a pipe


class OutputStream(Console):
    """Standard output or standard error, whose reader may go away at any time.

    Nothing that is printed is taken for markup, and nothing but rich's own styles commands the terminal.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = PLAIN_WIDTH
        reconfigure = getattr(self.file, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # an ASCII terminal is no reason to stop a build

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else Segment(legible(part.text), part.style)

    def on_broken_pipe(self) -> None:
        """Say nothing more; Python's own flush at exit must not find the pipe either."""
        self.quiet = True
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
        except (OSError, ValueError):
            pass  # not a real file


class Terminal:
    """Terminal of a command, and the ``Progress`` of what it calls.

    Attributes:
        out: standard output, for results.
        err: standard error, for everything else.
        verbose: show the tools' logs while they are written.
    """

    def __init__(self, verbose: bool = False) -> None:
        self.out, self.err = OutputStream(), OutputStream(stderr=True)
        self.verbose = verbose
        self._expected: tuple[Stage, ...] = ()

    def expect(self, stages: Iterable[Stage]) -> None:
        """Number the stages: `` 3/8  schedule``. Those of an unknown plan have no number."""
        self._expected = tuple(stages)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Running]:
        running = Running(stage)
        outcome = "interrupted"
        try:
            with self._live(running), self._log(running):
                yield running
            outcome = ""
        except Exception:
            outcome = "failed"
            raise
        finally:
            running.seconds = running.elapsed
            ended = outcome or ("cached" if running.cached else duration(running.seconds))
            self.err.print(self._line(running, ended, "red" if outcome else ""), soft_wrap=not self.err.is_terminal)

    def warn(self, message: str, hint: str = "") -> None:
        self._say(Text("warning", "yellow"), Problem("", message, hint=hint))

    def problems(self, problems: Iterable[Problem]) -> None:
        """Print all problems, with an empty line between two of them."""
        for k, problem in enumerate(problems):
            if k:
                self.err.print()
            self._say(Text(f"error[{problem.code}]", "bold red"), problem)

    def _say(self, head: Text, problem: Problem) -> None:
        """Print a message in its one form: what must be and what was, where, how to mend it.

        A terminal breaks its lines between words, and between the parts of what is said where, or as a hint.
        """
        what = "\n".join((problem.message, *problem.details()))
        parts = [(name, said) for name, said in (("where", problem.where), ("hint", problem.hint)) if said]
        if not self.err.is_terminal:
            text = Text.assemble(head, ": ", what)
            for name, said in parts:
                text.append(f"\n  {name:<6} ").append(said)
            self.err.print(text, soft_wrap=True)
            return
        self.err.print(Text.assemble(head, ": ", what))
        grid = Table.grid()
        grid.add_column(width=HINT)
        grid.add_column(overflow="fold")
        for name, said in parts:
            fits = cell_len(said) + HINT <= self.err.width
            grid.add_row(Text(f"  {name}", "cyan"), Text(said if fits else said.replace("; ", ";\n")))
        if parts:
            self.err.print(grid)

    def note(self, *parts: str) -> None:
        """Print a line on standard error; where a terminal is too narrow, a line for each part."""
        text = Text(" ".join(map(printable, parts)))
        if self.err.is_terminal and text.cell_len > self.err.width:
            text = Text(f"\n{'':{FACTS}}".join(map(printable, parts)))
        self.err.print(text, soft_wrap=True)

    def show(self, result: RenderableType, aside: bool = False) -> None:
        """Print a result on standard output; with ``aside``, where that is for data alone, on standard error."""
        stream = self.err if aside else self.out
        stream.print(result, soft_wrap=isinstance(result, Text) or not stream.is_terminal)

    def data(self, text: str) -> None:
        """Text for another program, to standard output, unchanged; letters it has no code for as JSON escapes them."""
        try:
            text.encode(self.out.encoding)
        except UnicodeEncodeError:
            text = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)
        self.out.out(text, end="", highlight=False)

    @property
    def height(self) -> int:
        """Lines that are seen at once."""
        return self.err.height

    @contextmanager
    def watching(self) -> Iterator[Callable[[RenderableType], None]]:
        """Something that changes, shown while it does where there is a terminal; what it is called with is shown."""
        if not self.err.is_terminal:
            yield lambda shown: None
            return
        with Live(console=self.err, refresh_per_second=4, transient=True) as live:
            yield live.update

    def _live(self, running: Running) -> AbstractContextManager[object]:
        if not self.err.is_terminal:
            return nullcontext()

        def line() -> RenderableType:
            return self._line(running, duration(running.elapsed), "cyan")

        return Live(console=self.err, get_renderable=line, refresh_per_second=8, transient=True)

    def _log(self, running: Running) -> AbstractContextManager[object]:
        if not self.verbose:
            return nullcontext()
        return follow_log(running, lambda line: self.err.print(Text(f"      {line}", "dim"), soft_wrap=True))

    def _line(self, running: Running, ended: str, style: str) -> RenderableType:
        number, fact = self._number(running.stage), printable(running.fact)
        if not self.err.is_terminal:
            return Text(f"{number}{running.stage:<11}{fact:<80} {ended:>8}")
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.width = min(self.err.width, WIDEST)
        grid.add_column(width=len(number))
        grid.add_column(width=10)
        grid.add_column(ratio=1, overflow="fold")
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row(number.rstrip(), Text(running.stage, style or "bold"), Text(fact), Text(ended, style))
        return grid

    def _number(self, stage: Stage) -> str:
        if stage not in self._expected:
            return " "
        return f"{self._expected.index(stage) + 1:>2}/{len(self._expected)}  "


def duration(seconds: float) -> str:
    """Return a duration as a text: ``0.4 s``, ``61.2 s``, ``13 min 59 s``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
