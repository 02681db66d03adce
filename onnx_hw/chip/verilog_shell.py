"""A design in one of the shells that are written as Verilog: the circuit, and what whoever speaks to it has to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_hw.assemble import assemble
from onnx_hw.chip.link import link_of
from onnx_hw.design import Design
from onnx_hw_boards.verilog_board import Shell
from onnx_hw_link.link import Link

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


def shell_of(design: Design, shell: Shell, digest: bytes = bytes(16)) -> tuple[Component, Link]:
    """The circuit, with ports that are plain signals, and its streams.

    Raises:
        UserError: as ``link_of``.
    """
    from onnx_hw_rtl.axi_stream_shell import AxiStreamShell
    from onnx_hw_rtl.spi_shell import SpiShell
    from onnx_hw_rtl.wishbone_shell import WishboneShell

    network, link = assemble(design)[0], link_of(design, design.clock_mhz, digest)
    if shell is Shell.AXI_STREAM:
        return AxiStreamShell(network, link.inputs, link.outputs), link
    around: dict[Shell, Any] = {Shell.SPI: SpiShell, Shell.WISHBONE: WishboneShell}
    return (around[shell](network, link) if shell in around else network), link
