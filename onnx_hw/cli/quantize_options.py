"""The options of how integers are chosen for a float model."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from onnx_hw.cli.arguments import FILE
from onnx_hw.runtime.options import MOST_DB, OutputKind, QuantizeOptions

OUTPUT = click.option(
    "--output", type=click.Choice([o.value for o in OutputKind]), metavar="KIND",
    help="What leaves the hardware of a float model: accumulators, where nothing is lost (the default), or int8.",
)  # fmt: skip


BITS = click.option(
    "--bits", callback=lambda context, option, given: widths(context, option, given), metavar="weights=N,data=N",
    help="Of the integers of a float model: 1 to 16, 8 by default.",
)  # fmt: skip
PRECISION = click.option(
    "--precision", type=FILE, metavar="FILE", help="Bits of single layers and values of a float model, in TOML."
)


SQNR = click.option(
    "--sqnr", type=click.FloatRange(1, MOST_DB), metavar="DB",
    help="The cheapest bits that reach this signal to noise on the samples, instead of --bits.",
)  # fmt: skip
ACCURACY_LOSS = click.option(
    "--accuracy-loss", type=click.FloatRange(0, 100), metavar="POINTS",
    help="The cheapest bits that lose no more of the right classes, 1/100 of the samples; `labels` may say them.",
)  # fmt: skip


def how_to_quantize(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of how integers are chosen; the command gets them as one ``quantizing``."""

    @wraps(command)
    def with_quantizing(
        *arguments: Any,
        output: str | None,
        bits: dict[str, int],
        precision: Path | None,
        sqnr: float | None,
        accuracy_loss: float | None,
        **options: Any,
    ) -> Any:
        leaving = OutputKind(output) if output else None
        quantizing = QuantizeOptions(
            output=leaving, **bits, precision=precision, sqnr=sqnr, accuracy_loss=accuracy_loss
        )
        return command(*arguments, quantizing=quantizing, **options)

    return OUTPUT(BITS(PRECISION(SQNR(ACCURACY_LOSS(with_quantizing)))))


def widths(context: click.Context, parameter: click.Parameter, given: str | None) -> dict[str, int]:
    """``"weights=4,data=8"`` as ``{"weights": 4, "data": 8}``."""
    widths: dict[str, int] = {}
    for text in given.split(",") if given is not None else ():
        name, _, bits = text.strip().partition("=")
        if name not in ("weights", "data") or name in widths or not (bits.isdecimal() and len(bits) <= 2):
            message = f"it must be weights=N, data=N or both, with whole numbers, not {given!r}"
            raise click.BadParameter(message, context, parameter)
        widths[name] = int(bits)
    return widths
