"""Simulation of a whole chip at an SPI bus, bit by bit, as native code; and a port at which a driver reaches it."""

from __future__ import annotations

import ctypes
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np

from onnx_hw_sim.circuit import Circuit
from onnx_hw_sim.compiled import SimulationError
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


class SpiChip:
    """Chip with the module ``top`` and the ports ``clk``, ``rst``, ``sck``, ``cs_n``, ``copi`` and ``cipo``.

    Args:
        rtlil: its netlist.
        cycles_per_bit: clock cycles of a bit; need not be whole.
        folder: folder in which it is compiled, unless an equal chip was compiled there before.
        on_first_run: see ``tools.run``.

    Raises:
        ToolMissing, ToolFailed: as ``build_library``.
    """

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
        self._c = c = ctypes.CDLL(str(library))
        pointer, i64 = ctypes.c_void_p, ctypes.c_int64
        for name, result, arguments in (
            ("open", pointer, [ctypes.c_double]),
            ("close", None, [pointer]),
            ("cycle", i64, [pointer]),
            ("error", ctypes.c_char_p, [pointer]),
            ("exchange", ctypes.c_int, [pointer, ctypes.c_char_p, pointer, i64]),
        ):
            function = getattr(c, f"bus_simulation_{name}")
            function.restype, function.argtypes = result, arguments
        self._handle = c.bus_simulation_open(cycles_per_bit)

    @property
    def cycle(self) -> int:
        """Number of cycles simulated so far."""
        return int(self._c.bus_simulation_cycle(self._handle))

    def exchange(self, data: bytes) -> bytes:
        """Choose the chip, and exchange bytes: return as many as are sent.

        Raises:
            SimulationError: the circuit cannot be simulated.
        """
        came = np.zeros(len(data), dtype=np.uint8)
        if self._c.bus_simulation_exchange(self._handle, data, came.ctypes.data, len(data)):
            raise SimulationError(self._c.bus_simulation_error(self._handle).decode())
        return came.tobytes()

    def close(self) -> None:
        """Release the chip; no other method may be called afterwards."""
        if self._handle is not None:
            self._c.bus_simulation_close(self._handle)
            self._handle = None


class SpiPort:
    """TCP port of this machine that returns, for the bytes that come, those that a simulated chip exchanges for them.

    The chip's time passes only while bytes are exchanged.

    Args:
        chip: the chip to simulate; it is closed in the end.
        faults: faults of the bytes on the wires, in either direction; none is lost.

    Attributes:
        path: name of the port, for ``onnx_hw_link.spi_transport``.
        error: the exception that ended the simulation; None if there was none.
    """

    def __init__(self, chip: SpiChip, faults: WireFaults | None = None) -> None:
        self.chip, self.faults = chip, faults or WireFaults(0)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.02)
        self.path = f"socket://127.0.0.1:{self._server.getsockname()[1]}"
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="simulated chip", daemon=True)
        self._thread.start()

    @property
    def cycle(self) -> int:
        """Cycles simulated so far."""
        return self.chip.cycle

    def __enter__(self) -> SpiPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the port and the chip."""
        self._stop.set()
        self._thread.join()
        self._server.close()
        self.chip.close()

    def _serve(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    client, _ = self._server.accept()
                except TimeoutError:
                    continue
                with client:
                    self._speak(client)
        except Exception as error:
            self.error = error

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
