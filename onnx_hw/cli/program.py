"""``onnx-hw program``: a build's bitstream onto its board."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from onnx_hw.cli.arguments import FILE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.session import CliSession


@click.command(cls=GroupedCommand, short_help="Put a build's bitstream on its board.")
@click.argument("folder", metavar="DIR", type=FILE)
@click.option(
    "--flash", is_flag=True, help="Write the flash memory, from which the board starts, and weights outside the chip."
)
@click.option("--board", metavar="FILE.py", help="File of the board, if it is a board of your own.")
@click.option("--dry-run", is_flag=True, help="Print the commands without running them.")
@click.pass_obj
def program(session: CliSession, folder: Path, flash: bool, board: str | None, dry_run: bool) -> None:
    """Put the bitstream of the build in DIR on its board. Without --flash it is lost when the power goes off."""
    from onnx_hw.commands.program import programming, run

    wanted = programming(folder, flash=flash, board=board)
    if dry_run:
        session.terminal.data("".join(f"{line}\n" for line in wanted.lines))
        return
    run(wanted, session.terminal.note)
    if wanted.needs_tape:
        again = shlex.join(
            ["onnx-hw", "program", str(folder), *([] if board is None else ["--board", board]), "--flash"]
        )
        session.terminal.note(f"weights come from its flash; if they are not there yet: {again}")
    session.terminal.note(f"`{wanted.board}` is programmed" + ("" if flash else " until it loses power"))
