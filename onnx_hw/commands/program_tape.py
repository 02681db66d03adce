"""Weights outside the chip, put into the flash of a board: written where they are not there yet, and read back."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx_hw.commands.call_loader import LOG, call_loader
from onnx_hw.messages.errors import ExitCode, user_error
from onnx_hw_boards.loader import Loader, RawFlash
from onnx_hw_link.flash_tape import DIGEST_BYTES
from onnx_hw_tools.process import ToolFailed

READ_BACK = "tape.read"
"""File of what a flash holds, beside the tape, while a board is programmed."""


@dataclass(frozen=True)
class TapeProgramming:
    """Commands that put a tape into a flash.

    Attributes:
        file: the tape.
        offset: its address in the flash.
        loader: program.
    """

    file: Path
    offset: int
    loader: Loader

    @property
    def raw(self) -> RawFlash:
        """Arguments of the loader for bytes as they are."""
        assert self.loader.raw is not None
        return self.loader.raw

    @property
    def read_back(self) -> Path:
        return self.file.with_name(READ_BACK)

    def read(self, size: int) -> tuple[str, ...]:
        """Return the arguments that read some bytes of what the flash holds."""
        return (*self.raw.reading(self.offset, size), str(self.read_back))

    @property
    def write(self) -> tuple[str, ...]:
        """Arguments that write the tape."""
        return (*self.raw.writing(self.offset), str(self.file))

    @property
    def lines(self) -> tuple[str, ...]:
        """All commands, as for a flash that holds another tape."""
        size = self.file.stat().st_size
        steps = (self.read(DIGEST_BYTES), self.raw.enable_quad, self.write, self.read(size))
        return tuple(shlex.join((self.loader.program, *step)) for step in steps)


def put_tape(wanted: TapeProgramming, note: Callable[[str], None]) -> None:
    """Write a tape, unless the flash holds it, and read it back.

    Args:
        note: called with each command, and with what it leads to.

    Raises:
        UserError: the program is not there or may not use the USB; the flash holds something else than was written.
        ToolFailed: the program failed in another way.
    """
    tape = wanted.file.read_bytes()
    if _held(wanted, DIGEST_BYTES, note) == tape[:DIGEST_BYTES] and _held(wanted, len(tape), note) == tape:
        note(f"the flash holds {wanted.file.name} already")
        return
    for step in (wanted.raw.enable_quad, wanted.write):
        _call(wanted, step, note)
    held = _held(wanted, len(tape), note)
    if held is None:
        note(f"{wanted.file.name} is written, and could not be read back; the chip itself checks it")
        return
    if held == tape:
        note(f"{wanted.file.name} is written, and read back")
        return
    differs = next((k for k, (one, other) in enumerate(zip(held, tape, strict=False)) if one != other), len(held))
    raise user_error(
        "flash-differs",
        f"the flash must hold what was written; at {wanted.offset + differs:#x} it holds something else",
        where=str(wanted.file.with_name(LOG)),
        hint="call `onnx-hw program` again; if that changes nothing, the flash may be write-protected or worn out",
        stage="tools",
        exit_code=ExitCode.MISMATCH,
    )


def _call(wanted: TapeProgramming, arguments: tuple[str, ...], note: Callable[[str], None]) -> None:
    note(shlex.join((wanted.loader.program, *arguments)))
    call_loader(wanted.loader, arguments, wanted.file.parent)


def _held(wanted: TapeProgramming, size: int, note: Callable[[str], None]) -> bytes | None:
    """Return the first bytes of what the flash holds at the place of the tape; None where it cannot be read."""
    wanted.read_back.unlink(missing_ok=True)
    try:
        _call(wanted, wanted.read(size), note)
        return wanted.read_back.read_bytes()[:size]
    except (ToolFailed, FileNotFoundError):
        return None
    finally:
        wanted.read_back.unlink(missing_ok=True)
