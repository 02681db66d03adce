"""A network behind a serial line: the whole chip, but for its pads and the source of its clock."""

from __future__ import annotations

from typing import ClassVar

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Member, Out, connect

from onnx_hw_link.link import Link
from onnx_hw_rtl.link.endpoint import LinkEnd
from onnx_hw_rtl.link.uart import UartReceiver, UartTransmitter
from onnx_hw_rtl.shells.wrap_network import join, put_inside

__all__ = ["TracedUartShell", "UartShell"]


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

    MORE_PORTS: ClassVar[dict[str, Member]] = {}

    def __init__(self, network: Component, link: Link, divisor: int) -> None:
        self.network, self.link, self.divisor = network, link, divisor
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), **self.MORE_PORTS})

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


class TracedUartShell(UartShell):
    """One to be simulated, of a network with one input.

    Ports:
        comes: a beat is there for the network to take, and was not in the cycle before.
    """

    MORE_PORTS: ClassVar[dict[str, Member]] = {"comes": Out(1)}

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        (port,) = self.link.inputs
        valid, ready = (getattr(self.network, f"{port.name}_{part}") for part in ("valid", "ready"))
        waits = Signal()
        m.d.sync += waits.eq(valid & ~ready)
        m.d.comb += self.comes.eq(valid & ~waits)
        return m
