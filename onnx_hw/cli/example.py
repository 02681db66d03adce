"""Command ``onnx-hw example``: the files of an example, in the current folder."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from onnx_hw.cli.arguments import FILE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.session import CliSession


def _complete_examples(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from onnx_hw.commands.example import EXAMPLES

    return [CompletionItem(name) for name in EXAMPLES if name.startswith(incomplete)]


@click.command(cls=GroupedCommand, short_help="Write the files of an example.")
@click.argument("name", shell_complete=_complete_examples)
@click.option("--out", type=FILE, metavar="DIR", help="Folder to write into.  [default: NAME]")
@click.pass_obj
def example(session: CliSession, name: str, out: Path | None) -> None:
    """Write the models and samples of the example NAME into a folder; there is `digits`."""
    from onnx_hw.commands.example import write_example

    written = write_example(name, out or Path(name))
    for path in written.files:
        session.terminal.data(f"{path}\n")
    session.terminal.note(f"next: `onnx-hw build {written.model}`")
