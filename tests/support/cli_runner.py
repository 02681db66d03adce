"""The command line called in this process, with all that it calls or with a stand-in for that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner, Result

from onnx_hw.cli.cli import main

FUNCTIONS = {
    "build": "onnx_hw.commands.build.build",
    "run": "onnx_hw.commands.run.run",
    "verify": "onnx_hw.commands.verify.verify",
    "answer_for_hardware": "onnx_hw.commands.check.answer_for_hardware",
    "open": "webbrowser.open",
}
"""Functions that commands call, by the name that a test knows them by."""


class Instead:
    """Other functions in place of those that the commands call; whatever was asked for stands in ``asked``."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self.asked: list[Any] = []
        self.functions = {FUNCTIONS[name]: self._noted(function) for name, function in functions.items()}

    def _noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(options: Any, *progress: Any) -> Any:
            self.asked.append(options)
            return function(options, *progress)

        return noted


def call(*arguments: object, by: Instead | None = None) -> Result:
    """What a command prints, and its exit code."""
    with ExitStack() as patches:
        for name, function in (by.functions if by else {}).items():
            patches.enter_context(patch(name, function))
        return CliRunner().invoke(main, [str(argument) for argument in arguments])
