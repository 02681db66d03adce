"""Command ``onnx-hw boards``: the boards there are to build for, and what fits them."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_hw.cli.arguments import FILE
from onnx_hw.cli.session import CliSession


@click.command(short_help="List the boards.")
@click.argument("model", metavar="[MODEL]", type=FILE, required=False)
@click.pass_obj
def boards(session: CliSession, model: Path | None) -> None:
    """List all boards with their chip, link and clock.

    With MODEL, show for each board whether the model fits, and how fast it runs there.
    """
    from onnx_hw.cli.show.board_table import board_table, fit_row

    if model is None:
        session.terminal.show(board_table())
        return
    from onnx_hw.commands.fit_boards import fit_boards  # the whole compiler

    for board, fit in fit_boards(model):
        session.terminal.show(fit_row(board, fit))
