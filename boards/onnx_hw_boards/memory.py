"""Memory beside a chip, from which a tape of weights is read: what a board has."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from onnx_hw_link.flash_tape import FlashTiming


@dataclass(frozen=True)
class WeightMemory:
    """Serial flash of a board, the one that also holds the bitstream, with all four data pins connected.

    The timings are the slowest ones of the data sheets of W25Q128JV, IS25LP128F and MX25L12835F.

    Attributes:
        bytes: size of the flash.
        offset: address from which on a tape may lie, behind the largest bitstream.
        resource: name of its pins in the board's platform.
        clock_mhz: greatest clock of the flash.
        dummy_clocks: clocks between the mode bits and the first data.
        deselect_ns: least time between two commands.
        wake_us: time that the wake command takes.
        valid_ns: greatest time from a falling edge of the clock to valid data, and ``pads_ns`` that of the pads on the
            chip, in both directions together.
    """

    bytes: int
    offset: int
    resource: str = "spi_flash"
    clock_mhz: float = 80.0
    dummy_clocks: int = 4
    deselect_ns: float = 50.0
    wake_us: float = 35.0
    valid_ns: float = 8.0
    pads_ns: float = 10.0

    def timing(self, clock_mhz: float) -> FlashTiming:
        """Return the fastest timing of a reader with this clock."""
        half_period, way_ns = 1, self.valid_ns + self.pads_ns
        while clock_mhz / (2 * half_period) > self.clock_mhz or 2 * half_period * 1e3 / clock_mhz < way_ns:
            half_period *= 2
        return FlashTiming(
            half_period,
            self.dummy_clocks // 2,
            ceil(self.deselect_ns * clock_mhz / 1e3),
            ceil(self.wake_us * clock_mhz),
            ceil(way_ns * clock_mhz / 1e3),
        )

    def peak_bytes_a_second(self, clock_mhz: float) -> float:
        """Return the bytes that come in a second, once a command is under way."""
        return clock_mhz * 1e6 / self.timing(clock_mhz).byte_cycles

    def room(self) -> int:
        """Return the bytes from the offset to the end."""
        return self.bytes - self.offset
