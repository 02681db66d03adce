"""The command line: arguments become options, options go to ``onnx_hw.build``, values that come back are shown.

Nothing is decided here. What a command imports it imports when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from onnx_hw import __version__
from onnx_hw.errors import ExitCode
from onnx_hw.front.arguments import FILE
from onnx_hw.front.infer import infer
from onnx_hw.front.program import program
from onnx_hw.front.session import CommandLine, Session
from onnx_hw.front.show_report import report
from onnx_hw.front.verify import verify
from onnx_hw.options import DEFAULT_BOARD, BuildOptions, Evaluator, Leaving, Quantizing, Reading, RunOptions, Stage


@click.group(cls=CommandLine, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="onnx-hw", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> int:
    """An ONNX model in, a proven FPGA bitstream out.

    \b
    onnx-hw check model.onnx               can it be built?
    onnx-hw build model.onnx               a proven bitstream
    onnx-hw run model.onnx --inputs X.npz  its outputs
    """
    if context.invoked_subcommand is not None:
        return ExitCode.OK
    click.echo(context.get_help())
    return ExitCode.USAGE


MODEL = click.argument("model", type=FILE)
BOARD = click.option(
    "--board", default=DEFAULT_BOARD, show_default=True, metavar="NAME", help="See `onnx-hw boards`; or a file."
)
CALIBRATION = click.option(
    "--calibration", type=FILE, metavar="X.npz", help="Samples to learn a float model's ranges from."
)
MULTIPLIERS = click.option("--multipliers", type=click.IntRange(min=1), metavar="N", help="At most so many MAC lanes.")
FPS = click.option(
    "--fps", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help="The cheapest design that does so many frames a second, instead of the fastest.",
)  # fmt: skip
CLOCK = click.option(
    "--clock", type=click.FloatRange(min=0, min_open=True), metavar="MHZ", help="Instead of the board's own."
)
FOLDING = click.option("--folding", type=FILE, metavar="FILE", help="Lanes of every core; a build writes folding.toml.")
DIMENSIONS = click.option(
    "--dim", "dimensions", multiple=True, callback=lambda context, option, given: _bound(context, option, given),
    metavar="NAME=N", help="Bind a symbolic dimension; repeatable.",
)  # fmt: skip
STRICT = click.option("--strict", is_flag=True, help="Refuse what the specification only advises against.")
LENIENT = click.option("--lenient", is_flag=True, help="Accept faults that known exporters make.")
NEWER = click.option("--newer", is_flag=True, help="Try versions of ONNX that are newer than onnx-hw.")


def how_to_read(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of how an ONNX file is read; the command gets them as one ``reading``."""

    @wraps(command)
    def with_reading(
        *arguments: Any, dimensions: dict[str, int], strict: bool, lenient: bool, newer: bool, **options: Any
    ) -> Any:
        return command(*arguments, reading=Reading(dimensions, strict, lenient, newer), **options)

    return DIMENSIONS(STRICT(LENIENT(NEWER(with_reading))))


OUTPUT = click.option(
    "--output", type=click.Choice([o.value for o in Leaving]), metavar="KIND",
    help="What leaves the hardware of a float model: accumulators, where nothing is lost (the default), or int8.",
)  # fmt: skip


BITS = click.option(
    "--bits", callback=lambda context, option, given: _widths(context, option, given), metavar="weights=N,data=N",
    help="Of the integers of a float model: 1 to 16, 8 by default.",
)  # fmt: skip
PRECISION = click.option(
    "--precision", type=FILE, metavar="FILE", help="Bits of single layers and values of a float model, in TOML."
)


def how_to_quantize(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of how integers are chosen; the command gets them as one ``quantizing``."""

    @wraps(command)
    def with_quantizing(
        *arguments: Any, output: str | None, bits: dict[str, int], precision: Path | None, **options: Any
    ) -> Any:
        quantizing = Quantizing(Leaving(output) if output else None, **bits, precision=precision)
        return command(*arguments, quantizing=quantizing, **options)

    return OUTPUT(BITS(PRECISION(with_quantizing)))


def _widths(context: click.Context, parameter: click.Parameter, given: str | None) -> dict[str, int]:
    """``"weights=4,data=8"`` as ``{"weights": 4, "data": 8}``."""
    widths: dict[str, int] = {}
    for text in given.split(",") if given is not None else ():
        name, _, bits = text.strip().partition("=")
        if name not in ("weights", "data") or name in widths or not (bits.isdecimal() and len(bits) <= 2):
            message = f"it must be weights=N, data=N or both, with whole numbers, not {given!r}"
            raise click.BadParameter(message, context, parameter)
        widths[name] = int(bits)
    return widths


VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Show what the tools print.")


@main.command(short_help="From the model to a proven bitstream.")
@MODEL
@BOARD
@click.option("--out", type=FILE, metavar="DIR", help="Everything is written here.  [default: MODEL-BOARD]")
@click.option("--inputs", type=FILE, metavar="X.npz", help="Samples to prove with; `labels` may say their classes.")
@CALIBRATION
@MULTIPLIERS
@FPS
@FOLDING
@click.option("--clock", type=click.FloatRange(min=0, min_open=True), metavar="MHZ", help="To miss it is an error.")
@click.option(
    "--stop-after", type=click.Choice([s.value for s in Stage]), default=Stage.PACK.value, metavar="STAGE",
    help=f"Leave out what comes after it; one of {', '.join(Stage)}.",
)  # fmt: skip
@click.option("--no-gate-level", is_flag=True, help="Leave out the simulation of the chip's netlist, link 4.")
@how_to_quantize
@how_to_read
@click.option("--json", "as_json", is_flag=True, help="Print report.json, and nothing else, to standard output.")
@VERBOSE
@click.pass_obj
def build(
    session: Session,
    model: Path,
    board: str,
    out: Path | None,
    inputs: Path | None,
    calibration: Path | None,
    multipliers: int | None,
    fps: float | None,
    folding: Path | None,
    clock: float | None,
    stop_after: str,
    no_gate_level: bool,
    as_json: bool,
    verbose: bool,
    reading: Reading,
    quantizing: Quantizing,
) -> int:
    """Build MODEL: quantize, schedule, prove by simulation, place, route, and write the bitstream."""
    from onnx_hw.report.show import summary

    options = BuildOptions(
        model,
        board,
        out,
        inputs,
        calibration,
        multipliers,
        folding,
        clock,
        Stage(stop_after),
        reading,
        fps,
        quantizing,
        not no_gate_level,
    )
    session.folder, terminal = options.folder, session.terminal
    terminal.verbose = verbose
    terminal.expect(options.stages)
    terminal.note(f"onnx-hw {__version__}   {model}", f"→ {options.folder} for {board}")
    built = session.workshop.build(options, terminal)
    if as_json:
        terminal.data(built.report.to_json())
    terminal.show(summary(built.report, built.folder), aside=as_json)
    return built.exit_code


@main.command(short_help="Compute a model's outputs.")
@MODEL
@click.option("--inputs", type=FILE, metavar="X.npz", required=True, help="Samples, one array per graph input.")
@click.option(
    "--engine", type=click.Choice([e.value for e in Evaluator]), default=Evaluator.GOLDEN.value, show_default=True,
    metavar="ENGINE",
    help="reference: the ONNX operators; golden: the integer network; simulation: the circuit.",
)  # fmt: skip
@click.option("--out", type=FILE, metavar="Y.npz", help="Write the outputs, one array per graph output.")
@BOARD
@CALIBRATION
@MULTIPLIERS
@FPS
@CLOCK
@FOLDING
@how_to_quantize
@how_to_read
@VERBOSE
@click.pass_obj
def run(
    session: Session,
    model: Path,
    inputs: Path,
    engine: str,
    out: Path | None,
    board: str,
    calibration: Path | None,
    multipliers: int | None,
    fps: float | None,
    clock: float | None,
    folding: Path | None,
    verbose: bool,
    reading: Reading,
    quantizing: Quantizing,
) -> None:
    """Compute the outputs of MODEL for samples."""
    from onnx_hw.report.outputs import described
    from onnx_hw.samples import write_samples

    session.terminal.verbose = verbose
    options = RunOptions(
        model,
        inputs,
        Evaluator(engine),
        board,
        calibration,
        multipliers,
        folding,
        reading,
        clock,
        fps,
        quantizing,
    )
    outputs = session.workshop.run(options, session.terminal)
    if out is not None:
        write_samples(out, outputs)
    session.terminal.show(described(outputs))


LONGEST_SIZE = 18
"""Digits of a dimension: ONNX has no larger ones."""


def _bound(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """``("N=1",)`` as ``{"N": 1}``."""
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


@main.command(short_help="Say what is wrong with a model.")
@MODEL
@BOARD
@MULTIPLIERS
@FPS
@CLOCK
@how_to_read
@click.option("--onnx-only", is_flag=True, help="Leave out whether a circuit can be built.")
@click.option("--json", "as_json", is_flag=True, help="Print everything that was found as JSON.")
@click.pass_obj
def check(
    session: Session,
    model: Path,
    board: str,
    multipliers: int | None,
    fps: float | None,
    clock: float | None,
    onnx_only: bool,
    as_json: bool,
    reading: Reading,
) -> int:
    """Say everything that is wrong with MODEL, and everything that stands in the way of a circuit."""
    from onnx_hw.onnx.check import check as check_file
    from onnx_hw.report.checked import Checked

    found = check_file(model, **asdict(reading))
    checked, obstacle = Checked(found), None
    if found.verdict == "accepted" and not onnx_only:
        options = BuildOptions(model, board, multipliers=multipliers, clock_mhz=clock, reading=reading, fps=fps)
        obstacle = session.workshop.check_hardware(options)
        checked = replace(checked, obstacles=obstacle.problems if obstacle else ())
    terminal = session.terminal
    if as_json:
        terminal.data(checked.to_json())
    else:
        for warning in found.remarks:
            terminal.warn(f"{warning.message} ({warning.where})" if warning.where else warning.message, warning.hint)
        terminal.problems(checked.problems)
        terminal.show(checked.shown())
    if obstacle is not None:
        return obstacle.exit_code
    return ExitCode.USAGE if checked.problems else ExitCode.OK


@main.command(short_help="List the boards.")
@click.pass_obj
def boards(session: Session) -> None:
    """List the boards there are."""
    from onnx_hw.report.boards import listed

    session.terminal.show(listed())


@main.command(short_help="Say which programs are found where.")
@click.pass_obj
def doctor(session: Session) -> int:
    """Say which programs are found where, and how to get the others."""
    from onnx_hw.front import doctor

    findings = doctor.examine()
    session.terminal.show(doctor.shown(findings))
    return ExitCode.TOOL_FAILED if any(finding.stands_in_the_way for finding in findings) else ExitCode.OK


@main.command(short_help="List the ONNX operators.")
@click.pass_obj
def ops(session: Session) -> None:
    """List the ONNX operators that are known, and which of them become hardware (Markdown)."""
    from onnx_hw.report.operators import operator_table

    session.terminal.data(operator_table())


for command in (infer, program, report, verify):
    main.add_command(command)
