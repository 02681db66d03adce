"""The command line called in this process, with all that it calls or with a stand-in for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from onnx_hw.cli.cli import main
from onnx_hw.cli.session import Workshop


def call(*arguments: object, by: Workshop | None = None) -> Result:
    """What a command prints, and its exit code."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], obj=by)


class Instead(Workshop):
    """Other functions in place of those that the commands call; whatever was asked for stands in ``asked``."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self.asked: list[Any] = []
        for name, function in functions.items():
            setattr(self, name, self._noted(function))

    def _noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(options: Any, *progress: Any) -> Any:
            self.asked.append(options)
            return function(options, *progress)

        return noted
