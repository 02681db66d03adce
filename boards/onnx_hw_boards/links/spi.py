"""A serial peripheral interface as the link: the host drives the clock, and the chip samples it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from onnx_hw_boards.board_link import BoardLink, SimulatedPort, require_rate
from onnx_hw_link.link import Link

BITS_PER_BYTE = 8


@dataclass(frozen=True)
class Spi(BoardLink):
    """An SPI target, mode 0, with a pin that says whether there are bytes for the controller.

    Attributes:
        sck_hz: greatest clock of the controller, which the driver uses.
        resource: name among the platform's resources, which has the subsignals of ``ports``.
        number: number among the resources of that name.
    """

    kind: ClassVar = "spi"
    ports: ClassVar = {"sck": "i", "cs_n": "i", "copi": "i", "cipo": "o", "irq": "o"}

    sck_hz: int = 1_000_000
    resource: str = "spi_link"
    number: int = 0

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a rate that no link has."""
        require_rate("sck_hz", self.sck_hz)

    def __repr__(self) -> str:
        return f"SPI at {self.sck_hz / 1e6:g} MHz"

    @property
    def bits_per_second(self) -> int:
        return self.sck_hz

    @property
    def bytes_per_second(self) -> float:
        return self.sck_hz / BITS_PER_BYTE

    def bit_rate(self, clock_mhz: float | Fraction) -> int:
        from onnx_hw_rtl.link.sampled_spi import MIN_CYCLES_PER_BIT

        least = MIN_CYCLES_PER_BIT * self.sck_hz / 1e6
        if clock_mhz < least:
            raise ValueError(
                f"SPI at {self.sck_hz / 1e6:g} MHz needs a clock of {least:g} MHz or more, not {float(clock_mhz):g} MHz"
            )
        return self.sck_hz

    def shell(self, network: Any, link: Link, clock_mhz: float | Fraction) -> Any:
        from onnx_hw_rtl.link.sampled_spi import SampledSpiTarget
        from onnx_hw_rtl.shells.spi_shell import SpiShell

        self.bit_rate(clock_mhz)
        return SpiShell(network, link, SampledSpiTarget())

    @contextmanager
    def simulated_port(self, rtlil: str, clock_mhz: float | Fraction, folder: Path) -> Iterator[SimulatedPort]:
        from onnx_hw_sim.spi_bus import SpiChip, SpiPort

        cycles_per_bit = Fraction(clock_mhz) * 1_000_000 / self.sck_hz
        with SpiPort(SpiChip(rtlil, float(cycles_per_bit), folder)) as port:
            yield port

    @contextmanager
    def port_of_pins(self, boards: Any, cycles_per_bit: Fraction) -> Iterator[SimulatedPort]:
        from onnx_hw_sim.gates.pin_chip import SpiPinChip
        from onnx_hw_sim.spi_bus import SpiPort

        with SpiPort(SpiPinChip(boards, cycles_per_bit)) as port:
            yield port


def spi_pads(*, cs_n: str, copi: str, cipo: str, sck: str, irq: str, conn: tuple[str, int], **attrs: Any) -> Any:
    """Return the resource of the pads, by their names at a connector of an Amaranth platform."""
    from amaranth.build import Attrs, Pins, Resource, Subsignal

    pins = {"sck": sck, "cs_n": cs_n, "copi": copi, "cipo": cipo, "irq": irq}
    signals = (Subsignal(name, Pins(pins[name], dir=way, conn=conn)) for name, way in Spi.ports.items())
    return Resource("spi_link", 0, *signals, Attrs(**attrs))


LINK = Spi
