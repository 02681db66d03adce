"""``onnx-hw update``: the weights of a retrained model in the circuit of a build."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_hw.cli.arguments import CALIBRATION, FILE, MODEL, RESIZE, VERBOSE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.parameter_types import WordChoice
from onnx_hw.cli.session import CliSession
from onnx_hw.runtime.options import PORT_ENGINES, port_engine_of, resize_of


@click.command(cls=GroupedCommand, short_help="Load the weights of a retrained model.")
@click.argument("folder", metavar="DIR", type=FILE)
@MODEL
@CALIBRATION
@click.option("--inputs", type=FILE, metavar="X.npz", help="Samples to prove with.")
@RESIZE
@click.option(
    "--port", metavar="PORT",
    help="Port of the link to the board that gets the weights: see `onnx-hw infer`, which sends them, too.  "
    "[default: none]",
)  # fmt: skip
@click.option(
    "--engine", type=WordChoice([e.value for e in PORT_ENGINES]), help="Simulator of the port sim.  [default: compiled]"
)
@VERBOSE
@click.pass_obj
def update(
    session: CliSession,
    folder: Path,
    model: Path,
    calibration: Path | None,
    inputs: Path | None,
    resize: str | None,
    port: str | None,
    engine: str | None,
    verbose: bool,
) -> None:
    """Prove the weights of MODEL in the circuit of the build in DIR, and keep them there; the bitstream stays."""
    from onnx_hw.cli.show.summaries import update_summary
    from onnx_hw.commands.update import UpdateOptions, build_options
    from onnx_hw.commands.update import update as update_build

    options = UpdateOptions(
        folder=folder,
        model=model,
        calibration=calibration,
        inputs=inputs,
        resize=resize_of(resize),
        port=port,
        engine=port_engine_of(engine),
    )
    session.terminal.verbose = verbose
    session.terminal.expect(build_options(options).stages)
    session.terminal.show(update_summary(update_build(options, session.terminal)))
