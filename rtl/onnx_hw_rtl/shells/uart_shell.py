"""Shell with a serial line: the whole chip, except for its pads and the source of its clock."""

from __future__ import annotations

from typing import ClassVar

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Member, Out, connect

from onnx_hw_link.link import Link
from onnx_hw_rtl.link.endpoint import LinkEnd
from onnx_hw_rtl.link.uart import UartReceiver, UartTransmitter
from onnx_hw_rtl.shells.wrap_network import (
    checks_weights,
    connect_flash,
    connect_load_bus,
    connect_streams,
    flash_ports,
    insert_network,
)

__all__ = ["TracedUartShell", "UartShell"]


class UartShell(Component):
    """Network to which a host speaks over two wires.

    Args:
        network: component of the domain ``sync`` with the ports of ``link.inputs`` and ``link.outputs``: an
            ``Assembly``, or anything with such ports.
        link: the agreement between both ends.
        divisor: clock cycles of a bit.

    Ports:
        rx, tx: the line, seen from the chip.
        those of the network that lead to a flash.
        weights_bad: the weights in that flash are not those of the network; only where there are some.
    """

    MORE_PORTS: ClassVar[dict[str, Member]] = {}

    def __init__(self, network: Component, link: Link, divisor: int) -> None:
        self.network, self.link, self.divisor = network, link, divisor
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), **flash_ports(network), **self.MORE_PORTS})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        end = LinkEnd(self.link, checked=checks_weights(self.network))
        insert_network(m, self.network, end.restart)
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
        connect_streams(m, (*self.link.inputs, *self.link.outputs), end, self.network)
        if self.link.load:
            connect_load_bus(m, end, self.network)
        connect_flash(m, self, self.network, end)
        return m


class TracedUartShell(UartShell):
    """Shell for simulations, of a network with one input.

    Ports:
        comes: a beat is offered to the network, and was not in the cycle before.
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
