"""Pads of an iCE40: direction and pull of a package's pins (Lattice FPGA-DS-02008, sysIO; ICE Technology Library)."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw_boards.families.ice40.bitstream.chip_cells import ChipCells
from onnx_hw_boards.families.ice40.bitstream.die_bits import DieBits
from onnx_hw_boards.families.unpacked_bitstream import Pad
from onnx_hw_sim.gates.netlist import ONE, RUBBISH

_STANDARDS = frozenset({"LVCMOS33", "LVCMOS25", "LVCMOS18", "SB_LVCMOS"})
"""Standards of a pin without a pair: the voltage of its bank makes the difference, and no bit."""

_OUTPUTS = {0b0000: "", 0b0110: "OUTPUT", 0b1010: "BIDIR"}
"""Direction by the upper bits of a pin's type, without registers; the last one has an enable."""

_PLAIN_INPUT = 0b01


class PinSettings:
    """The pins of a package.

    Args:
        package: nextpnr's name of it.
    """

    def __init__(self, die: DieBits, package: str) -> None:
        self._die = die
        self.bels: Mapping[str, int] = {
            pin: bel
            for pin, bel in die.database.package(package).items()
            if die.database.bel_name(bel).startswith("io") and die.database.bel_name(bel)[2:].isdigit()
        }

    def type_of(self, pin: str) -> int:
        """Return a pin's type, of six bits as the cell SB_IO has them."""
        x, y, z = self._die.database.bel_place(self.bels[pin])
        return sum(self._die.switched_on((x, y), f"IOB_{z}.PINTYPE_{k}") << k for k in range(6))

    def pad(self, pin: str) -> Pad:
        """Return what the bits say of a pin, and explain them."""
        place = self._die.database.bel_place(self.bels[pin])
        kind = self.type_of(pin)
        x, y, z = self._die.database.pin_controls.get(place, (-1, -1, -1))
        receives = z >= 0 and self._die.switched_on((x, y), f"IoCtrl.IE_{z}")
        pulls = z >= 0 and not self._die.switched_on((x, y), f"IoCtrl.REN_{z}")
        drives = _OUTPUTS.get(kind >> 2, "OUTPUT")
        direction = "BIDIR" if drives and (receives or drives == "BIDIR") else drives or ("INPUT" if receives else "")
        return Pad(
            pin=pin,
            direction=direction,
            standards=_STANDARDS,
            pull="up" if pulls else "",
            plain=kind >> 2 in _OUTPUTS and (not receives or kind & 3 == _PLAIN_INPUT),
        )

    def output(self, maker: ChipCells, pin: str) -> int:
        """Return the net that drives a pin; RUBBISH where its driver is not always on."""
        bel = self.bels[pin]
        if _OUTPUTS.get(self.type_of(pin) >> 2) == "BIDIR" and maker.net(bel, "OUTPUT_ENABLE") != ONE:
            maker.problem(f"the driver of pin {pin} is not always on")
            return RUBBISH
        return maker.net(bel, "D_OUT_0")
