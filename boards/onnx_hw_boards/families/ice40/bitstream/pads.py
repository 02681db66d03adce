"""Pads of an iCE40: direction and pull of a package's pins (Lattice FPGA-DS-02008, sysIO; ICE Technology Library)."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw_boards.families.ice40.bitstream.chip_cells import ChipCells
from onnx_hw_boards.families.unpacked_bitstream import Pad
from onnx_hw_sim.gates.netlist import ONE

_STANDARDS = frozenset({"LVCMOS33", "LVCMOS25", "LVCMOS18", "SB_LVCMOS", "SB_LVTTL"})
"""Standards of a pin without a pair: the voltage of its bank makes the difference, and no bit."""

_WITH_ENABLE = 0b1010
_PLAIN_OUTPUTS = (0b0000, 0b0110, _WITH_ENABLE)
"""Upper bits of the type of a pin that has no register at its output."""

_PLAIN_INPUT = 0b01


class PinSettings:
    """The pins of a package.

    Args:
        package: nextpnr's name of it.
    """

    def __init__(self, maker: ChipCells, package: str) -> None:
        self._maker, self._die = maker, maker.die
        database = maker.die.database
        self.bels: Mapping[str, int] = {
            pin: bel for pin, bel in database.package(package).items() if database.bel_name(bel) in ("io0", "io1")
        }

    def _type_of(self, pin: str) -> int:
        """Return a pin's type, of six bits as the cell SB_IO has them."""
        x, y, z = self._die.database.bel_place(self.bels[pin])
        return sum(self._die.switched_on((x, y), f"IOB_{z}.PINTYPE_{k}") << k for k in range(6))

    def _always_drives(self, pin: str) -> bool:
        """Return whether the driver of a pin is always on; it may have an enable, which is then a constant."""
        kind = self._type_of(pin) >> 2
        return kind != _WITH_ENABLE or self._maker.net(self.bels[pin], "OUTPUT_ENABLE") == ONE

    def pad(self, pin: str) -> Pad:
        """Return what the bits say of a pin, and explain them."""
        kind = self._type_of(pin)
        x, y, z = self._die.database.pin_controls.get(self._die.database.bel_place(self.bels[pin]), (-1, -1, -1))
        receives = z >= 0 and self._die.switched_on((x, y), f"IoCtrl.IE_{z}")
        pull = "" if z < 0 else "none" if self._die.switched_on((x, y), f"IoCtrl.REN_{z}") else "up"
        direction = "INPUT" if receives else ""
        if kind >> 2:
            direction = "BIDIR" if receives or not self._always_drives(pin) else "OUTPUT"
        return Pad(
            pin=pin,
            direction=direction,
            standards=_STANDARDS,
            pull=pull,
            plain=kind >> 2 in _PLAIN_OUTPUTS and (not receives or kind & 3 == _PLAIN_INPUT),
        )

    def output(self, pin: str) -> int:
        """Return the net that drives a pin."""
        return self._maker.net(self.bels[pin], "D_OUT_0")
