"""Options of how an ONNX file is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from onnx_hw.runtime.options import ReadOptions

DIMENSIONS = click.option(
    "--dim", "dimensions", multiple=True, callback=lambda context, option, given: _bound(context, option, given),
    metavar="NAME=N", help="Set a symbolic dimension; may be given several times.",
)  # fmt: skip
STRICT = click.option(
    "--strict", is_flag=True, help="Also refuse models that ignore a recommendation of the specification."
)
LENIENT = click.option("--lenient", is_flag=True, help="Accept faults of known exporters.")
NEWER = click.option("--newer", is_flag=True, help="Also try to read versions of ONNX that are newer than onnx-hw.")


def how_to_read(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how an ONNX file is read; the command gets them as one ``reading``."""

    @wraps(command)
    def with_reading(
        *arguments: Any, dimensions: dict[str, int], strict: bool, lenient: bool, newer: bool, **options: Any
    ) -> Any:
        return command(
            *arguments,
            reading=ReadOptions(dimensions=dimensions, strict=strict, lenient=lenient, newer=newer),
            **options,
        )

    return DIMENSIONS(STRICT(LENIENT(NEWER(with_reading))))


LONGEST_SIZE = 18
"""Number of digits of a dimension; ONNX has no larger ones."""


def _bound(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """Parse ``("N=1",)`` to ``{"N": 1}``."""
    sizes: dict[str, int] = {}
    for text in given:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isdecimal():
            raise click.BadParameter(f"it must be NAME=N with a whole number N, not {text!r}", context, parameter)
        if len(size.lstrip("0")) > LONGEST_SIZE:
            message = f"a size must have at most {LONGEST_SIZE} digits, not {len(size)}"
            raise click.BadParameter(message, context, parameter)
        if sizes.setdefault(name, int(size)) != int(size):
            message = f"`{name}` must have one size, not {sizes[name]} and {int(size)}"
            raise click.BadParameter(message, context, parameter)
    return sizes
