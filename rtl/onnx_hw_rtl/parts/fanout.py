"""Registered copies of a signal, so that no single register has to drive a whole core or a wide word."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.target import primitives_of

BITS_PER_COPY = 16
"""Number of bits of a word that one copy of a control selects or enables."""

BITS_PER_ADDRESS_COPY = 6 * 36
"""Number of bits in block RAMs that one copy of an address drives; a block RAM has one address for 36 bits."""

MAX_DISTRIBUTED_WORDS = 32
"""Depth up to which a memory may be distributed, so that its address drives a look-up table for every bit."""


class Copy(Component):
    """Register that synthesis does not merge with equal registers: ``o`` is ``i`` one cycle later."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if flip_flop := primitives_of(platform).flip_flop:
            for k in range(self.width):
                m.submodules[f"bit{k}"] = flip_flop(self.i[k], self.o[k])
        else:
            register = Signal(self.width, reset_less=True)
            m.d.sync += register.eq(self.i)
            m.d.comb += self.o.eq(register)
        return m


def copies(m: Module, value: Value, count: int, name: str = "copy") -> list[Value]:
    """Return ``count`` registers that all hold ``value`` one cycle later."""
    registers: list[Value] = []
    for k in range(count):
        copy = Copy(len(value))
        m.submodules[f"{name}_copy{k}"] = copy
        m.d.comb += copy.i.eq(value)
        registers.append(copy.o)
    return registers


def memory_reach(depth: int) -> int:
    """Return the number of bits of a word that one copy of the address can drive."""
    return BITS_PER_COPY if depth <= MAX_DISTRIBUTED_WORDS else BITS_PER_ADDRESS_COPY


def memory_parts(width: int, depth: int, ports: int = 1) -> list[slice]:
    """Cut a wide memory into parts that have an address each, which goes to a number of ports of a block RAM."""
    size = memory_reach(depth) if depth <= MAX_DISTRIBUTED_WORDS else BITS_PER_ADDRESS_COPY // ports
    return [slice(at, min(at + size, width)) for at in range(0, width, size)]


def spread(m: Module, control: Value, width: int, name: str = "control") -> list[tuple[slice, Value]]:
    """Return copies of a control, one cycle later, for a word of ``width`` bits: (bits, copy for these bits), the
    lowest bits first.
    """
    parts = [slice(at, min(at + BITS_PER_COPY, width)) for at in range(0, width, BITS_PER_COPY)]
    return list(zip(parts, copies(m, control, len(parts), name), strict=True))
