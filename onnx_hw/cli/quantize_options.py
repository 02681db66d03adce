"""Options of how integers are chosen for a float model."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from onnx_hw.cli.arguments import FILE
from onnx_hw.runtime.options import MOST_DB, OutputKind, QuantizeOptions

OUTPUT_KIND = click.option(
    "--output-kind", type=click.Choice([o.value for o in OutputKind]), metavar="KIND",
    help="Outputs of the hardware for a float model: accumulators (the default), which lose nothing, or int8.",
)  # fmt: skip


BITS = click.option(
    "--bits", callback=lambda context, option, given: widths(context, option, given), metavar="N|weights=N,data=N",
    help="Bits of the integers for a float model, 1 to 16, 8 by default: 4 means both weights and data.",
)  # fmt: skip
PRECISION = click.option(
    "--precision",
    type=FILE,
    metavar="FILE",
    help="TOML file with the bits of single layers and values of a float model.",
)


SQNR = click.option(
    "--sqnr", type=click.FloatRange(1, MOST_DB), metavar="DB",
    help="Search for the cheapest bits that reach this signal-to-noise ratio on the samples, instead of --bits.",
)  # fmt: skip
ACCURACY_LOSS = click.option(
    "--accuracy-loss", type=click.FloatRange(0, 100), metavar="POINTS",
    help="Search for the cheapest bits that lose at most POINTS percentage points of accuracy on the samples.",
)  # fmt: skip


def how_to_quantize(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how integers are chosen; the command gets them as one ``quantizing``."""

    @wraps(command)
    def with_quantizing(
        *arguments: Any,
        output_kind: str | None,
        bits: dict[str, int],
        precision: Path | None,
        sqnr: float | None,
        accuracy_loss: float | None,
        **options: Any,
    ) -> Any:
        leaving = OutputKind(output_kind) if output_kind else None
        quantizing = QuantizeOptions(
            output=leaving, **bits, precision=precision, sqnr=sqnr, accuracy_loss=accuracy_loss
        )
        return command(*arguments, quantizing=quantizing, **options)

    return OUTPUT_KIND(BITS(PRECISION(SQNR(ACCURACY_LOSS(with_quantizing)))))


def widths(context: click.Context, parameter: click.Parameter, given: str | None) -> dict[str, int]:
    """Parse ``"weights=4,data=8"`` to ``{"weights": 4, "data": 8}``; ``"4"`` means both."""
    widths: dict[str, int] = {}
    if given is not None and given.strip().isdecimal() and len(given.strip()) <= 2:
        return {"weights": int(given), "data": int(given)}
    for text in given.split(",") if given is not None else ():
        name, _, bits = text.strip().partition("=")
        if name not in ("weights", "data") or name in widths or not (bits.isdecimal() and len(bits) <= 2):
            message = f"it must be N, or weights=N, data=N or both, with whole numbers, not {given!r}"
            raise click.BadParameter(message, context, parameter)
        widths[name] = int(bits)
    return widths
