"""A bitstream unpacked again: cells, nets and pads as they are in the chip."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_hw_sim.gates.netlist import FlatNetlist


class NotUnpacked(Exception):
    """A bitstream that cannot be unpacked here; the message says why."""


class DamagedBitstream(Exception):
    """A file that is no whole bitstream of the chip; the message says where it goes wrong."""


@dataclass(frozen=True)
class Pad:
    """A pin of the package.

    Attributes:
        pin: name of the pin.
        direction: INPUT, OUTPUT or BIDIR; empty for a pin that is off.
        standards: electrical standards that its bits may mean.
        pull: up, down, none or another word of the family; empty where the bits leave it open.
        plain: whether pin and circuit are connected without a register.
    """

    pin: str
    direction: str
    standards: frozenset[str]
    pull: str
    plain: bool = True

    def __str__(self) -> str:
        pull = f", pull {self.pull}" if self.direction and self.pull else ""
        return f"{self.direction or 'off'} {'/'.join(sorted(self.standards))}".strip() + pull


_PORT_BIT = re.compile(r"(.+?)(?:\[(\d+)\])?")


def ports_of_bits(bits: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the nets of ports, lowest bit first, of those of bits such as ``x_payload[3]``."""
    ports: dict[str, dict[int, int]] = {}
    for name, net in bits.items():
        match = _PORT_BIT.fullmatch(name)
        assert match is not None
        ports.setdefault(match[1], {})[int(match[2] or 0)] = net
    return {name: tuple(nets[k] for k in range(len(nets))) for name, nets in ports.items()}


def port_of_bit(bit: str) -> str:
    """Return the port of a bit such as ``x_payload[3]``."""
    return bit.partition("[")[0]


@dataclass(frozen=True)
class UnpackedBitstream:
    """Everything that a bitstream configures.

    Attributes:
        netlist: cells that the outputs of the chip depend on, with a port for every bit.
        pads: all pins that are on, by name.
        sites: sites of the chip that those cells take, by nextpnr's name for them.
        bits: set bits of the configuration memory.
        featureless: those of them that belong to no feature which the database knows.
        unread: arcs that lead to no cell.
        problems: what is not understood, in sentences.
    """

    netlist: FlatNetlist
    pads: Mapping[str, Pad]
    sites: Mapping[str, int]
    bits: int
    featureless: int
    unread: int
    problems: tuple[str, ...] = field(default=())


Unpack = Callable[[bytes, str, str, Mapping[str, str]], UnpackedBitstream]
"""Function from a file, the names of chip and package, and the pin of each port bit, to what is in it.

It raises ``NotUnpacked`` and ``DamagedBitstream``.
"""
