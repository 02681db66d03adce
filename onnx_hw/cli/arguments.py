"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from onnx_hw.runtime.options import DEFAULT_BOARD


class File(click.Path):
    """A path that can be one: not empty, without a zero byte."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if not str(value):
            self.fail("a path must not be empty", parameter, context)
        if "\0" in str(value):
            self.fail("a path must not hold a zero byte", parameter, context)
        return super().convert(value, parameter, context)


FILE = File(path_type=Path)

MODEL = click.argument("model", type=FILE)
BOARD = click.option(
    "--board", default=DEFAULT_BOARD, show_default=True, metavar="NAME", help="See `onnx-hw boards`; or a file."
)
CALIBRATION = click.option(
    "--calibration",
    type=FILE,
    metavar="X.npz",
    help="Samples to learn a float model's ranges from; or a folder of them.",
)
FOLDING = click.option("--folding", type=FILE, metavar="FILE", help="Lanes of every core; a build writes folding.toml.")
VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Show what the tools print.")
STORE = click.option(
    "--store", type=FILE, metavar="DIR", help="Results that builds share.  [default: in the user's cache]"
)
JOBS = click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="At once.  [default: one a processor]")
SCHEDULER = click.option(
    "--scheduler", metavar="ADDRESS", help="Of a dask scheduler, whose workers do the work: tcp://host:8786."
)
