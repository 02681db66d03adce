"""Cores connected by streams, with flat ports: the circuit of a whole network.

Every edge has a name, a producer and a consumer. An edge without a producer enters from outside; an edge without a
consumer leaves. ``probes`` make every edge and every firing visible to the test bench; the cores are the same with and
without them.

Every core has a reset of its own, a register behind the common reset, so that no single register has to drive the whole
chip. Therefore a reset begins and ends ``RESET_DELAY`` cycles later inside, for all cores alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, ResetSignal
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts.constant_memory import LoadBus, LoadedConstants, LoadPlace
from onnx_hw_rtl.parts.fanout import Copy
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.stream import bits_of


@dataclass(frozen=True)
class Wire:
    """Stream between two cores: (core, port) at each end, None for the outside."""

    name: str
    producer: tuple[str, str] | None
    consumer: tuple[str, str] | None


class Assembly(Component):
    """Cores of a network and the wires between them.

    Ports, for every wire with an open end, and with ``probes`` for every wire: ``{name}_payload``, ``{name}_valid`` and
    ``{name}_ready``; with ``probes`` also ``fires``, one bit per engine in the order of ``engines``. Where constants
    can be loaded, and without ``probes``, ``load_address``, ``load_word`` and ``load_write``: a ``LoadBus``.

    Args:
        loads: places of the memories that are loaded, by core and by name within the core.
        load_bits: bits of an address and of a word on the bus.
        pins: further ports of cores that leave the chip, by core; here they are called ``{core}_{port}``.
    """

    RESET_DELAY = 1

    def __init__(
        self,
        cores: Mapping[str, Core],
        wires: Sequence[Wire],
        *,
        probes: bool = False,
        loads: Mapping[str, Mapping[str, LoadPlace]] | None = None,
        load_bits: tuple[int, int] = (0, 0),
        pins: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.cores, self.wires, self.probes = dict(cores), tuple(wires), probes
        self.engines = tuple(f"{name}.{engine}" for name, core in cores.items() for engine in core.engines)
        ports: dict[str, Any] = {}
        for wire in wires:
            width = len(bits_of(self._stream(wire).payload))
            if wire.producer is None:
                ports |= {f"{wire.name}_payload": In(width), f"{wire.name}_valid": In(1), f"{wire.name}_ready": Out(1)}
            elif wire.consumer is None:
                ports |= {f"{wire.name}_payload": Out(width), f"{wire.name}_valid": Out(1), f"{wire.name}_ready": In(1)}
            elif probes:
                ports |= {f"{wire.name}_{part}": Out(w) for part, w in (("payload", width), ("valid", 1), ("ready", 1))}
        if probes:
            ports["fires"] = Out(len(self.engines))
        address_bits, word_bits = load_bits
        if loads and not probes:
            ports |= {"load_address": In(address_bits), "load_word": In(word_bits), "load_write": In(1)}
        self.pins = {f"{core}_{port}": (core, port) for core, names in pins.items() for port in names}
        ports |= {name: cores[core].signature.members[port] for name, (core, port) in self.pins.items()}
        super().__init__(ports)
        bus = LoadBus(Const(0, address_bits), Const(0, word_bits), Const(0, 1))
        if loads and not probes:
            bus = LoadBus(self.load_address, self.load_word, self.load_write)
        for name, places in (loads or {}).items():
            self.cores[name].load_from(LoadedConstants(bus, places))

    def _stream(self, wire: Wire) -> Any:
        end = wire.producer or wire.consumer
        if end is None:
            raise ValueError(f"the wire {wire.name} must have a core at one end")
        return getattr(self.cores[end[0]], end[1])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, core in self.cores.items():
            m.submodules[name] = _with_own_reset(core)
        for wire in self.wires:
            producer: Any = getattr(self.cores[wire.producer[0]], wire.producer[1]) if wire.producer else None
            consumer: Any = getattr(self.cores[wire.consumer[0]], wire.consumer[1]) if wire.consumer else None
            if producer is not None and consumer is not None:
                m.d.comb += [
                    bits_of(consumer.payload).eq(bits_of(producer.payload)),
                    consumer.valid.eq(producer.valid),
                    producer.ready.eq(consumer.ready),
                ]
                if not self.probes:
                    continue
            payload, valid, ready = (getattr(self, f"{wire.name}_{part}") for part in ("payload", "valid", "ready"))
            if producer is None:
                m.d.comb += [bits_of(consumer.payload).eq(payload), consumer.valid.eq(valid), ready.eq(consumer.ready)]
            else:
                m.d.comb += [payload.eq(bits_of(producer.payload)), valid.eq(producer.valid)]
                m.d.comb += producer.ready.eq(ready) if consumer is None else ready.eq(producer.ready)
        for name, (inner, port) in self.pins.items():
            outside, inside = getattr(self, name), getattr(self.cores[inner], port)
            leaves = self.signature.members[name].flow is Out
            m.d.comb += outside.eq(inside) if leaves else inside.eq(outside)
        if self.probes:
            m.d.comb += self.fires.eq(Cat(*(core.fires for core in self.cores.values())))
        return m


def _with_own_reset(core: Core) -> Module:
    """Put a core in a clock domain of its own, whose reset comes ``RESET_DELAY`` cycles later.

    The reset register belongs to that domain, too, so that an event-driven simulator sees one clock edge for all of it.
    """
    m = Module()
    m.domains.core = domain = ClockDomain(local=True)
    within = DomainRenamer({"sync": domain.name})
    m.submodules.reset, m.submodules.core = within(reset := Copy(1)), within(core)
    m.d.comb += [domain.clk.eq(ClockSignal()), reset.i.eq(ResetSignal()), domain.rst.eq(reset.o)]
    return m
