"""Listener of a step of the pipeline, for everything that is not in its result; the default one ignores all."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from onnx_hw_tools.tools import Tool


class Listener(Protocol):
    """Hears what happens on the way."""

    def status(self, fact: str) -> None:
        """Report the progress of the step in a few words; the last report stays."""
        ...

    def warn(self, message: str, hint: str) -> None:
        """Something the user should act upon; ``hint`` names the action."""
        ...

    def first_run(self, tool: Tool) -> None:
        """Report that a tool prepares itself for this machine, which takes a while."""
        ...

    def log(self, file: Path) -> None:
        """Report the file into which a tool writes its log from now on."""
        ...


class NullListener:
    """Listens to nothing."""

    def status(self, fact: str) -> None: ...
    def warn(self, message: str, hint: str) -> None: ...
    def first_run(self, tool: Tool) -> None: ...
    def log(self, file: Path) -> None: ...


NULL_LISTENER = NullListener()
