"""Transports of the driver: kinds of ports, how those of this machine are listed, and how one is opened."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from onnx_hw_link.errors import PortFailed
from onnx_hw_link.spi_transport import SpiTransport

__all__ = ["TRANSPORTS", "SerialTransport", "Transport"]


class Transport(Protocol):
    """A kind of port."""

    @property
    def name(self) -> str:
        """Name of such a port, for people."""

    def ports(self) -> list[str]:
        """Return the names of the ports of this machine."""

    def open(self, port: str, timeout: float) -> Any:
        """Return an open port, with the attributes and methods of ``serial.Serial`` that ``Chip`` uses.

        Those are ``port``, ``timeout``, ``in_waiting``, ``read``, ``write`` and ``close``.

        Raises:
            PortFailed: there is no such port, or it is not free.
        """


_WHY_NOT = {
    errno.ENOENT: "nothing is there: is the board connected?",
    errno.EACCES: "this user may not open it; those of its group may, which on Linux is mostly `dialout` "
    "(sudo usermod -aG dialout $USER, then log in anew)",
}
"""Why a port cannot be opened, by the system's number of the error."""


@dataclass(frozen=True)
class SerialTransport:
    """Serial ports at a number of bits a second."""

    name: ClassVar[str] = "serial port"

    baud: int

    def ports(self) -> list[str]:
        """Return the names of the serial ports of this machine."""
        from serial.tools import list_ports

        return sorted(port.device for port in list_ports.comports())

    def open(self, port: str, timeout: float) -> Any:
        """Return the open port; see ``Transport``."""
        import serial

        try:
            # Also `socket://host:number`: a port behind a network, or of a simulated chip where there are no terminals.
            wire = serial.serial_for_url(port, self.baud, timeout=0, write_timeout=timeout, exclusive=True)
        except (OSError, ValueError) as error:
            if "ould not exclusively lock" in str(error):
                reason = "another process uses it"
            else:
                reason = _WHY_NOT.get(getattr(error, "errno", None) or 0, str(error))
            raise PortFailed(f"the port {port} must be there and free; {reason}") from error
        try:
            wire.set_low_latency_mode(True)  # of a USB adapter, which collects bytes for 16 ms otherwise
        except (AttributeError, NotImplementedError, OSError, ValueError):
            pass
        wire.reset_input_buffer()
        return wire


TRANSPORTS: Mapping[str, Callable[[int], Transport]] = {"uart": SerialTransport, "spi": SpiTransport}
"""The transports that the driver has, by kind of link; each takes the bits a second."""
