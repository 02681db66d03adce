"""Command ``onnx-hw boards``: the boards there are to build for, and what fits them."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from onnx_hw.cli.arguments import FILE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.option_groups import READING, WIDTHS
from onnx_hw.cli.session import CliSession
from onnx_hw.runtime.options import QuantizeOptions, ReadOptions


def _complete_chips(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from onnx_hw.assemble.board_lookup import chips

    return [CompletionItem(name) for name in chips() if name.lower().startswith(incomplete.lower())]


@click.command(cls=GroupedCommand, short_help="List the boards; with a model, how fast it runs on each.")
@click.argument("model", metavar="[MODEL]", type=FILE, required=False)
@click.option(
    "--chip", metavar="NAME", shell_complete=_complete_chips, help="Only boards with this chip, or of this chip family."
)
@click.option("--fits", is_flag=True, help="Only boards on which MODEL fits.")
@WIDTHS
@READING
@click.pass_obj
def boards(
    session: CliSession,
    /,
    model: Path | None,
    chip: str | None,
    fits: bool,
    quantizing: QuantizeOptions,
    reading: ReadOptions,
) -> None:
    """List all boards with their chip, link and clock.

    With MODEL, show for each board whether the model fits, and how fast it runs there.
    """
    from rich.console import Group
    from rich.text import Text

    from onnx_hw.assemble.board_lookup import boards_with
    from onnx_hw.cli.show.board_table import board_table, fit_row
    from onnx_hw.messages.errors import UserError

    if model is None and (fits or reading != ReadOptions() or quantizing != QuantizeOptions()):
        option = "--fits" if fits else "an option of reading or of integers"
        raise click.UsageError(f"{option} must have a MODEL: `onnx-hw boards model.onnx --fits`")
    names = boards_with(chip)
    if model is None:
        session.terminal.show(board_table(names))
        return
    from onnx_hw.commands.fit_boards import fit_boards  # the whole compiler

    rows = []
    with session.terminal.watching() as watch:
        watch(Text(f" reading {model}"))
        for number, (board, fit) in enumerate(fit_boards(model, names, reading, quantizing), 1):
            if not (fits and isinstance(fit, UserError)):
                rows.append(fit_row(board, fit))
            tried = Text(f" {number} of {len(names)} boards tried, the last one {board.name}", "dim")
            watch(Group(*rows[-max(1, session.terminal.height - 2) :], tried))
    for row in rows:
        session.terminal.show(row)
    if not rows:
        session.terminal.note("it fits on none of them; without --fits, each says why")
