"""What a build says on its way, for whoever looks and for its report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_hw.messages.errors import ExitCode, user_error
from onnx_hw.messages.translate_error import as_user_error
from onnx_hw.report import proof_chain
from onnx_hw.report.model import Report
from onnx_hw.report.proof_chain import ChainLink
from onnx_hw.runtime.progress import Progress, Running
from onnx_hw.runtime.stage import Stage
from onnx_hw_tools.tools import Tool


class Recorder:
    """The listener of a build: hands on what it hears, and keeps it in the report.

    Attributes:
        report: so far.
        running: the stage under way.
    """

    running: Running

    def __init__(self, progress: Progress, begun: Report) -> None:
        self.progress, self.report = progress, begun

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """A stage, with its seconds; one that fails has none."""
        with self.progress.stage(stage) as self.running:
            yield
        self.note(seconds={**self.report.seconds, stage.value: round(self.running.seconds, 3)})
        if self.running.cached:
            self.note(cached=(*self.report.cached, stage.value))

    def note(self, **sections: Any) -> None:
        """Sections of the report."""
        self.report = replace(self.report, **sections)

    def note_file(self, kind: str, name: str) -> None:
        self.note(files={**self.report.files, kind: name})

    def prove(self, **links: ChainLink) -> None:
        """What became of links of the chain."""
        self.note(links=replace(self.report.links, **links))

    def fail(self, error: BaseException) -> None:
        """The stage under way ended with an exception."""
        known = as_user_error(error)
        if known is None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            known = user_error("bug", f"this is a bug of onnx-hw: {type(error).__name__}: {error}")
        self.note(failure=proof_chain.failure(self.running.stage.value, known))
        if known is not None and known.exit_code is ExitCode.MISMATCH and self.running.stage is Stage.QUANTIZE:
            self.prove(reference_golden=proof_chain.broken_reference_golden(known))

    def say(self, fact: str) -> None:
        self.running.fact = fact

    def warn(self, message: str, hint: str) -> None:
        self.progress.warn(message, hint)
        self.note(warnings=(*self.report.warnings, f"{message}; {hint}"))

    def first_run(self, tool: Tool) -> None:
        self.progress.warn(f"{tool.name} prepares itself for this machine", "only the first run takes half a minute")

    def log(self, file: Path) -> None:
        self.running.log = file
