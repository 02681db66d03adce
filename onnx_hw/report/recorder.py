"""Listener of a build that shows its progress and records it in the report."""

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
    """Listener that hands events on to ``progress`` and records them in the report.

    Attributes:
        report: the report so far.
        running: the stage that is running.
    """

    running: Running

    def __init__(self, progress: Progress, begun: Report) -> None:
        self.progress, self.report = progress, begun

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Run a stage and record its duration; a stage that fails has none."""
        with self.progress.stage(stage) as self.running:
            yield
        self.record(seconds={**self.report.seconds, stage.value: round(self.running.seconds, 3)})
        if self.running.cached:
            self.record(cached=(*self.report.cached, stage.value))

    def record(self, **sections: Any) -> None:
        """Set sections of the report."""
        self.report = replace(self.report, **sections)

    def record_file(self, kind: str, name: str) -> None:
        self.record(files={**self.report.files, kind: name})

    def set_links(self, **links: ChainLink) -> None:
        """Set links of the chain of proof."""
        self.record(links=replace(self.report.links, **links))

    def fail(self, error: BaseException) -> None:
        """Record that the running stage ended with an exception."""
        user = as_user_error(error)
        if user is None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            user = user_error("bug", f"this is a bug of onnx-hw: {type(error).__name__}: {error}")
        self.record(failure=proof_chain.failure(self.running.stage.value, user))
        if user is not None and user.exit_code is ExitCode.MISMATCH and self.running.stage is Stage.QUANTIZE:
            self.set_links(reference_golden=proof_chain.broken_reference_golden(user))

    def status(self, fact: str) -> None:
        self.running.fact = fact

    def warn(self, message: str, hint: str) -> None:
        self.progress.warn(message, hint)
        self.record(warnings=(*self.report.warnings, f"{message}; {hint}"))

    def first_run(self, tool: Tool) -> None:
        self.progress.warn(
            f"{tool.name} compiles itself for this machine", "only its first run takes half a minute longer"
        )

    def log(self, file: Path) -> None:
        self.running.log = file
