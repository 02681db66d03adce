"""Times of parts of serial flash, and the faults that their models see. There is no circuit here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True)
class FlashPart:
    """Times of a part, from its data sheet.

    Attributes:
        low_ns, high_ns: least time that the clock is low, and high, at the greatest frequency of the command.
        period_ns: least period of the clock.
        deselect_ns: least time between two commands.
        wake_ns: time from a release from power-down until the next command.
        valid_ns: greatest time from a falling edge of the clock to valid data.
        dummy_clocks: clocks between mode bits and data, as the part is delivered.
    """

    low_ns: float
    high_ns: float
    period_ns: float
    deselect_ns: float
    wake_ns: float
    valid_ns: float
    dummy_clocks: int = 4


PARTS = {
    "W25Q128JV": FlashPart(3.4, 3.4, 7.5, 50, 3_000, 6),
    "IS25LP128F": FlashPart(5.5, 5.5, 12.5, 7, 5_000, 7),
    "MX25L12835F": FlashPart(5.4, 5.4, 11.9, 30, 30_000, 8),
}
"""Some parts, by name. Where a sheet has several values of a time, the one for all voltages and loads.

W25Q128JV: Winbond, "3V 128M-bit serial flash memory with dual/quad SPI", revision F of March 27, 2018, AC electrical
characteristics: tCLL and tCLH are 45 % of the period, FR, tSHSL2, tRES1 and tCLQV; six clocks of mode bits and dummies
in FAST READ QUAD I/O. IS25LP128F is of ISSI, MX25L12835F of Macronix.
"""


class FlashFault(IntEnum):
    """Fault of what drives the pins; the first one is kept."""

    NONE = 0
    CLOCK_TOO_FAST = 1
    SELECTED_TOO_SOON = 2
    ASLEEP = 3
    UNKNOWN_COMMAND = 4
    CONTINUOUS_READ = 5
    BOTH_DRIVE = 6
    UNSTABLE_INPUT = 7
