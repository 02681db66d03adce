"""Simulation of a whole chip at an SPI bus, bit by bit, as native code; and a port at which a driver reaches it."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from onnx_hw_sim.chip_thread import ChipThread, SimulatedChip
from onnx_hw_sim.circuit import Circuit
from onnx_hw_sim.compiled import SimulationError
from onnx_hw_sim.native_library import I32, I64, POINTER, NativeChip, Signature
from onnx_hw_sim.serial_line import WireFaults
from onnx_hw_sim.shared_library import BoundDriver, build_library
from onnx_hw_tools.tools import Tool

_BINDING = """\
#include "Vtop.h"
#include "spi_bus.h"
struct Binding {
    VerilatedContext context;
    Vtop top{&context};
    Bus bus{[](void* self) { static_cast<Binding*>(self)->top.eval(); }, this,
        &top.clk, &top.rst, &top.sck, &top.cs_n, &top.copi, &top.cipo};
    ~Binding() { top.final(); }
};
const Bus* bus_open() { return &(new Binding)->bus; }
void bus_close(const Bus* bus) { delete static_cast<Binding*>(bus->model); }
"""


class SpiChip(NativeChip):
    """Chip with the module ``top`` and the ports ``clk``, ``rst``, ``sck``, ``cs_n``, ``copi`` and ``cipo``.

    Args:
        rtlil: its netlist.
        cycles_per_bit: clock cycles of a bit; need not be whole.
        folder: folder in which it is compiled, unless an equal chip was compiled there before.
        on_first_run: see ``tools.run``.

    Raises:
        ToolMissing, ToolFailed: as ``build_library``.
    """

    PREFIX = "bus_simulation"
    SIGNATURES: ClassVar[Mapping[str, Signature]] = {
        "open": (POINTER, [ctypes.c_double]),
        "close": (None, [POINTER]),
        "cycle": (I64, [POINTER]),
        "error": (ctypes.c_char_p, [POINTER]),
        "exchange": (I32, [POINTER, ctypes.c_char_p, POINTER, I64]),
    }

    def __init__(
        self,
        rtlil: str,
        cycles_per_bit: float,
        folder: Path,
        *,
        on_first_run: Callable[[Tool], None] | None = None,
    ) -> None:
        bound = BoundDriver(_BINDING, "spi_bus.cpp", "spi_bus.h")
        library = build_library(Circuit(rtlil, (), ()), folder.resolve(), bound=bound, on_first_run=on_first_run)
        super().__init__(library, cycles_per_bit)

    def exchange(self, data: bytes) -> bytes:
        """Choose the chip, and exchange bytes: return as many as are sent.

        Raises:
            SimulationError: the circuit cannot be simulated.
        """
        came = np.zeros(len(data), dtype=np.uint8)
        if self._function("exchange")(self._handle, data, came.ctypes.data, len(data)):
            raise SimulationError(self._error)
        return came.tobytes()


class ChipOnABus(SimulatedChip, Protocol):
    """A simulated chip with SPI."""

    def exchange(self, data: bytes) -> bytes:
        """Choose the chip, and exchange bytes: return as many as are sent."""


class SpiPort(ChipThread[ChipOnABus]):
    """TCP port of this machine that returns, for the bytes that come, those that a simulated chip exchanges for them.

    The chip's time passes only while bytes are exchanged. No fault loses a byte. ``path`` is the port's name for
    ``onnx_hw_link.spi_transport``.
    """

    def __init__(self, chip: ChipOnABus, faults: WireFaults | None = None) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.02)
        super().__init__(chip, faults, f"socket://127.0.0.1:{self._server.getsockname()[1]}")

    def _close_port(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                client, _ = self._server.accept()
            except TimeoutError:
                continue
            with client:
                self._speak(client)

    def _speak(self, client: socket.socket) -> None:
        """Serve one program until it closes its end."""
        client.settimeout(0.02)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not self._stop.is_set():
            try:
                data = client.recv(1 << 16)
                if not data:
                    return
                client.sendall(self.faults.flipped(self.chip.exchange(self.faults.flipped(data))))
            except TimeoutError:
                continue
            except ConnectionError:
                return
