"""SDR SDRAM beside a chip, from which a tape of weights is read: what a board has."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from onnx_hw_boards.memory import WeightMemory
from onnx_hw_link.sdram_tape import SdramTiming

LATENCY_CYCLES = (2, 3)
"""Latencies of a read to which a memory may be set."""


@dataclass(frozen=True)
class SdramMemory:
    """SDR SDRAM of a board, with a flash from which it is filled.

    The times are the slowest ones of the parts that boards carry, by LiteDRAM 2024.12 (``litedram/modules.py``) and the
    data sheets of MT48LC16M16A2, IS42S16160G, W9825G6KH and EM638325.

    Attributes:
        word_bytes, columns, rows, banks: geometry.
        flash: the flash that holds the tape while the board has no power.
        resource: name of its pins in the board's platform.
        precharge_ns, activate_ns, write_ns, refresh_ns, open_ns, interval_ns: tRP, tRCD, tWR, tRFC, tRAS and tREFI.
        power_up_us: time before the first command.
        clock_mhz: greatest clock, with each latency of a read.
        valid_ns: greatest time from an edge of the clock to valid data, with each latency; ``hold_ns`` the least one
            that they remain valid behind the next edge.
        pads_ns: least and greatest time of the pads on the chip, in both directions together.
    """

    word_bytes: int
    columns: int
    rows: int
    flash: WeightMemory
    banks: int = 4
    resource: str = "sdram"
    precharge_ns: float = 22.0
    activate_ns: float = 21.0
    write_ns: float = 20.0
    refresh_ns: float = 70.0
    open_ns: float = 45.0
    interval_ns: float = 64e6 / 8192
    power_up_us: float = 200.0
    clock_mhz: tuple[float, float] = (100.0, 133.0)
    valid_ns: tuple[float, float] = (6.0, 5.4)
    hold_ns: float = 2.5
    pads_ns: tuple[float, float] = (3.0, 5.0)

    @property
    def bytes(self) -> int:
        """Size of the memory."""
        return self.word_bytes * self.columns * self.rows * self.banks

    def room(self) -> int:
        """Return the bytes that a tape may have: the flash holds it, too."""
        return min(self.bytes, self.flash.room())

    def timing(self, clock_mhz: float) -> SdramTiming:
        """Return the fastest timing of a reader with this clock.

        Raises:
            ValueError: the memory is too slow for the clock.
        """

        def cycles(nanoseconds: float) -> int:
            return max(1, ceil(nanoseconds * clock_mhz / 1e3 - 1e-9))

        latency = next((n for n, most in zip(LATENCY_CYCLES, self.clock_mhz, strict=True) if clock_mhz <= most), None)
        if latency is None:
            raise ValueError(f"an SDRAM must have a clock of {self.clock_mhz[1]:g} MHz or less, not {clock_mhz:g} MHz")
        read, falling = self._capture(latency, 1e3 / clock_mhz)
        return SdramTiming(
            word_bytes=self.word_bytes,
            columns=self.columns,
            rows=self.rows,
            banks=self.banks,
            activate=cycles(self.activate_ns),
            precharge=cycles(self.precharge_ns),
            refresh=cycles(self.refresh_ns),
            write=max(2, cycles(self.write_ns)),
            open=cycles(self.open_ns),
            mode=2,
            power_up=cycles(self.power_up_us * 1e3) + 1,
            interval=int(self.interval_ns * clock_mhz / 1e3),
            latency_cycles=latency,
            read=read,
            falling=falling,
            flash=self.flash.timing(clock_mhz),
        )

    def _capture(self, latency: int, period_ns: float) -> tuple[int, bool]:
        """Return the cycles from a read command at the pins to the input register's word, and the register's edge.

        The memory has the inverted clock. Its word is valid from ``latency`` less a half of a period behind the command
        on, for a period; the register takes it in the middle or at the end of a cycle.
        """
        begins = (latency - 0.5) * period_ns + self.valid_ns[LATENCY_CYCLES.index(latency)] + self.pads_ns[1]
        ends = (latency + 0.5) * period_ns + self.hold_ns + self.pads_ns[0]
        for half in range(2 * latency - 1, 2 * latency + 3):
            if begins <= half / 2 * period_ns <= ends:
                return (half + 1) // 2, half % 2 == 1
        raise ValueError(f"no edge of a clock of {1e3 / period_ns:g} MHz takes the words of an SDRAM")

    def peak_bytes_a_second(self, clock_mhz: float) -> float:
        """Return the bytes that come in a second while a row is read."""
        return clock_mhz * 1e6 * self.word_bytes
