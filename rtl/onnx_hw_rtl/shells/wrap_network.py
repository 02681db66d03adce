"""Insertion of a network into a shell: it connects the streams and resets the network when a host begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Value
from amaranth.lib.wiring import Component, Out

from onnx_hw_link.link import LinkPort

__all__ = ["checks_weights", "connect_flash", "connect_load_bus", "connect_streams", "flash_ports", "insert_network"]


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


MEMORY_PREFIXES = ("flash_", "sdram_")
"""First parts of the names of the ports by which a network reaches a memory."""

_ALARMS = ("bad", "begins")
"""Last parts of the ports by which the reader of a memory says whether the weights are right."""


def _alarms(network: Component) -> list[str]:
    """Return the ports of the reader's alarms; none without a reader."""
    named = ([f"{prefix}{alarm}" for alarm in _ALARMS] for prefix in MEMORY_PREFIXES)
    return next((names for names in named if names[0] in network.signature.members), [])


def checks_weights(network: Component) -> bool:
    """Return whether a network checks weights that it reads while it computes."""
    return bool(_alarms(network))


def flash_ports(network: Component) -> dict[str, Any]:
    """Return the ports that a shell has for a network: those that lead to a memory, and ``weights_bad``, an alarm."""
    members, alarms = network.signature.members, _alarms(network)
    ports = {name: members[name] for name in members if name.startswith(MEMORY_PREFIXES) and name not in alarms}
    return {**ports, **({"weights_bad": Out(1)} if alarms else {})}


def connect_flash(m: Module, shell: Any, network: Component, end: Any) -> None:
    """Connect those of the shell to those of the network, and the alarms of the reader to the end of the link."""
    for name, member in flash_ports(network).items():
        if name in network.signature.members:
            outside, inside = getattr(shell, name), getattr(network, name)
            m.d.comb += outside.eq(inside) if member.flow == Out else inside.eq(outside)
    if checks_weights(network):
        m.d.comb += [
            Cat(end.pass_bad, end.pass_begins).eq(Cat(*(getattr(network, name) for name in _alarms(network)))),
            shell.weights_bad.eq(end.damaged),
        ]


def connect_load_bus(m: Module, end: Component, network: Component) -> None:
    """Connect the bus of memories that are loaded, from the end of a link to the network."""
    for part in ("address", "word", "write"):
        m.d.comb += getattr(network, f"load_{part}").eq(getattr(end, f"load_{part}"))
