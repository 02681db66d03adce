"""The chips there are, as Amaranth's platforms call them, and how nextpnr calls their packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx_hw_boards.device import ChipType
from onnx_hw_boards.families import ecp5, gowin, ice40

__all__ = ["DEVICES", "KnownChip"]


@dataclass(frozen=True)
class KnownChip:
    """A chip, and the way from Amaranth's name of a package to nextpnr's."""

    device: ChipType
    package_of: Callable[[str], str]


def _ecp5(package: str) -> str:
    """``BG381`` is ``CABGA381``; Lattice's short names, FPGA-DS-02012, chapter 5."""
    return {"BG": "CABGA", "MG": "CSFBGA"}[package[:2]] + package[2:]


def _ice40(suffix: str) -> Callable[[str], str]:
    """nextpnr marks packages of the smaller chip in a larger die."""
    return lambda package: package.lower() + suffix


DEVICES = {
    **{device.name: KnownChip(device, _ecp5) for device in ecp5.DEVICES},
    **{device.name: KnownChip(device, _ice40(":4k" if "4K" in device.name else "")) for device in ice40.DEVICES},
    **{family: KnownChip(device, str) for family, device in gowin.DEVICES.items()},
}
"""By the name that a platform class gives: of the device, on Gowin chips of the family."""
