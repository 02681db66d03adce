"""Outermost module of a chip: clock and reset come from their pins, everything else has pins of the same name."""

from __future__ import annotations

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib.wiring import Component, In

__all__ = ["INNER", "Shell"]

INNER = "design"  # the circuit inside is the module ``top.design``


class Shell(Component):
    """Circuit of the domain ``sync`` on the pins of a chip.

    The reset pad passes two flip-flops that start as 1: whatever the pad does, the circuit begins in reset and leaves
    it at a clock edge.

    Args:
        circuit: a component whose ports are plain signals, not interfaces.

    Ports:
        clk, rst: the pads; ``rst`` is active high.
        every port of the circuit, under its own name.

    Attributes:
        RESET_DELAY: cycles from the end of the pad's reset, or from power-up, to the end of the circuit's reset.
    """

    RESET_DELAY = 2

    def __init__(self, circuit: Component) -> None:
        self.circuit = circuit
        ports = dict(circuit.signature.members.items())
        for name, member in ports.items():
            if not member.is_port or name in ("clk", "rst"):
                raise ValueError(f"port `{name}` cannot become a pad: it must be a plain signal not called clk or rst")
        super().__init__({"clk": In(1), "rst": In(1), **ports})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules[INNER] = self.circuit
        m.domains.sync = ClockDomain()
        m.domains.pads = ClockDomain(reset_less=True)
        reset = Signal(self.RESET_DELAY, init=0b11)
        m.d.pads += reset.eq(reset << 1 | self.rst)
        m.d.comb += [
            ClockSignal("sync").eq(self.clk),
            ClockSignal("pads").eq(self.clk),
            ResetSignal("sync").eq(reset[-1]),
        ]
        for name, member in self.circuit.signature.members.items():
            inner, pad = getattr(self.circuit, name), getattr(self, name)
            m.d.comb += inner.eq(pad) if member.flow == In else pad.eq(inner)
        return m
