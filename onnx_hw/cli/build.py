"""``onnx-hw build``: from the model to a proven bitstream."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_hw.cli.arguments import BOARD, CALIBRATION, FILE, FOLDING, MODEL, RANDOM_CALIBRATION, STORE, VERBOSE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.quantize_options import how_to_quantize
from onnx_hw.cli.read_options import how_to_read
from onnx_hw.cli.schedule_options import schedule_options
from onnx_hw.cli.session import CliSession
from onnx_hw.messages.version import __version__
from onnx_hw.runtime.options import SEEDS, BuildOptions, QuantizeOptions, ReadOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage


@click.command(cls=GroupedCommand, short_help="Build a proven bitstream from a model.")
@MODEL
@BOARD
@click.option("--out", type=FILE, metavar="DIR", help="Folder to write everything into.  [default: MODEL-BOARD]")
@click.option(
    "--inputs", type=FILE, metavar="X.npz", help="Samples to prove with; the array `labels` may hold their classes."
)
@CALIBRATION
@RANDOM_CALIBRATION
@schedule_options
@FOLDING
@click.option(
    "--stop-after", type=click.Choice([s.value for s in Stage]), default=Stage.PACK.value, metavar="STAGE",
    help=f"Last stage to run: {', '.join(Stage)}.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(*SEEDS), default=1, show_default=True, metavar="N", help="Seed of the placer."
)
@STORE
@click.option("--no-gate-level", is_flag=True, help="Do not simulate the netlist of the chip.")
@click.option("--waves", is_flag=True, help="Write the circuit's first cycles as a waveform, waves.vcd.")
@how_to_quantize
@how_to_read
@click.option("--json", "as_json", is_flag=True, help="Print only report.json to standard output.")
@VERBOSE
@click.pass_obj
def build(
    session: CliSession,
    model: Path,
    board: str,
    out: Path | None,
    inputs: Path | None,
    calibration: Path | None,
    random_calibration: bool,
    scheduling: ScheduleRequest,
    folding: Path | None,
    stop_after: str,
    seed: int,
    store: Path | None,
    no_gate_level: bool,
    waves: bool,
    as_json: bool,
    verbose: bool,
    reading: ReadOptions,
    quantizing: QuantizeOptions,
) -> int:
    """Build MODEL: quantize, schedule, prove by simulation, place, route, and write the bitstream."""
    from onnx_hw.cli.show.report_tables import summary
    from onnx_hw.commands.build import build as build_model
    from onnx_hw.commands.build import clamp_stages

    options = BuildOptions(
        model=model,
        board=board,
        out=out,
        inputs=inputs,
        calibration=calibration,
        random_calibration=random_calibration,
        folding=folding,
        scheduling=scheduling,
        stop_after=Stage(stop_after),
        reading=reading,
        quantizing=quantizing,
        gate_level=not no_gate_level,
        seed=seed,
        store=store,
        waves=waves,
    )
    options = clamp_stages(options)
    session.folder, terminal = options.folder, session.terminal
    terminal.verbose = verbose
    terminal.expect(options.stages)
    terminal.note(f"onnx-hw {__version__}   {model}", f"→ {options.folder} for {board}")
    built = build_model(options, terminal)
    if as_json:
        terminal.data(built.report.to_json())
    terminal.show(summary(built.report, built.folder), aside=as_json)
    return built.exit_code
