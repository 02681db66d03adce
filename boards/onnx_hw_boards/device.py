"""A chip, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.families.family import Family


@dataclass(frozen=True)
class ChipType:
    """A chip.

    Attributes:
        name: the maker's name.
        family: the primitives that the chip has, and the tools that build for it.
        option: nextpnr's name or option for the chip.
        cells: what the chip holds.
    """

    name: str
    family: Family
    option: str
    cells: Cells


@dataclass(frozen=True)
class PackagedChip:
    """A chip in a package.

    Attributes:
        package, speed: the package and the speed grade, as nextpnr spells them; empty where it has no word for them.
    """

    device: ChipType
    package: str
    speed: str = ""
