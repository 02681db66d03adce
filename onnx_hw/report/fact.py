"""Line of a name and a text for the terminal: wrapped under itself where the terminal is narrow, one line in a pipe."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

MIN_TEXT_WIDTH = 20  # characters; a terminal without room for them next to the name cuts the text off


@dataclass(frozen=True)
class Fact:
    """Named text, such as `` speed      69,444 frames/s``.

    Attributes:
        name: name of the fact; may be empty.
        text: any number of lines, which stay apart.
        width: width of the column of names, in characters.
    """

    name: str
    text: Text
    width: int = 10

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.text.split("\n", allow_blank=True)
        if console.is_terminal:
            room = max(MIN_TEXT_WIDTH, options.max_width - self.width - 2)
            lines = type(lines)(part for line in lines for part in line.wrap(console, room, overflow="fold"))
        for k, line in enumerate(lines):
            head = Text(f" {'' if k else self.name:<{self.width}} ")
            head.no_wrap, head.overflow = True, "ignore"
            yield head.append_text(line)
