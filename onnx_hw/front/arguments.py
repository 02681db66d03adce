"""Kinds of arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class File(click.Path):
    """A path that can be one: not empty, without a zero byte."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if not str(value):
            self.fail("a path must not be empty", parameter, context)
        if "\0" in str(value):
            self.fail("a path must not hold a zero byte", parameter, context)
        return super().convert(value, parameter, context)


FILE = File(path_type=Path)
