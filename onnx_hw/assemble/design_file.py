"""File ``design.npz`` of a build: its design, with the integer network, so that nothing has to be quantized again.

``write_design`` is called by a build when it has a design; ``read_design`` by the commands that work with the build,
which need neither the model nor the samples for calibration then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.ir.design import Design
from onnx_hw.ir.value_file import DAMAGED, Stored, decode, encode
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.version import __version__
from onnx_hw.onnx.graph.model import Value
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw_boards.board import Board

FILE = "design.npz"

BUILT_FILE = "design-built.npz"
"""File of the design in the bitstream, where ``onnx-hw update`` has written the design of other weights."""

FORMAT = 1
"""Number of the format, in every file."""


@dataclass(frozen=True)
class KeptDesign:
    """Design of a build, and what is known of the model that it was made of.

    Attributes:
        version: version of onnx-hw that wrote it.
        format: number of the format.
        inputs: inputs of the model as written.
        batch: number of frames in a sample of the model as written.
        classes: number of classes of the first output; None where it is unknown, 0 where it has none.
    """

    version: str
    format: int
    design: Design
    inputs: tuple[Value, ...]
    batch: int = 1
    classes: int | None = None


def write_design(
    folder: BuildFolder,
    note_file: Callable[[str, str], None],
    design: Design,
    board: str,
    inputs: tuple[Value, ...],
    batch: int,
    classes: int | None,
) -> None:
    """Write the file, and note it in the report.

    Args:
        board: name of the board, or the file of a user's own.
        inputs, batch, classes: as in ``KeptDesign``.
    """
    if board.endswith(".py"):
        board = str(Path(board).absolute())
    kept = KeptDesign(__version__, FORMAT, design, inputs, batch, classes)
    folder.write(FILE, encode(kept, {"board": Stored(Board, lambda _: board, find_board)}))
    (folder.path / BUILT_FILE).unlink(missing_ok=True)
    note_file("design", FILE)


def read_design(folder: Path, *, as_built: bool = False) -> KeptDesign:
    """Return the design of the build in a folder.

    Args:
        as_built: the design in the bitstream, whatever weights have been loaded since.

    Raises:
        UserError: the file is missing or damaged, or another version of onnx-hw wrote it.
    """
    path = folder / (BUILT_FILE if as_built and (folder / BUILT_FILE).exists() else FILE)
    find = lru_cache(maxsize=1)(find_board)
    try:
        kept = decode(path, KeptDesign, {"board": Stored(Board, str, find)})
    except FileNotFoundError:
        raise _refused(
            path, "it is not there: the build ended before its schedule, or is of an older onnx-hw"
        ) from None
    except DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise _refused(path, f"it is damaged, or of another version: {reason}") from None
    if (kept.version, kept.format) != (__version__, FORMAT):
        raise _refused(path, f"it is of onnx-hw {kept.version}, and this is {__version__}")
    return kept


def _refused(path: Path, reason: str) -> UserError:
    return user_error(
        "design-file",
        f"the folder must hold the design of its build; {reason}",
        where=str(path),
        hint="build it again; `onnx-hw build` uses what is in its folder already",
        stage="arguments",
    )
