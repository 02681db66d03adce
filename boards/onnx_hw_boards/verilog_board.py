"""Verilog of a network in a shell instead of a board, for other people's designs and tools."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onnx_hw_boards.board import Board
from onnx_hw_boards.families.ecp5.recipes import LFE5U_85F

NO_CHIP = "Verilog for any chip"
"""Name that a report shows instead of a chip's."""


class ShellKind(StrEnum):
    """Kind of circuit around the network."""

    STREAMS = "streams"  # nothing: payload, valid and ready of every stream
    AXI_STREAM = "axi_stream"
    WISHBONE = "wishbone"
    SPI = "spi"


@dataclass(frozen=True, kw_only=True)
class VerilogBoard(Board):
    """A build that ends with Verilog in a ``shell``; the chip only says how much a design may take."""

    shell: ShellKind


def verilog(name: str, shell: ShellKind, title: str) -> VerilogBoard:
    """Return a board of this name whose designs are as large as fits an LFE5U-85F, for 80 MHz."""
    return VerilogBoard(
        name=name,
        title=title,
        device=LFE5U_85F,
        package="CABGA381",
        speed="6",
        default_clock_mhz=80.0,
        shell=shell,
    )
