"""Simulated chip behind a port of the operating system, which a program can open like the port of a board."""

from __future__ import annotations

from typing import Protocol

from onnx_hw_sim.chip_thread import ChipThread, SimulatedChip
from onnx_hw_sim.port_end import port_end
from onnx_hw_sim.serial_line import BREAK, WireFaults

_SLICE_BITS = 200  # bits of the line that are simulated between two checks of the port
_APART = 0.03  # relative difference of two rates at which a byte's last bit is no longer read for sure


class ChipOnALine(SimulatedChip, Protocol):
    """A simulated chip with a serial line."""

    @property
    def divisor(self) -> int:
        """Clock cycles of a bit."""

    def run(self, cycles: int, to: list[int]) -> tuple[int, bytes]:
        """Simulate some cycles while sending; return the number of bytes begun, and the bytes that came."""


class PseudoTerminal(ChipThread[ChipOnALine]):
    """Port at whose other end a chip is simulated, in a thread of its own; a TCP port where there are no terminals.

    Args:
        chip: the chip to simulate; it is closed in the end.
        faults: faults of the bytes on the wire, in either direction.
        idle_cycles: number of cycles after the last byte in either direction after which the chip rests until another
            byte comes.
        rate: bits a second of the chip's line. A program at another rate is not understood. None to
            take any.
    """

    def __init__(
        self,
        chip: ChipOnALine,
        faults: WireFaults | None = None,
        idle_cycles: int = 3_000_000,
        rate: int | None = None,
    ) -> None:
        self.idle_cycles, self.rate, self._end = idle_cycles, rate, port_end()
        super().__init__(chip, faults, self._end.path)

    def _close_port(self) -> None:
        self._end.close()

    def _serve(self) -> None:
        to: list[int] = []
        back, quiet = bytearray(), 0
        slice_cycles = _SLICE_BITS * self.chip.divisor
        self.chip.run(slice_cycles, [])  # its reset ends before a program can have opened the port
        while not self._stop.is_set():
            resting = quiet > self.idle_cycles and not to and not back
            if resting:
                self._end.wait(0.02)
            arrived = self._end.read()
            alike = not arrived or self._same_rate()
            to += self.faults.on(arrived, (BREAK,)) if alike else [BREAK] * len(arrived)
            if resting and not to:
                continue
            sent, came = self.chip.run(slice_cycles, to)
            del to[:sent]
            back += bytes(self.faults.on(came))
            if back:
                del back[: self._end.write(bytes(back))]
            quiet = 0 if sent or came else quiet + slice_cycles

    def _same_rate(self) -> bool:
        """Return whether the program at the port has the rate of the chip's line, as far as one can know."""
        theirs = self._end.rate
        return not self.rate or not theirs or abs(theirs - self.rate) <= _APART * self.rate
