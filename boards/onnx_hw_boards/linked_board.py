"""Boards that people own: a platform class of Amaranth's, with a link to a host.

``board`` makes one of a platform class, from ``amaranth_boards`` or in its style: chip, package, speed, oscillator,
pins and their electrical standards are the class's and are stated nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from onnx_hw_boards.board import Board
from onnx_hw_boards.board_link import BoardLink
from onnx_hw_boards.chip_lookup import packaged_chip
from onnx_hw_boards.families.clock_source import ClockSource
from onnx_hw_boards.links.uart import Uart
from onnx_hw_boards.loader import Loader
from onnx_hw_boards.memory import WeightMemory
from onnx_hw_boards.sdram import SdramMemory

__all__ = ["LinkedBoard", "Uart", "board"]


FLASH_PADS = {"clk": "o", "cs": "o", "copi": "io", "cipo": "io", "wp": "io", "hold": "io"}
"""Directions of the pins of a flash, seen from the chip; the last four are its data pins 0 to 3."""


ALARM_LED = ("led", 0)
"""Name and number of the LED that shows that the memory holds wrong weights."""


@dataclass(frozen=True)
class BoardPin:
    """A pin of a board's chip that a design uses.

    Attributes:
        port: name of its port in the netlist.
        pin: name of the pin.
        direction: i, o, or io for both ways, seen from the chip.
        standard: electrical standard as the platform says; empty where it says none.
        pull: up, down or none, which it is where the platform says nothing.
        inverted: whether a low level means 1.
    """

    port: str
    pin: str
    direction: str
    standard: str
    pull: str
    inverted: bool


@dataclass(frozen=True, kw_only=True)
class LinkedBoard(Board):
    """A board whose network is reached through a link.

    Attributes:
        platform: function that returns a new Amaranth platform; each serves one netlist.
        link: wires to the host.
        loader: program that puts a bitstream on the board.
    """

    platform: Callable[[], Any] = field(repr=False)
    link: BoardLink
    loader: Loader

    def verify(self) -> None:
        """Raise ``ValueError`` also for a link, its pads, a loader or a clock that the platform does not have."""
        super().verify()
        for name, kind in (("link", BoardLink), ("loader", Loader)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} must be a {kind.__name__}, not {getattr(self, name)!r}")
        self.link.require_pads(self.platform())
        mhz = self.clock(self.default_clock_mhz).mhz
        self.link.bit_rate(mhz)

    @cached_property
    def oscillator_mhz(self) -> Fraction:
        """Clock that arrives at the chip, in MHz."""
        return Fraction(self.platform().default_clk_frequency) / 1_000_000

    @cached_property
    def pads(self) -> dict[str, BoardPin]:
        """The pins that a design uses, as the platform class says: ``clk``, those of the link, and ``rst`` if any."""
        platform = self.platform()
        named = {"clk": (platform.default_clk, 0, "i")}
        if platform.default_rst is not None:
            named["rst"] = platform.default_rst, 0, "i"
        named |= {name: (self.link.resource, self.link.number, way) for name, way in self.link.ports.items()}
        return {name: _pin_of(platform, resource, number, name, way) for name, (resource, number, way) in named.items()}

    @cached_property
    def memory_pads(self) -> dict[str, BoardPin]:
        """The pins of the memory that weights may come from, by their names in ``FLASH_PADS``, and that of the alarm.

        The clock of the flash is missing where only a primitive reaches it.
        """
        if self.memory is None:
            return {}
        platform, resource = self.platform(), self.memory.resource
        there = {part.name for part in platform.lookup(resource, 0).ios}
        alarm = {"alarm": _pin_of(platform, *ALARM_LED, "alarm", "o")} if self.has_alarm_led else {}
        pads = {name: _pin_of(platform, resource, 0, name, way) for name, way in FLASH_PADS.items() if name in there}
        return pads | alarm

    @cached_property
    def has_alarm_led(self) -> bool:
        """Whether the board has an LED that shows that weights are wrong."""
        return ALARM_LED in self.platform().resources

    def clock(self, mhz: float | Fraction) -> ClockSource:
        """Return the clock nearest to ``mhz``: the oscillator, or a clock that the chip's PLL makes of it.

        Raises:
            ValueError: no clock is within a hundredth; the message says which is nearest.
        """
        platform = self.platform()
        pin = platform.lookup(platform.default_clk).ios[0].names[0]
        clocking = self.family.clocking
        return clocking.nearest(self.oscillator_mhz, Fraction(mhz), at_pad=pin == clocking.pll_pads.get(self.package))


def _pin_of(platform: Any, resource: str, number: int, name: str, direction: str) -> BoardPin:
    """Return the pin of a resource, or of its subsignal with a name."""
    described = platform.lookup(resource, number)
    part = next((each for each in described.ios if getattr(each, "name", None) == name), None)
    holder = described.ios[0] if part is None else part.ios[0]
    (pin,) = holder.map_names(platform._conn_pins, described)
    attributes = {**described.attrs, **getattr(part, "attrs", {})}
    port = f"{resource}_{number}__io" if part is None else f"{resource}_{number}__{name}__io"
    pull = str(attributes.get("PULLMODE", "UP" if attributes.get("PULLUP") else "NONE")).lower()
    return BoardPin(port, pin, direction, str(attributes.get("IO_TYPE", "")), pull, bool(holder.invert))


def board(
    name: str,
    platform: Callable[[], Any],
    *,
    link: BoardLink,
    loader: Loader,
    title: str,
    default_clock_mhz: float,
    memory: WeightMemory | None = None,
    sdram: SdramMemory | None = None,
) -> LinkedBoard:
    """Return the board with an Amaranth platform class; raise ``ValueError`` where its chip is not known."""
    chip = packaged_chip(platform)
    return LinkedBoard(
        name=name,
        title=title,
        device=chip.device,
        package=chip.package,
        speed=chip.speed,
        default_clock_mhz=default_clock_mhz,
        memory=memory,
        sdram=sdram,
        platform=platform,
        link=link,
        loader=loader,
    )
