"""Ends of a port of the operating system: one a program can open, the other a simulated chip."""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import Protocol

__all__ = ["PortEnd", "port_end"]


class PortEnd(Protocol):
    """The chip's end of a port, which programs open by its ``path``."""

    path: str

    @property
    def rate(self) -> int | None:
        """Bits a second that the program has set; None where the system does not say."""

    def wait(self, seconds: float) -> None:
        """Return when bytes have come, or after ``seconds``."""

    def read(self) -> bytes:
        """Return the bytes that have come, at once."""

    def write(self, data: bytes) -> int:
        """Send as many of the bytes as the port takes at once, and return their number."""

    def close(self) -> None:
        """Close the port."""


def port_end() -> PortEnd:
    """Return a new port: a pseudo terminal, or a TCP port of this machine where the system has no terminals."""
    try:
        return _TerminalEnd()
    except (ImportError, AttributeError):  # Windows
        return _SocketEnd()


_GET_SETTINGS = 0x802C542A
"""Linux' request TCGETS2 for the settings of a terminal, whose last number is the rate of what is sent."""

_SETTINGS = struct.Struct("4I20s2I")


class _TerminalEnd:
    """A pseudo terminal, without anything that a terminal does to the bytes."""

    def __init__(self) -> None:
        import tty

        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)

    @property
    def rate(self) -> int | None:
        import fcntl

        try:
            settings = fcntl.ioctl(self._master, _GET_SETTINGS, bytes(_SETTINGS.size))
        except OSError:  # the system is another one
            return None
        rate: int = _SETTINGS.unpack(settings)[-1]
        return rate

    def wait(self, seconds: float) -> None:
        select.select([self._master], [], [], seconds)

    def read(self) -> bytes:
        try:
            return os.read(self._master, 4096)
        except OSError:  # nothing has come, or no program has the other end open
            return b""

    def write(self, data: bytes) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        for descriptor in (self._master, self._slave):
            try:
                os.close(descriptor)
            except OSError:
                pass


class _SocketEnd:
    """A TCP port of this machine. One program at a time is heard; what is sent to nobody is lost, as on a wire."""

    rate = None

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._program: socket.socket | None = None
        self.path = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"

    def wait(self, seconds: float) -> None:
        select.select([self._program or self._listener], [], [], seconds)

    def read(self) -> bytes:
        try:
            if self._program is None:
                self._program, _ = self._listener.accept()
                self._program.setblocking(False)
            data = self._program.recv(4096)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._hang_up()
        return data

    def write(self, data: bytes) -> int:
        if self._program is None:
            return len(data)
        try:
            return self._program.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._hang_up()
            return len(data)

    def close(self) -> None:
        self._hang_up()
        self._listener.close()

    def _hang_up(self) -> None:
        if self._program is not None:
            self._program.close()
        self._program = None
