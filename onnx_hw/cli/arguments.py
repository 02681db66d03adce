"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from onnx_hw.cli.parameter_types import Count, File, WordChoice
from onnx_hw.runtime.options import DEFAULT_BOARD, Resize


def complete_boards(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the boards whose names begin like the last name of ``icebreaker,ul``, as completions for a shell."""
    import onnx_hw_boards

    before, comma, begun = incomplete.rpartition(",")
    return [CompletionItem(before + comma + name) for name in onnx_hw_boards.names() if name.startswith(begun)]


FILE = File(path_type=Path)

MODEL = click.argument("model", type=FILE)
BOARD = click.option(
    "--board",
    default=DEFAULT_BOARD,
    show_default=True,
    metavar="NAME",
    shell_complete=complete_boards,
    help="Board to build for: a name of `onnx-hw boards`, or a file of your own.",
)
CALIBRATION = click.option(
    "--calibration",
    type=FILE,
    metavar="X.npz",
    help="Samples for the ranges of a float model: a file, or a folder of samples.",
)
RESIZE = click.option(
    "--resize", type=WordChoice([way.value for way in Resize]), metavar="HOW",
    help="Give images among the samples the input's size: stretch them, or crop their middle part.",
)  # fmt: skip
RANDOM_CALIBRATION = click.option(
    "--random-calibration", is_flag=True,
    help="Build a float model without samples, with scales of random numbers: for its size and speed alone.",
)  # fmt: skip
FOLDING = click.option(
    "--folding",
    type=FILE,
    metavar="FILE",
    help="Use the foldings in this file; its format is that of folding.toml of a build.",
)
VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Show the output of the tools.")
STORE = click.option(
    "--store", type=FILE, metavar="DIR", help="Folder of results that builds share.  [default: in the user's cache]"
)
JOBS = click.option(
    "--jobs",
    type=Count(min=1),
    metavar="N",
    help="Number of jobs that run at once.  [default: one per processor]",
)
SCHEDULER = click.option(
    "--scheduler", metavar="ADDRESS", help="Use the workers of this dask scheduler: tcp://host:8786."
)
