"""Circuit with the model of a memory beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from amaranth.hdl import Elaboratable, Module, Value
from amaranth.lib.wiring import Component, Out


class BesideMemory(Component):
    """Base of a circuit with a memory beside it: the ports of the circuit, without those that lead to the memory.

    Args:
        circuit: the circuit.
        model: the model of the memory.
        prefix: first part of the names of the ports that lead to the memory.
        pins: the other parts of these names.
        faults: the ports of the model's faults, and their shapes.
    """

    def __init__(
        self, circuit: Component, model: Elaboratable, prefix: str, pins: Iterable[str], faults: Mapping[str, Any]
    ) -> None:
        self.circuit, self.model, self.prefix = circuit, model, prefix
        inside = {f"{prefix}_{name}" for name in pins}
        self._kept = {name: member for name, member in circuit.signature.members.items() if name not in inside}
        super().__init__({**self._kept, **{name: Out(shape) for name, shape in faults.items()}})

    def pin(self, name: str) -> Value:
        """Return the port of the circuit that leads to a pin of the memory."""
        value: Value = getattr(self.circuit, f"{self.prefix}_{name}")
        return value

    def begin(self) -> Module:
        """Return a module with the circuit and the model, and the ports of the circuit joined to those outside."""
        m = Module()
        m.submodules.circuit, m.submodules.model = self.circuit, self.model
        for name, member in self._kept.items():
            inner, outer = getattr(self.circuit, name), getattr(self, name)
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        return m
