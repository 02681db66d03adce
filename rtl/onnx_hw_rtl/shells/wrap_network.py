"""A network within a shell: its streams at what speaks for it, its reset when that begins anew."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Value
from amaranth.lib.wiring import Component, Out

from onnx_hw_link.link import LinkPort

__all__ = ["join", "put_inside"]


def put_inside(m: Module, network: Component, restart: Value) -> None:
    """The submodule ``design``, a network of the domain ``sync``, which ``restart`` resets beside the common reset."""
    m.domains.network = domain = ClockDomain(local=True)
    m.submodules.design = DomainRenamer({"sync": domain.name})(network)
    m.d.comb += [domain.clk.eq(ClockSignal()), domain.rst.eq(ResetSignal() | restart)]


def join(m: Module, ports: Sequence[LinkPort], here: Component, there: Component) -> None:
    """``{name}_payload``, ``{name}_valid`` and ``{name}_ready`` of two components, from whose output each is to the
    other's input."""
    for port in ports:
        for part in ("payload", "valid", "ready"):
            name = f"{port.name}_{part}"
            a, b = getattr(here, name), getattr(there, name)
            m.d.comb += b.eq(a) if here.signature.members[name].flow == Out else a.eq(b)
