"""What a board is: a chip in its package, a clock, a reset and pins for streams."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx_hw_boards.device import Cells, Device
from onnx_hw_boards.families.family import Family

__all__ = ["Board"]


@dataclass(frozen=True)
class Board:
    """A board to build for.

    Attributes:
        name: what the user types; the name of the board's file.
        title: one line for people.
        device: the chip.
        package, speed: the chip's package and speed grade, as nextpnr spells them; empty where it has no word.
        clock_pin: the pin at which the clock arrives.
        reset_pin: active high; synchronised inside.
        pins: pins free for streams, in the order in which they are given out.
        default_clock_mhz: the clock to aim at when none is asked for.
        io_type: electrical standard of every pin, where the family has several.
    """

    name: str
    title: str
    device: Device
    package: str
    speed: str
    clock_pin: str
    reset_pin: str
    pins: tuple[str, ...] = field(repr=False)
    default_clock_mhz: float
    io_type: str = "LVCMOS33"

    @property
    def family(self) -> Family:
        return self.device.family

    @property
    def cells(self) -> Cells:
        return self.device.cells

    @property
    def nextpnr_options(self) -> tuple[str, ...]:
        """Which chip it is, in nextpnr's words."""
        words = {"option": self.device.option, "package": self.package, "speed": self.speed}
        return tuple(part.format(**words) for part in self.family.placement.chip)
