"""Insertion of a network into a shell: it connects the streams and resets the network when a host begins anew."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Value
from amaranth.lib.wiring import Component, Out

from onnx_hw_link.link import LinkPort

__all__ = ["connect_load_bus", "connect_streams", "insert_network"]


def insert_network(m: Module, network: Component, restart: Value) -> None:
    """Add the network as the submodule ``design``; ``restart`` resets it in addition to the common reset."""
    m.domains.network = domain = ClockDomain(local=True)
    m.submodules.design = DomainRenamer({"sync": domain.name})(network)
    m.d.comb += [domain.clk.eq(ClockSignal()), domain.rst.eq(ResetSignal() | restart)]


def connect_streams(m: Module, ports: Sequence[LinkPort], here: Component, there: Component) -> None:
    """Connect ``{name}_payload``, ``{name}_valid`` and ``{name}_ready`` of two components, output to input."""
    for port in ports:
        for part in ("payload", "valid", "ready"):
            name = f"{port.name}_{part}"
            a, b = getattr(here, name), getattr(there, name)
            m.d.comb += b.eq(a) if here.signature.members[name].flow == Out else a.eq(b)


def connect_load_bus(m: Module, end: Component, network: Component) -> None:
    """Connect the bus of memories that are loaded, from the end of a link to the network."""
    for part in ("address", "word", "write"):
        m.d.comb += getattr(network, f"load_{part}").eq(getattr(end, f"load_{part}"))
