"""Protocol of a link: what a board, a circuit, a schedule and a driver ask of the wires between host and network.

A kind of link is one file in ``links/``. It is data until somebody asks for its circuit or its simulator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Protocol

from onnx_hw_link.link import Link

MIN_RATE, MAX_RATE = 300, 1_000_000_000
"""Bits a second of a link: no serial port is slower, no pin faster."""


def require_rate(name: str, rate: object) -> None:
    """Raise ``ValueError`` unless a link's bits a second are a whole number that a link may have."""
    if not isinstance(rate, int) or not MIN_RATE <= rate <= MAX_RATE:
        raise ValueError(f"{name} must be a whole number in {MIN_RATE:,} .. {MAX_RATE:,}, not {rate!r}")


class SimulatedPort(Protocol):
    """A port of this machine with a simulated chip behind it."""

    path: str  # the name of the port, for the driver
    faults: Any  # of the bytes on the wires: an ``onnx_hw_sim.serial_line.WireFaults``

    @property
    def error(self) -> Exception | None:
        """Exception that ended the simulation; None while it runs."""

    @property
    def cycle(self) -> int:
        """Cycles simulated so far."""


class BoardLink(ABC):
    """A link between a host and the network on a board.

    Attributes:
        kind: the name of the file of this kind in ``links/``, which ``model.json`` tells the driver.
        ports: ports of the shell, which are subsignals of the platform's resource, with their directions: i or o.
        resource, number: the platform's resource that has the pads.
    """

    kind: ClassVar[str]
    ports: ClassVar[Mapping[str, str]]
    resource: str
    number: int

    def require_pads(self, platform: Any) -> None:
        """Raise ``ValueError`` unless an Amaranth platform has the resource of the pads, with all its subsignals."""
        named = f"{self.resource}#{self.number}"
        if (self.resource, self.number) not in platform.resources:
            known = ", ".join(f"{name}#{number}" for name, number in platform.resources)
            raise ValueError(f"the platform must have the resource {named} of the link; it has {known}")
        pads = {getattr(pad, "name", "") for pad in platform.lookup(self.resource, self.number).ios}
        if missing := sorted({*self.ports} - pads):
            raise ValueError(
                f"the resource {named} must have the subsignals {', '.join(self.ports)}; it lacks {missing[0]}"
            )

    @property
    @abstractmethod
    def bits_per_second(self) -> int:
        """Bit rate on the wire, of each direction."""

    @property
    @abstractmethod
    def bytes_per_second(self) -> float:
        """Bytes that the link carries in each direction, both directions at once."""

    @abstractmethod
    def bit_rate(self, clock_mhz: float | Fraction) -> int:
        """Return the bits a second as a circuit with this clock makes them; 0 where the host's clock drives the link.

        Raises:
            ValueError: this clock cannot make the link's rate.
        """

    @abstractmethod
    def shell(self, network: Any, link: Link, clock_mhz: float | Fraction) -> Any:
        """Return the circuit around a network, an Amaranth component with the ports ``ports``.

        Args:
            network: component with the streams of ``link``.
            link: facts that host and chip agree on.

        Raises:
            ValueError: this clock cannot make the link's rate.
        """

    @abstractmethod
    def simulated_port(
        self, rtlil: str, clock_mhz: float | Fraction, folder: Path
    ) -> AbstractContextManager[SimulatedPort]:
        """Return a port of this machine, open within the context, at which the simulated chip answers.

        Args:
            rtlil: netlist of the whole chip, with the shell of this link.
            folder: folder in which the simulator is compiled.

        Raises:
            ToolMissing, ToolFailed: the simulation needs them.
        """

    @abstractmethod
    def port_of_pins(self, boards: Any, cycles_per_bit: Fraction) -> AbstractContextManager[SimulatedPort]:
        """Return a port of this machine, open within the context, at which a netlist answers through its pins.

        Args:
            boards: the ``onnx_hw_sim.gates.pin_simulator.BoardsUnderWay`` of the netlist.
            cycles_per_bit: cycles of the chip's clock in a bit; need not be whole.
        """
