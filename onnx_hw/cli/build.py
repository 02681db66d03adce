"""``onnx-hw build``: from the model to a proven bitstream."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from onnx_hw.cli.arguments import BOARD, CALIBRATION, FILE, FOLDING, MODEL, RANDOM_CALIBRATION, RESIZE, STORE, VERBOSE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.option_groups import QUANTIZING, READING, SCHEDULING
from onnx_hw.cli.parameter_types import Count, WordChoice
from onnx_hw.cli.session import CliSession
from onnx_hw.messages.version import __version__
from onnx_hw.runtime.options import SEEDS, BuildOptions, MemoryChoice, WeightStorage
from onnx_hw.runtime.stage import Stage


@click.command(cls=GroupedCommand, short_help="Build a proven bitstream from a model.")
@MODEL
@BOARD
@click.option("--out", type=FILE, metavar="DIR", help="Folder to write everything into.  [default: MODEL-BOARD]")
@click.option(
    "--inputs", type=FILE, metavar="X.npz", help="Samples to prove with; the array `labels` may hold their classes."
)
@CALIBRATION
@RESIZE
@RANDOM_CALIBRATION
@SCHEDULING
@FOLDING
@click.option(
    "--weights", type=WordChoice([w.value for w in WeightStorage]), default=WeightStorage.FIXED.value, metavar="HOW",
    help="fixed: in the bitstream; loadable: in memories that `onnx-hw update` fills anew.  [default: fixed]",
)  # fmt: skip
@click.option(
    "--memory", type=WordChoice([m.value for m in MemoryChoice]), default=MemoryChoice.NONE.value, metavar="WHERE",
    help="none: all weights on the chip; flash, sdram: those that are used once a frame come from this memory of the "
    "board; auto: only those that do not fit, from the flash where that is quick enough.  [default: none]",
)  # fmt: skip
@click.option(
    "--stop-after", type=WordChoice([s.value for s in Stage]), default=Stage.UNPACK.value, metavar="STAGE",
    help=f"Last stage to run: {', '.join(Stage)}.",
)  # fmt: skip
@click.option("--seed", type=Count(*SEEDS), default=1, show_default=True, metavar="N", help="Seed of the placer.")
@STORE
@click.option("--no-witness", is_flag=True, help="Do not compare the model with onnxruntime.")
@click.option("--no-gate-level", is_flag=True, help="Do not simulate the netlist of the chip.")
@click.option("--no-bitstream-check", is_flag=True, help="Do not unpack the bitstream and compare it.")
@click.option("--waves", is_flag=True, help="Write the circuit's first cycles as a waveform, waves.vcd.")
@QUANTIZING
@READING
@click.option("--json", "as_json", is_flag=True, help="Print only report.json to standard output.")
@VERBOSE
@click.pass_obj
def build(
    session: CliSession,
    /,
    no_witness: bool,
    no_gate_level: bool,
    no_bitstream_check: bool,
    as_json: bool,
    verbose: bool,
    **fields: Any,
) -> int:
    """Build MODEL: quantize, schedule, prove by simulation, place, route, and write the bitstream."""
    from onnx_hw.cli.show.report_tables import summary
    from onnx_hw.cli.show.stopped_build import after_a_stopped_build
    from onnx_hw.commands.build import build as build_model
    from onnx_hw.commands.build import clamp_stages

    proof: dict[str, Any] = {
        "witness": not no_witness,
        "gate_level": not no_gate_level,
        "bitstream_check": not no_bitstream_check,
    }
    options = BuildOptions(**proof, **fields)
    session.next_step = partial(after_a_stopped_build, options)
    options = clamp_stages(options)
    session.folder, terminal = options.folder, session.terminal
    terminal.verbose = verbose
    terminal.expect(options.stages)
    terminal.note(f"onnx-hw {__version__}   {options.model}", f"→ {options.folder} for {options.board}")
    built = build_model(options, terminal)
    if as_json:
        terminal.data(built.report.to_json())
    terminal.show(summary(built.report, built.folder), aside=as_json)
    return built.exit_code
