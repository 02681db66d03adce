"""``onnx-hw infer``: a build's network on its board."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_hw.cli.arguments import FILE, RESIZE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.parameter_types import WordChoice
from onnx_hw.cli.session import CliSession
from onnx_hw.runtime.options import PORT_ENGINES, port_engine_of, resize_of


@click.command(cls=GroupedCommand, short_help="Run a build on its board.")
@click.argument("folder", metavar="DIR", type=FILE)
@click.option("--inputs", type=FILE, metavar="X.npz", help="Samples, one array for each graph input.")
@RESIZE
@click.option(
    "--port", default="auto", show_default=True, metavar="PORT",
    help="Port of the link: a serial port, or spidev0.0 or ftdi://ftdi:232h/1 where the board has SPI; auto: the "
    "first port at which the design answers; sim: a simulation of the whole chip.",
)  # fmt: skip
@click.option(
    "--engine", type=WordChoice([e.value for e in PORT_ENGINES]),
    help="Simulator of the port sim: the circuit compiled, or the cells that are placed and routed.  "
    "[default: compiled]",
)  # fmt: skip
@click.option("--out", type=FILE, metavar="Y.npz", help="File for the outputs, one array for each graph output.")
@click.option("--check", is_flag=True, help="Compare the outputs with those of the integer network.")
@click.option("--self-test", "tests", is_flag=True, help="Send the frames that the build keeps, and show one verdict.")
@click.pass_obj
def infer(
    session: CliSession,
    folder: Path,
    inputs: Path | None,
    resize: str | None,
    port: str,
    engine: str | None,
    out: Path | None,
    check: bool,
    tests: bool,
) -> None:
    """Send samples to the board that holds the build in DIR, and show the outputs."""
    from onnx_hw.cli.show.summaries import infer_summary, self_test_summary
    from onnx_hw.messages.errors import user_error

    if tests:
        from onnx_hw.commands.self_test import refusal, self_test

        if inputs is not None or resize is not None or out is not None or check:
            message = "--self-test must stand alone: it has frames of its own, and compares them with golden"
            raise user_error(
                "self-test-alone", message, where="--self-test", hint="leave out the others", stage="arguments"
            )
        verdict = self_test(folder, port, session.terminal, engine=port_engine_of(engine))
        session.terminal.show(self_test_summary(verdict))
        if (failed := refusal(verdict)) is not None:
            raise failed
        return
    if inputs is None:
        hint = "--self-test needs none: the build keeps frames with their results"
        raise user_error(
            "inputs-missing", "samples must be given: --inputs X.npz", where="--inputs", hint=hint, stage="arguments"
        )
    from onnx_hw.commands.infer import InferOptions
    from onnx_hw.commands.infer import infer as infer_samples
    from onnx_hw.samples.read_samples import write_samples

    options = InferOptions(
        folder=folder,
        inputs=inputs,
        port=port,
        check=check,
        resize=resize_of(resize),
        engine=port_engine_of(engine),
    )
    made = infer_samples(options, session.terminal)
    if out is not None:
        write_samples(out, made.outputs)
    session.terminal.show(infer_summary(made))
