"""One board of a simulated netlist as a chip with a serial line or SPI, for a port of the operating system.

The interface is that of a compiled chip; of the 64 boards that are simulated at once, only the first has a host.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from onnx_hw_sim.gates.pin_simulator import BoardsUnderWay

RUN = 0
"""The board that has a host."""

_BITS_AFTER_A_TRANSFER = 2
"""Bits until the host has let go of the chip: the clock falls, the select rises, and half a bit of rest."""


class PinChip:
    """Board of a netlist under way.

    Args:
        boards: the boards; the caller powers them down.
        cycles_per_bit: cycles of the chip's clock in a bit; need not be whole.
    """

    def __init__(self, boards: BoardsUnderWay, cycles_per_bit: Fraction) -> None:
        self._boards, self._cycles_per_bit = boards, cycles_per_bit

    @property
    def cycle(self) -> int:
        """Number of cycles simulated so far."""
        return self._boards.cycle

    def close(self) -> None:
        """Do nothing: the caller powers the boards down."""


class SerialPinChip(PinChip):
    """Board with a serial line."""

    @property
    def divisor(self) -> int:
        """Clock cycles of a bit, rounded up."""
        return ceil(self._cycles_per_bit)

    def run(self, cycles: int, to: Sequence[int]) -> tuple[int, bytes]:
        """Simulate some cycles while sending bytes.

        Returns:
            (number of bytes whose sending has begun, bytes that came from the chip).
        """
        self._boards.send(RUN, to)
        self._boards.step(cycles)
        sent = len(to) - int(self._boards.waiting[RUN])
        self._boards.drop(RUN)
        return sent, self._boards.take(RUN)


class SpiPinChip(PinChip):
    """Board with SPI."""

    def exchange(self, data: bytes) -> bytes:
        """Choose the chip, and exchange bytes: return as many as are sent."""
        came = b""
        self._boards.send(RUN, list(data))
        while len(came) < len(data):
            self._boards.step(ceil((len(data) - len(came)) * 8 * self._cycles_per_bit))
            came += self._boards.take(RUN)
        self._boards.step(ceil(_BITS_AFTER_A_TRANSFER * self._cycles_per_bit))
        return came
