"""A chip, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_hw_boards.cells import Cells

if TYPE_CHECKING:
    from onnx_hw_boards.families.family import Family

__all__ = ["Cells", "ChipType"]


@dataclass(frozen=True)
class ChipType:
    """A chip.

    Attributes:
        name: as its maker calls it.
        family: which primitives it has and which tools build for it.
        option: how nextpnr is told.
        cells: what it holds.
    """

    name: str
    family: Family
    option: str
    cells: Cells
