"""``onnx-hw run``: outputs for samples, computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from onnx_hw.cli.arguments import BOARD, CALIBRATION, FILE, FOLDING, MODEL, RESIZE, VERBOSE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.option_groups import QUANTIZING, READING, SCHEDULING
from onnx_hw.cli.parameter_types import WordChoice
from onnx_hw.cli.session import CliSession
from onnx_hw.runtime.options import Evaluator, RunOptions


@click.command(cls=GroupedCommand, short_help="Compute a model's outputs.")
@MODEL
@click.option("--inputs", type=FILE, metavar="X.npz", required=True, help="Samples, one array for each graph input.")
@click.option(
    "--engine", type=WordChoice([e.value for e in Evaluator]), default=Evaluator.GOLDEN.value, show_default=True,
    metavar="ENGINE",
    help="What computes the outputs: reference, the ONNX operators; golden, the integer network; simulation, the "
    "circuit; gates, the netlist of the chip; board, the whole chip of --board behind a simulated port.",
)  # fmt: skip
@click.option("--out", type=FILE, metavar="Y.npz", help="File for the outputs, one array for each graph output.")
@BOARD
@CALIBRATION
@RESIZE
@SCHEDULING
@FOLDING
@QUANTIZING
@READING
@VERBOSE
@click.pass_obj
def run(session: CliSession, /, out: Path | None, verbose: bool, **fields: Any) -> None:
    """Compute the outputs of MODEL for samples."""
    from onnx_hw.cli.show.outputs_table import outputs_text
    from onnx_hw.commands.run import run as run_model
    from onnx_hw.samples.read_samples import write_samples

    session.terminal.verbose = verbose
    outputs = run_model(RunOptions(**fields), session.terminal)
    if out is not None:
        write_samples(out, outputs)
    session.terminal.show(outputs_text(outputs))
