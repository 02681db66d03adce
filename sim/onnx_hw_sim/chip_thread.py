"""Simulation of a chip behind a port of this machine, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from onnx_hw_sim.serial_line import WireFaults


class SimulatedChip(Protocol):
    """A whole chip that is simulated."""

    @property
    def cycle(self) -> int:
        """Number of cycles simulated so far."""

    def close(self) -> None:
        """Release the chip; no other method may be called afterwards."""


ChipT = TypeVar("ChipT", bound=SimulatedChip)


class ChipThread(AbstractContextManager["ChipThread[ChipT]"], ABC, Generic[ChipT]):
    """Thread that simulates a chip, for a program that opens a port.

    Args:
        chip: the chip to simulate; it is closed in the end.
        faults: faults of the bytes on the wires, in either direction.
        path: name of the port, for the program.

    Attributes:
        error: the exception that ended the simulation; None if there was none.
    """

    def __init__(self, chip: ChipT, faults: WireFaults | None, path: str) -> None:
        self.chip, self.faults, self.path = chip, faults or WireFaults(0), path
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated chip", daemon=True)
        self._thread.start()

    @abstractmethod
    def _serve(self) -> None:
        """Simulate the chip until ``_stop`` is set."""

    @abstractmethod
    def _close_port(self) -> None:
        """Close the chip's end of the port."""

    @property
    def cycle(self) -> int:
        """Cycles simulated so far."""
        return self.chip.cycle

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port and the chip."""
        self._stop.set()
        self._thread.join()
        self._close_port()
        self.chip.close()

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            self.error = error
