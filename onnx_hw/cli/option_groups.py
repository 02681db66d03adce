"""Groups of options that a command gets as one value: reading, scheduling, quantizing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.shell_completion import CompletionItem

from onnx_hw.cli.arguments import FILE
from onnx_hw.cli.parameter_types import Count, Quantity, WordChoice
from onnx_hw.runtime.options import MOST_DB, OutputKind, QuantizeOptions, ReadOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest, SpeedGoal

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def gathered(argument: str, value: Callable[..., Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, which gets them as one argument.

    Args:
        argument: name of the command's argument.
        value: makes the argument's value of the options, by their names.
        options: decorators of ``click.option``, in the order of the help.
    """

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_value(*arguments: Any, **given: Any) -> Any:
            fields = {name: given.pop(name) for name in names}
            return command(*arguments, **{argument: value(**fields)}, **given)

        parameters: list[click.Parameter] = with_value.__dict__.setdefault("__click_params__", [])
        before = len(parameters)
        for option in reversed(options):
            option(with_value)
        names = [parameter.name for parameter in parameters[before:]]
        return with_value

    return decorated


LONGEST_SIZE = 18
"""Number of digits of a dimension; ONNX has no larger ones."""


def dimension_sizes(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
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


def complete_tensors(context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the tensors of the model whose names begin like the last name of ``a,b``, as completions for a shell."""
    from onnx_hw.messages.errors import UserError
    from onnx_hw.onnx.load.read import read

    before, comma, begun = incomplete.rpartition(",")
    try:
        nodes = read(context.params["model"], lenient=True).graph.nodes
    except (KeyError, UserError):
        return []
    names = (name for node in nodes for name in node.outputs if name.startswith(begun) and name)
    return [CompletionItem(before + comma + name) for name in names]


READING = gathered(
    "reading",
    ReadOptions,
    click.option("--cut-at", multiple=True, metavar="TENSOR,...", shell_complete=complete_tensors,
        help="Build only the part of MODEL up to these tensors, which become its outputs."),
    click.option("--dim", "dimensions", multiple=True, callback=dimension_sizes, metavar="NAME=N",
        help="Set a symbolic dimension; may be given several times."),
    click.option("--state", multiple=True, metavar="INPUT:OUTPUT[=N]",
        help="Keep a state: a frame's OUTPUT is the next frame's INPUT, at first N (0). May be given several times."),
    click.option("--streaming", is_flag=True,
        help="Make the network of a whole sequence one that takes a hop of it per frame."),
    click.option("--strict", is_flag=True,
        help="Also refuse models that ignore a recommendation of the specification."),
    click.option("--lenient", is_flag=True, help="Accept faults of known exporters."),
    click.option("--newer", is_flag=True, help="Also try to read versions of ONNX that are newer than onnx-hw."),
)  # fmt: skip
"""Options of how an ONNX file is read."""

SCHEDULING = gathered(
    "scheduling",
    ScheduleRequest,
    click.option("--multipliers", type=Count(min=1), metavar="N", help="Use at most N MAC lanes."),
    click.option("--fps", type=Quantity("fps", min=0, min_open=True), metavar="N",
        help="Make the cheapest design that does N frames a second, instead of the fastest (of the least interval)."),
    click.option("--latency", "latency_us", type=Quantity("us", min=0, min_open=True), metavar="US",
        help="Make the cheapest design that gives the result of a single frame within US microseconds."),
    click.option("--fastest", type=WordChoice([goal.value for goal in SpeedGoal]), default=SpeedGoal.RATE.value,
        show_default=True, callback=lambda _context, _parameter, value: SpeedGoal(value),
        help="Search for the highest rate of frames, or for the least latency of a single frame."),
    click.option("--clock", "clock_mhz", type=Quantity("MHz", min=0, min_open=True), metavar="MHZ",
        help="Use this clock instead of the board's own. A build that does not reach it fails."),
)  # fmt: skip
"""Options of what is asked of the scheduler."""


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


OUTPUT_KIND = click.option(
    "--output-kind", "output", type=WordChoice([o.value for o in OutputKind]), metavar="KIND",
    help="Outputs of the hardware for a float model: accumulators (the default), which lose nothing, or int8.",
)  # fmt: skip
PRECISION = click.option(
    "--precision", type=FILE, metavar="FILE",
    help="TOML file with the bits of single layers and values of a float model.",
)  # fmt: skip


BITS = click.option(
    "--bits", callback=widths, metavar="N|weights=N,data=N",
    help="Bits of the integers for a float model, 1 to 16, 8 by default: 4 means both weights and data.",
)  # fmt: skip


def quantize_options(bits: dict[str, Any], **fields: Any) -> QuantizeOptions:
    """Return the options of quantization from what ``widths`` makes of ``--bits``, and the other options."""
    return QuantizeOptions(**bits, **fields)


WIDTHS = gathered("quantizing", quantize_options, OUTPUT_KIND, BITS, PRECISION)
"""Options of the integers of a float model, for commands without samples: these cannot search for bits."""

QUANTIZING = gathered(
    "quantizing",
    quantize_options,
    OUTPUT_KIND,
    BITS,
    PRECISION,
    click.option("--sqnr", type=Quantity("dB", min=1, max=MOST_DB), metavar="DB",
        help="Search for the cheapest bits that reach this signal-to-noise ratio on the samples, instead of --bits."),
    click.option("--accuracy-loss", type=Quantity("points", min=0, max=100), metavar="POINTS",
        help="Search for the cheapest bits that lose at most POINTS percentage points of accuracy on the samples."),
)  # fmt: skip
"""Options of how integers are chosen for a float model."""
