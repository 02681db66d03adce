"""Whom a step of the pipeline tells what is not in its result: it need not know whether anybody listens."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from onnx_hw_tools.tools import Tool


class Listener(Protocol):
    """Hears what happens on the way."""

    def say(self, fact: str) -> None:
        """Where the step stands, in a few words; the last ones stay."""
        ...

    def warn(self, message: str, hint: str) -> None:
        """Something the user should act upon; ``hint`` names the action."""
        ...

    def first_run(self, tool: Tool) -> None:
        """A tool prepares itself for this machine, which takes a while."""
        ...

    def log(self, file: Path) -> None:
        """A tool writes its log there from now on."""
        ...


class NullListener:
    """Listens to nothing."""

    def say(self, fact: str) -> None: ...
    def warn(self, message: str, hint: str) -> None: ...
    def first_run(self, tool: Tool) -> None: ...
    def log(self, file: Path) -> None: ...


NULL_LISTENER = NullListener()
