"""Shell with a serial peripheral interface: the whole chip, except for its pads and the source of its clock."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, connect

from onnx_hw_link.link import Link
from onnx_hw_rtl.link.endpoint import LinkEnd
from onnx_hw_rtl.link.sampled_spi import SampledSpiTarget
from onnx_hw_rtl.link.spi import SpiTarget
from onnx_hw_rtl.shells.wrap_network import connect_load_bus, connect_streams, insert_network

__all__ = ["SpiShell"]


class SpiShell(Component):
    """Network to which an SPI controller speaks in the packets of a serial line.

    Between packets either side sends zeros, and ``sck`` may stop at any time. It may be as fast as the target says.

    Args:
        network: component of the domain ``sync`` with the ports of ``link.inputs`` and ``link.outputs``: an
            ``Assembly``, or anything with such ports.
        link: the agreement between both ends.
        target: the end of the bus; None for a ``SpiTarget``, which ``sck`` itself clocks.

    Ports:
        sck, cs_n, copi: from the controller, mode 0.
        cipo, cipo_oe: to the controller, and whether the pad is to be driven.
        irq: there are bytes for the controller: it may clock until this is low.
    """

    def __init__(self, network: Component, link: Link, target: SpiTarget | SampledSpiTarget | None = None) -> None:
        self.network, self.link, self.target = network, link, target or SpiTarget()
        ports = {"sck": In(1), "cs_n": In(1, init=1), "copi": In(1), "cipo": Out(1), "cipo_oe": Out(1), "irq": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        end = LinkEnd(self.link)
        insert_network(m, self.network, end.restart)
        m.submodules.end = end
        m.submodules.target = target = self.target
        m.d.comb += [
            target.sck.eq(self.sck),
            target.cs_n.eq(self.cs_n),
            target.copi.eq(self.copi),
            self.cipo.eq(target.cipo),
            self.cipo_oe.eq(~self.cs_n),
            self.irq.eq(target.waiting),
            end.byte.eq(target.byte),
            end.strobe.eq(target.strobe),
        ]
        connect(m, end.o, target.i)
        connect_streams(m, (*self.link.inputs, *self.link.outputs), end, self.network)
        if self.link.load:
            connect_load_bus(m, end, self.network)
        return m
