"""File of the weights outside the chip, ``weights.tape``: what the flash of a board gets."""

from __future__ import annotations

from pathlib import Path

from onnx_hw.assemble.elaborate import tape_contents
from onnx_hw.ir.design import Design

TAPE_FILE = "weights.tape"


def tape_image(design: Design) -> bytes:
    """Return what lies in the memory outside the chip."""
    assert design.tape is not None
    return design.tape.image(tape_contents(design))


def held_tape(folder: Path, design: Design) -> bytes | None:
    """Return what the flash of a board holds behind a build: its file, or what that would be; None without a tape."""
    if design.tape is None:
        return None
    file = folder / TAPE_FILE
    return file.read_bytes() if file.is_file() else tape_image(design)


def write_tape(folder: Path, design: Design) -> None:
    """Write the file into the folder of a build."""
    (folder / TAPE_FILE).write_bytes(tape_image(design))
