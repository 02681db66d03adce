"""Command line: arguments become options, options go to a command, and what it returns is shown.

Nothing is decided here. What a command imports it imports when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import click

from onnx_hw.cli.boards import boards
from onnx_hw.cli.build import build
from onnx_hw.cli.cache import cache
from onnx_hw.cli.check import check
from onnx_hw.cli.example import example
from onnx_hw.cli.explore import explore
from onnx_hw.cli.help_groups import WIDEST_HELP, GroupedCommand
from onnx_hw.cli.infer import infer
from onnx_hw.cli.program import program
from onnx_hw.cli.report import report
from onnx_hw.cli.run import run
from onnx_hw.cli.session import CliSession, CommandLine
from onnx_hw.cli.update import update
from onnx_hw.cli.verify import verify
from onnx_hw.messages.errors import ExitCode
from onnx_hw.messages.version import __version__

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST_HELP}
"""Settings that all commands inherit."""


@click.group(cls=CommandLine, invoke_without_command=True, context_settings=SETTINGS)
@click.version_option(__version__, "-V", "--version", prog_name="onnx-hw", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> int:
    """Turn an ONNX model into a proven FPGA bitstream.

    \b
    onnx-hw example digits                 a model to try
    onnx-hw check model.onnx               can it be built?
    onnx-hw build model.onnx               a proven bitstream
    onnx-hw run model.onnx --inputs X.npz  its outputs

    `onnx-hw COMMAND --help` explains a command. For completion of commands, options and board names, a shell evaluates
    what `_ONNX_HW_COMPLETE=bash_source onnx-hw` prints (also zsh_source, fish_source).
    """
    if context.invoked_subcommand is not None:
        return ExitCode.OK
    click.echo(context.get_help())
    return ExitCode.USAGE


@main.command(cls=GroupedCommand, short_help="Show which programs are installed, and where.")
@click.pass_obj
def doctor(session: CliSession) -> int:
    """Show which programs are installed and where, and how to get the missing ones."""
    from onnx_hw.cli import doctor

    findings = doctor.examine()
    session.terminal.show(doctor.shown(findings))
    return ExitCode.TOOL_FAILED if any(finding.stands_in_the_way for finding in findings) else ExitCode.OK


@main.command(cls=GroupedCommand, short_help="List the ONNX operators.")
@click.pass_obj
def ops(session: CliSession) -> None:
    """List the known ONNX operators, and which of them become hardware, as Markdown."""
    from onnx_hw.report.operator_table import operator_table

    session.terminal.data(operator_table())


for command in (boards, build, cache, check, example, explore, infer, program, report, run, update, verify):
    main.add_command(command)
