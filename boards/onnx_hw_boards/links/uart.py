"""A serial port as the link: two wires, without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from onnx_hw_boards.board_link import BoardLink, SimulatedPort, require_rate
from onnx_hw_link.link import Link

__all__ = ["LINK", "Uart"]

BITS_PER_BYTE = 10
"""Bits on the line for a byte: a start bit and a stop bit around it."""


@dataclass(frozen=True)
class Uart(BoardLink):
    """A serial port: 8 data bits, no parity, one stop bit, no handshake.

    Attributes:
        baud: bits a second.
        resource: name among the platform's resources, which has the subsignals ``rx`` and ``tx``.
        number: number among the resources of that name.
    """

    kind: ClassVar = "uart"
    ports: ClassVar = {"rx": "i", "tx": "o"}

    baud: int = 1_000_000
    resource: str = "uart"
    number: int = 0

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a rate that no link has."""
        require_rate("baud", self.baud)

    def __repr__(self) -> str:
        return f"UART at {self.baud:,} baud"

    @property
    def bits_per_second(self) -> int:
        return self.baud

    @property
    def bytes_per_second(self) -> float:
        return self.baud / BITS_PER_BYTE

    def divider(self, clock_mhz: float | Fraction) -> int:
        """Return the cycles of the clock per bit.

        Raises:
            ValueError: no whole number of cycles is within 1.5 % of a bit, of which a receiver tolerates twice that; or
                the clock is too slow for the circuit.
        """
        from onnx_hw_rtl.link.uart import MIN_DIVISOR

        cycles = Fraction(clock_mhz) * 1_000_000 / self.baud
        divider = max(1, round(cycles))
        if abs(divider - cycles) / cycles > Fraction(15, 1000):
            raise ValueError(
                f"{self.baud:,} baud must be a whole number of cycles: at {float(clock_mhz):g} MHz a bit takes "
                f"{float(cycles):.2f}; {float(Fraction(divider * self.baud, 1_000_000)):g} MHz would do"
            )
        if divider < MIN_DIVISOR:
            least = MIN_DIVISOR * self.baud / 1e6
            raise ValueError(f"{self.baud:,} baud need a clock of {least:g} MHz or more, not {float(clock_mhz):g} MHz")
        return divider

    def bit_rate(self, clock_mhz: float | Fraction) -> int:
        return round(clock_mhz * 1e6 / self.divider(clock_mhz))

    def shell(self, network: Any, link: Link, clock_mhz: float | Fraction) -> Any:
        from onnx_hw_rtl.shells.uart_shell import UartShell

        return UartShell(network, link, self.divider(clock_mhz))

    @contextmanager
    def simulated_port(self, rtlil: str, clock_mhz: float | Fraction, folder: Path) -> Iterator[SimulatedPort]:
        from onnx_hw_sim.pseudo_terminal import PseudoTerminal
        from onnx_hw_sim.serial_line import SerialChip

        chip = SerialChip(rtlil, self.divider(clock_mhz), folder)
        with PseudoTerminal(chip, rate=self.bit_rate(clock_mhz)) as port:
            yield port

    @contextmanager
    def port_of_pins(self, boards: Any, cycles_per_bit: Fraction) -> Iterator[SimulatedPort]:
        from onnx_hw_sim.gates.pin_chip import SerialPinChip
        from onnx_hw_sim.pseudo_terminal import PseudoTerminal

        with PseudoTerminal(SerialPinChip(boards, cycles_per_bit), rate=self.baud) as port:
            yield port


LINK = Uart
