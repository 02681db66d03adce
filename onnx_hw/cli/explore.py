"""``onnx-hw explore``: many builds of a model at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_hw.cli.arguments import (
    CALIBRATION,
    FILE,
    JOBS,
    MODEL,
    RANDOM_CALIBRATION,
    RESIZE,
    SCHEDULER,
    STORE,
    complete_boards,
)
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.option_groups import OUTPUT_KIND, PRECISION, READING, gathered, widths
from onnx_hw.cli.parameter_types import Count, Quantity, WordChoice
from onnx_hw.cli.session import CliSession
from onnx_hw.messages.version import __version__
from onnx_hw.runtime.options import DEFAULT_BOARD, MOST_DB, BuildOptions, OutputKind, QuantizeOptions
from onnx_hw.runtime.schedule_request import SpeedGoal
from onnx_hw.runtime.stage import Stage

if TYPE_CHECKING:
    from onnx_hw.commands.explore.explore import Limits
    from onnx_hw.commands.explore.grid import ChoiceGrid

_STAGES = ("schedule", "synthesize", "route", "pack")


def _several(kind: click.ParamType) -> Callable[..., tuple[Any, ...]]:
    """Return a parser of ``30,60`` to (30, 60), and of nothing to one None."""

    def several(context: click.Context, parameter: click.Parameter, given: str | None) -> tuple[Any, ...]:
        if given is None:
            return (None,)
        return tuple(kind.convert(word.strip(), parameter, context) for word in given.split(","))

    return several


def _bits(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[dict[str, int], ...]:
    """Parse ``("weights=4,data=8", "4,6")`` to the widths of each: of the first, of 4 bits, and of 6 bits."""
    each = (text.split(",") if "=" not in text else [text] for text in given)
    return tuple(widths(context, parameter, text.strip()) for texts in each for text in texts)


def _seconds(context: click.Context, parameter: click.Parameter, given: str | None) -> float | None:
    """Parse ``2h`` to 7200.0, seconds."""
    if given is None:
        return None
    units = {"h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0, "": 1.0}
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", given.strip())
    if found is None or found[2].lower() not in units or float(found[1]) <= 0:
        raise click.BadParameter(f"it must be like 2h, not {given!r}", context, parameter)
    return float(found[1]) * units[found[2].lower()]


def _goals(context: click.Context, parameter: click.Parameter, given: str) -> tuple[SpeedGoal, ...]:
    """Parse ``rate,latency``."""
    names = [text.strip() for text in given.split(",")]
    unknown = [name for name in names if name not in tuple(SpeedGoal)]
    if unknown:
        message = f"it must be {' or '.join(SpeedGoal)}, not {unknown[0]!r}"
        raise click.BadParameter(message, context, parameter)
    return tuple(map(SpeedGoal, names))


def _grid(
    foldings: tuple[Path, ...],
    bits: tuple[dict[str, Any], ...],
    sqnr: tuple[float | None, ...],
    accuracy_loss: tuple[float | None, ...],
    seeds: int,
    **others: Any,
) -> ChoiceGrid:
    """Return the grid of choices; each setting of the bits is one way to quantize, and so is each goal."""
    from onnx_hw.commands.explore.grid import ChoiceGrid

    integers = [QuantizeOptions(**given) for given in bits]
    integers += [QuantizeOptions(sqnr=goal) for goal in sqnr if goal is not None]
    integers += [QuantizeOptions(accuracy_loss=goal) for goal in accuracy_loss if goal is not None]
    return ChoiceGrid(
        foldings=foldings or (None,),
        integers=tuple(integers) or (QuantizeOptions(),),
        seeds=tuple(range(1, seeds + 1)),
        **others,
    )


def _limits(until: str, **others: Any) -> Limits:
    from onnx_hw.commands.explore.explore import Limits

    return Limits(until=Stage(until), **others)


GRID = gathered(
    "grid",
    _grid,
    click.option("--board", "boards", default=DEFAULT_BOARD, show_default=True, metavar="NAME,...",
        callback=_several(click.STRING), shell_complete=complete_boards,
        help="Boards to build for: names of `onnx-hw boards`."),
    click.option("--multipliers", callback=_several(Count(min=1)), metavar="N,...", help="Use at most N MAC lanes."),
    click.option("--fps", callback=_several(Quantity("fps", min=0, min_open=True)), metavar="N,...",
        help="Make the cheapest design that does N frames a second."),
    click.option("--latency", "latencies_us", callback=_several(Quantity("us", min=0, min_open=True)), metavar="US,...",
        help="Make the cheapest design that gives the result of a single frame within US microseconds."),
    click.option("--fastest", callback=_goals, default=SpeedGoal.RATE.value, show_default=True, metavar="GOAL,...",
        help="Search for the highest rate, for the least latency (latency), or for both (rate,latency)."),
    click.option("--clock", "clocks_mhz", callback=_several(Quantity("MHz", min=0, min_open=True)), metavar="MHZ,...",
        help="Use these clocks instead of the board's own."),
    click.option("--folding", "foldings", type=FILE, multiple=True, metavar="FILE",
        help="Use the foldings in this file; may be given several times."),
    click.option("--bits", callback=_bits, multiple=True, metavar="N,...|weights=N,data=N",
        help="Bits of the integers for a float model; may be given several times."),
    click.option("--sqnr", callback=_several(Quantity("dB", min=1, max=MOST_DB)), metavar="DB,...",
        help="Also try the cheapest bits that reach these signal-to-noise ratios on the samples."),
    click.option("--accuracy-loss", callback=_several(Quantity("points", min=0, max=100)), metavar="POINTS,...",
        help="Also try the cheapest bits that lose at most these percentage points of accuracy."),
    click.option("--seeds", type=Count(min=1), default=1, show_default=True, metavar="N",
        help="Try the seeds 1 to N of the placer."),
)  # fmt: skip
"""Settings to combine."""

LIMITS = gathered(
    "limits",
    _limits,
    click.option("--stop-after", "until", type=WordChoice(_STAGES), default="pack", show_default=True,
        metavar="STAGE", help=f"Last stage to run: {', '.join(_STAGES)}. The first one runs no tools."),
    click.option("--stop-at", "clock_mhz", type=Quantity("MHz", min=0, min_open=True), metavar="MHZ",
        help="Try further seeds only for designs that do not reach this clock."),
    click.option("--budget", "seconds", callback=_seconds, metavar="TIME",
        help="Stop after this time: 90s, 20min, 2h."),
    click.option("--everything", is_flag=True,
        help="Also build designs that are worse than another one in every estimate."),
)  # fmt: skip
"""Conditions to stop."""


@click.command(cls=GroupedCommand, short_help="Build many designs at once, and show the best ones.")
@MODEL
@GRID
@LIMITS
@JOBS
@SCHEDULER
@click.option(
    "--out", type=FILE, metavar="DIR", help="Folder for explore.json and explore.html.  [default: MODEL-explored]"
)
@STORE
@click.option("--inputs", type=FILE, metavar="X.npz", help="Samples, as for a build.")
@CALIBRATION
@RESIZE
@RANDOM_CALIBRATION
@OUTPUT_KIND
@PRECISION
@READING
@click.option("--json", "as_json", is_flag=True, help="Print only explore.json to standard output.")
@click.pass_obj
def explore(
    session: CliSession,
    /,
    model: Path,
    grid: ChoiceGrid,
    limits: Limits,
    jobs: int | None,
    scheduler: str | None,
    output: OutputKind | None,
    precision: Path | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Try every combination of settings for MODEL, and show the best designs.

    A design is not synthesized if another one is better in every estimate. Existing results are not made again, so an
    interrupted exploration continues. Each row has a command that builds and proves its design.
    """
    from onnx_hw.cli.show.explore_table import best_commands, effort, explore_table
    from onnx_hw.commands.explore.command import ExploreOptions, explore_model
    from onnx_hw.commands.explore.report import DATA

    like = BuildOptions(model=model, quantizing=QuantizeOptions(output=output, precision=precision), **fields)
    options = ExploreOptions(like=like, grid=grid, limits=limits, jobs=jobs, scheduler=scheduler)
    session.folder, terminal = options.folder, session.terminal
    choices = f"{len(grid):,} choices" if len(grid) > 1 else "1 choice"
    terminal.note(f"onnx-hw {__version__}   {model}", f"→ {choices} in {options.folder}")
    with terminal.watching() as watch:
        made = explore_model(options, terminal, lambda rows: watch(explore_table(rows, terminal.height - 4)))
    if as_json:
        terminal.data((made.folder / DATA).read_text(encoding="utf-8"))
    terminal.show(explore_table(made.rows), aside=as_json)
    terminal.show(best_commands(made.rows), aside=as_json)
    terminal.show(effort(made), aside=as_json)
