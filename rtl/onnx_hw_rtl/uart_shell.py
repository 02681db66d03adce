"""A network behind a serial line: the whole chip, but for its pads and the source of its clock."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, connect

from onnx_hw_link.link import Link
from onnx_hw_rtl.joined import join, put_inside
from onnx_hw_rtl.link import LinkEnd
from onnx_hw_rtl.uart import UartReceiver, UartTransmitter

__all__ = ["UartShell"]


class UartShell(Component):
    """A network that is spoken to over two wires.

    Args:
        network: of the domain ``sync``, with the ports of ``link.inputs`` and ``link.outputs``: an ``Assembly``, or
            whatever has such ports.
        link: what both ends agree on.
        divisor: clock cycles of a bit.

    Ports:
        rx, tx: the line, seen from the chip.
    """

    def __init__(self, network: Component, link: Link, divisor: int) -> None:
        self.network, self.link, self.divisor = network, link, divisor
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        end = LinkEnd(self.link)
        put_inside(m, self.network, end.restart)
        m.submodules.end = end
        m.submodules.receiver, m.submodules.transmitter = receiver, transmitter = (
            UartReceiver(self.divisor),
            UartTransmitter(self.divisor),
        )
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            end.byte.eq(receiver.byte),
            end.strobe.eq(receiver.strobe),
        ]
        connect(m, end.o, transmitter.i)
        join(m, (*self.link.inputs, *self.link.outputs), end, self.network)
        return m
