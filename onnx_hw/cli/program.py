"""``onnx-hw program``: a build's bitstream onto its board."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_hw.cli.arguments import FILE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.session import CliSession


@click.command(cls=GroupedCommand, short_help="Put a build's bitstream on its board.")
@click.argument("folder", metavar="DIR", type=FILE)
@click.option("--flash", is_flag=True, help="Write the bitstream to the flash memory, from which the board starts.")
@click.option("--board", metavar="FILE.py", help="File of the board, if it is a board of your own.")
@click.option("--dry-run", is_flag=True, help="Print the command without running it.")
@click.pass_obj
def program(session: CliSession, folder: Path, flash: bool, board: str | None, dry_run: bool) -> None:
    """Put the bitstream of the build in DIR on its board. Without --flash it is lost when the power goes off."""
    from onnx_hw.commands.program import programming, run

    wanted = programming(folder, flash=flash, board=board)
    if dry_run:
        session.terminal.data(f"{wanted!r}\n")
        return
    session.terminal.note(f"{wanted!r}")
    run(wanted)
    session.terminal.note(f"`{wanted.board}` is programmed" + ("" if flash else " until it loses power"))
