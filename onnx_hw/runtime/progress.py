"""How a flow says what it is doing, without knowing whether anybody looks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from onnx_hw.runtime.stage import Stage


@dataclass
class Running:
    """A stage under way; the flow writes into it, the terminal shows it.

    Attributes:
        fact: the one thing worth knowing, in a few words. May change while the stage runs; the last one stays.
        cached: the result was there from an earlier, identical build.
        log: file in which a tool is writing now; shown line by line with ``-v``.
        seconds: how long the stage took, once it has ended.
    """

    stage: Stage
    fact: str = ""
    cached: bool = False
    log: Path | None = None
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic, repr=False)

    @property
    def elapsed(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self.started


class Progress(Protocol):
    """Receiver of the progress of a flow."""

    def stage(self, stage: Stage) -> AbstractContextManager[Running]:
        """Run one stage: ``with progress.stage(Stage.READ) as running: ...; running.fact = "9 nodes"``."""
        ...

    def warn(self, message: str, hint: str = "") -> None:
        """Something the user should act upon; ``hint`` names the action. Mere facts belong in the report."""
        ...


@dataclass
class Silent:
    """Progress for callers from Python: nothing is printed, everything can be asked for afterwards."""

    stages: list[Running] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Running]:
        running = Running(stage)
        self.stages.append(running)
        try:
            yield running
        finally:
            running.seconds = running.elapsed

    def warn(self, message: str, hint: str = "") -> None:
        self.warnings.append(f"{message} ({hint})" if hint else message)
