"""``onnx-hw check``: what is wrong with a model, and what keeps it from becoming a circuit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from onnx_hw.cli.arguments import BOARD, MODEL
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.option_groups import READING, SCHEDULING, WIDTHS
from onnx_hw.cli.session import CliSession
from onnx_hw.messages.errors import ExitCode
from onnx_hw.runtime.options import BuildOptions, ReadOptions


@click.command(cls=GroupedCommand, short_help="Report what is wrong with a model.")
@MODEL
@BOARD
@SCHEDULING
@WIDTHS
@READING
@click.option("--onnx-only", is_flag=True, help="Do not check whether a circuit can be built.")
@click.option("--json", "as_json", is_flag=True, help="Print all problems as JSON.")
@click.pass_obj
def check(
    session: CliSession, /, model: Path, onnx_only: bool, as_json: bool, reading: ReadOptions, **fields: Any
) -> int:
    """Report all faults of MODEL, and everything that prevents a circuit."""
    from onnx_hw.cli.show.check_report import CheckResult
    from onnx_hw.onnx.load.check_file import check as check_file

    found = check_file(model, **asdict(reading))
    checked, obstacle = CheckResult(found), None
    if found.valid and not onnx_only:
        from onnx_hw.commands.check import answer_for_hardware
        from onnx_hw.report.build_command import build_command
        from onnx_hw.report.build_request import flat

        options = BuildOptions(model=model, reading=reading, **fields)
        obstacle, lacks_scales = answer_for_hardware(options, found.model)
        command = build_command({**flat(options), "model": str(model)})
        if lacks_scales:
            command += " --calibration samples.npz"
        checked = checked.with_hardware(obstacle, options.board, command)
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
