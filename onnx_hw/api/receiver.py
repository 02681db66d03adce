"""Receiver of the progress of a call from Python: nobody, the terminal, or an object of the caller's."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_hw.api.notes import warn_of
from onnx_hw.cli.terminal import Terminal
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw.runtime.stage import Stage


class _Warnings(Silent):
    """Progress that prints nothing; its warnings are those of Python."""

    def warn(self, message: str, hint: str = "") -> None:
        super().warn(message, hint)
        warn_of([(message, hint)])


def receiver(progress: bool | Progress, stages: Sequence[Stage] = ()) -> Progress:
    """Return what receives the progress of a call.

    Args:
        progress: True for a line on standard error for each stage; False for Python's warnings alone; or an object of
            the caller's.
        stages: stages that are going to run; empty where their number does not matter.
    """
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return _Warnings()
    terminal = Terminal()
    if stages:
        terminal.expect(tuple(stages))
    return terminal
