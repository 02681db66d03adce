"""Base of all boards: a chip in its package, with a name that people type."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.device import ChipType
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.memory import WeightMemory
from onnx_hw_boards.sdram import SdramMemory

MIN_CLOCK_MHZ, MAX_CLOCK_MHZ = 1e-3, 10_000


@dataclass(frozen=True, kw_only=True)
class Board:
    """A target of a build: a ``BareChip``, a ``LinkedBoard``, or a ``VerilogBoard``, which has no chip.

    Attributes:
        name: name that the user types; the name of the board's file.
        title: one line for people.
        package, speed: the chip's package and speed grade, as nextpnr spells them; empty where it has no word.
        default_clock_mhz: clock to aim at where the user names none.
        memory: flash from which weights may come; None without one.
        sdram: SDRAM from which they may come, that the flash fills; None without one.
    """

    name: str
    title: str
    device: ChipType
    package: str
    speed: str
    default_clock_mhz: float
    memory: WeightMemory | None = None
    sdram: SdramMemory | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a clock that no chip can have."""
        mhz = self.default_clock_mhz
        if not isinstance(mhz, Real) or not MIN_CLOCK_MHZ <= mhz <= MAX_CLOCK_MHZ:
            raise ValueError(f"default_clock_mhz must be {MIN_CLOCK_MHZ:g} .. {MAX_CLOCK_MHZ:,} MHz, not {mhz!r}")

    def verify(self) -> None:
        """Raise ``ValueError`` for what the board lacks, as far as a look at it alone can say."""
        for name in ("name", "title", "package", "speed"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a text, not {getattr(self, name)!r}")
        if not self.name:
            raise ValueError("the board must have a name")

    @property
    def family(self) -> Family:
        return self.device.family

    @property
    def cells(self) -> Cells:
        return self.device.cells

    @property
    def nextpnr_options(self) -> tuple[str, ...]:
        """nextpnr's options that name the chip."""
        words = {"option": self.device.option, "package": self.package, "speed": self.speed}
        return tuple(part.format(**words) for part in self.family.placement.chip)
