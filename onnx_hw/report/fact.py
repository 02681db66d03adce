"""A line of a name and what is said of it: wrapped under itself where the terminal is narrow, one line in a pipe."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

LEAST = 20  # characters; on a terminal that has no room for them beside the name, the rest is cut by the terminal


@dataclass(frozen=True)
class Fact:
    """`` speed      69,444 frames/s``.

    Attributes:
        name: may be empty.
        said: any number of lines, which stay apart.
        width: of the column of names.
    """

    name: str
    said: Text
    width: int = 10

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.said.split("\n", allow_blank=True)
        if console.is_terminal:
            room = max(LEAST, options.max_width - self.width - 2)
            lines = type(lines)(part for line in lines for part in line.wrap(console, room, overflow="fold"))
        for k, line in enumerate(lines):
            head = Text(f" {'' if k else self.name:<{self.width}} ")
            head.no_wrap, head.overflow = True, "ignore"
            yield head.append_text(line)
