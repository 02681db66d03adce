"""``onnx-hw verify``: the proof of a build once more."""

from __future__ import annotations

from typing import Any

import click

from onnx_hw.cli.arguments import FILE, JOBS, RESIZE, SCHEDULER
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.parameter_types import Count, WordChoice
from onnx_hw.cli.session import CliSession
from onnx_hw.runtime.options import SimulationEngine, Stalls, VerifyOptions


@click.command(cls=GroupedCommand, short_help="Prove a build again, with your own data.")
@click.argument("folder", metavar="DIR", type=FILE)
@click.option("--inputs", type=FILE, metavar="X.npz", help="Samples; the array `labels` may hold their classes.")
@RESIZE
@click.option("--frames", type=Count(min=1), metavar="N", help="Number of frames.  [default: all samples]")
@click.option(
    "--engine", type=WordChoice([engine.value for engine in SimulationEngine]), metavar="ENGINE",
    help=f"Simulator: {', '.join(SimulationEngine)}.  [default: the fastest one that is installed]",
)  # fmt: skip
@click.option(
    "--stalls", type=WordChoice([kind.value for kind in Stalls]), default=Stalls.ALL.value, show_default=True,
    metavar="KIND", help=f"How the inputs and outputs are stalled: {', '.join(Stalls)}.",
)  # fmt: skip
@JOBS
@SCHEDULER
@click.pass_obj
def verify(session: CliSession, /, **fields: Any) -> None:
    """Simulate the circuit of the build in DIR again and compare every value and every firing.

    The frames (all samples, or the number in --frames) are split into shards. Each shard begins with a reset and with
    the two frames before its own.
    """
    from onnx_hw.cli.show.summaries import verify_summary
    from onnx_hw.commands.verify import verify as verify_build

    session.terminal.show(verify_summary(verify_build(VerifyOptions(**fields), session.terminal)))
