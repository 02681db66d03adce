"""Types of the values of options and arguments: files, choices, counts and quantities with a unit.

Each says what a wrong value must be, and its error carries the next step: ``hint``.
"""

from __future__ import annotations

import re
from typing import Any

import click

from onnx_hw.messages.text import nearest


class WrongValue(click.BadParameter):
    """Error that a value is wrong; ``hint`` is what to write instead, or empty."""

    def __init__(
        self, message: str, parameter: click.Parameter | None, context: click.Context | None, hint: str = ""
    ) -> None:
        super().__init__(message, context, parameter)
        self.hint = hint


class File(click.Path):
    """Path that a file can have: not empty, without a zero byte."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if not str(value):
            self.fail("a path must not be empty", parameter, context)
        if "\0" in str(value):
            self.fail("a path must not hold a zero byte", parameter, context)
        return super().convert(value, parameter, context)


class WordChoice(click.Choice[str]):
    """One of several words; the error suggests the word that is most like a misspelt one."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        try:
            return super().convert(value, parameter, context)
        except click.BadParameter as error:
            begun = [word for word in self.choices if str(value) and word.startswith(str(value).lower())]
            meant = begun[0] if len(begun) == 1 else nearest(str(value), self.choices)
            raise WrongValue(error.message, parameter, context, f"did you mean `{meant}`?" if meant else "") from None


class Count(click.IntRange):
    """A whole number of a range."""

    name = "whole number"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        text = str(value).strip()
        if re.fullmatch(r"[+-]?\d{1,18}", text) is None:
            hint = "`onnx-hw explore` tries several values" if re.fullmatch(r"\d+(\s*,\s*\d+)+", text) else ""
            raise WrongValue(f"it must be one whole number, not {text!r}.", parameter, context, hint)
        return super().convert(int(text), parameter, context)


class Quantity(click.FloatRange):
    """A number of a range, in one unit, which may be written behind it: ``24`` or ``24MHz``."""

    name = "number"

    def __init__(self, unit: str, **limits: Any) -> None:
        super().__init__(**limits)
        self.unit = unit

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        text = str(value).strip()
        bare = text[: -len(self.unit)].rstrip() if text.lower().endswith(self.unit.lower()) else text
        try:
            number = float(bare)
        except ValueError:
            hint = f"`{parameter.opts[0]} 24` means 24 {self.unit}" if parameter is not None else ""
            raise WrongValue(f"it must be one number of {self.unit}, not {text!r}.", parameter, context, hint) from None
        return super().convert(number, parameter, context)
