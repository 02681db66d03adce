"""SPI ports of the driver: a controller of this machine, which exchanges as many bytes as it sends.

Names of ports: ``spidev0.0`` or ``/dev/spidev0.0`` (Linux, package ``spidev``), ``ftdi://...`` (an FT232H or FT2232H,
package ``pyftdi``, which describes the names), ``socket://host:number`` (a simulated chip).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from glob import glob
from typing import Any, ClassVar

from onnx_hw_link.errors import PortFailed

_MOST = 4096  # bytes of an exchange: the default of Linux' spidev
_ASKED = 32  # zeros that are sent where there is nothing to send, to hear whether something comes
_SIMULATED_TIMEOUT = 60.0  # seconds for an exchange
_WITHOUT = {"spidev": "pip install spidev, on Linux", "pyftdi": "pip install pyftdi"}


class SpiWire:
    """A port with the attributes and methods of ``serial.Serial`` that ``Chip`` uses.

    Bytes come only while bytes are sent. What comes is kept, but for zeros between packets.

    Args:
        port: name of the port.
        exchange: function that sends bytes, and returns as many.
        shut: function that gives the controller back.
    """

    def __init__(self, port: str, exchange: Callable[[bytes], bytes], shut: Callable[[], None]) -> None:
        self.port, self.timeout = port, 0.0
        self._exchange, self._shut = exchange, shut
        self._came = bytearray()
        self._zero = True  # the byte that came last, behind ``_came`` or read already, was one

    @property
    def in_waiting(self) -> int:
        return len(self._came)

    def write(self, data: bytes) -> None:
        """Send bytes; keep what comes."""
        for at in range(0, len(data), _MOST):
            for byte in self._exchange(data[at : at + _MOST]):
                if byte or not self._zero:
                    self._came.append(byte)
                self._zero = not byte

    def read(self, count: int) -> bytes:
        """Return at most ``count`` bytes; send zeros until some come, or ``timeout`` is over."""
        end = time.monotonic() + self.timeout
        while not self._came:
            self.write(bytes(_ASKED))
            if time.monotonic() > end:
                break
        data = bytes(self._came[:count])
        del self._came[:count]
        return data

    def close(self) -> None:
        """Give the controller back."""
        self._shut()


@dataclass(frozen=True)
class SpiTransport:
    """SPI controllers of this machine, in mode 0, with a clock of ``sck_hz`` or less."""

    name: ClassVar[str] = "SPI port"

    sck_hz: int

    def ports(self) -> list[str]:
        """Return the names of the controllers that Linux has; those behind USB have to be named."""
        return sorted(glob("/dev/spidev*"))

    def open(self, port: str, timeout: float) -> SpiWire:
        """Return the open port; an exchange takes no longer than its bits. See ``transport.Transport``."""
        del timeout
        opens = {"socket": self._simulated, "ftdi": self._ftdi}.get(port.partition("://")[0], self._spidev)
        try:
            return SpiWire(port, *opens(port))
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            hint = _WITHOUT.get(package, f"pip install {package}")
            raise PortFailed(f"the port {port} needs the package {package}: {hint}") from error
        except (OSError, ValueError) as error:
            raise PortFailed(
                f"the port {port} must be there and free: spidev0.0, or ftdi://ftdi:232h/1; {error}"
            ) from error

    def _spidev(self, port: str) -> tuple[Callable[[bytes], bytes], Callable[[], None]]:
        import spidev

        bus, _, device = port.removeprefix("/dev/").removeprefix("spidev").partition(".")
        if not (bus.isdecimal() and device.isdecimal()):
            raise ValueError("this is no name of an SPI port")
        spi = spidev.SpiDev()
        spi.open(int(bus), int(device))
        return self._controlled(spi)

    def _controlled(self, spi: Any) -> tuple[Callable[[bytes], bytes], Callable[[], None]]:
        """Set a controller up, an ``spidev.SpiDev`` or one like it."""
        spi.max_speed_hz, spi.mode = self.sck_hz, 0
        return lambda data: bytes(spi.xfer2(list(data))), spi.close

    def _ftdi(self, port: str) -> tuple[Callable[[bytes], bytes], Callable[[], None]]:
        from pyftdi.spi import SpiController
        from pyftdi.usbtools import UsbToolsError

        controller = SpiController()
        try:
            controller.configure(port)
        except UsbToolsError as error:
            raise OSError(str(error)) from error
        except SystemExit as error:  # a name with "?" makes pyftdi print the names of all devices, and end
            raise OSError("this name only lists the devices") from error
        chip: Any = controller.get_port(cs=0, freq=self.sck_hz, mode=0)
        return lambda data: bytes(chip.exchange(data, duplex=True)), controller.terminate

    def _simulated(self, port: str) -> tuple[Callable[[bytes], bytes], Callable[[], None]]:
        host, _, number = port.removeprefix("socket://").partition(":")
        return self._controlled(_SimulatedController(host, int(number)))


class _SimulatedController:
    """Controller of a simulated chip, with the part of ``spidev.SpiDev`` that is used here."""

    def __init__(self, host: str, number: int) -> None:
        self.max_speed_hz, self.mode = 0, -1
        self._wire = socket.create_connection((host, number), timeout=_SIMULATED_TIMEOUT)
        self._wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def xfer2(self, values: list[int]) -> list[int]:
        """Exchange bytes. In another mode than 0 the controller samples at edges at which the wires change."""
        if self.mode != 0 or self.max_speed_hz <= 0:
            return [255] * len(values)
        self._wire.sendall(bytes(values))
        came = bytearray()
        while len(came) < len(values):
            part = self._wire.recv(len(values) - len(came))
            if not part:
                raise OSError("the simulation has ended")
            came += part
        return list(came)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()
