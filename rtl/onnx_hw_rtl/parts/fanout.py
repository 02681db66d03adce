"""Registered copies of a signal, so that no single register has to reach a whole core or a wide word."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.target import primitives_of

__all__ = ["BITS_PER_ADDRESS_COPY", "BITS_PER_COPY", "Copy", "copies", "memory_parts", "memory_reach", "spread"]

BITS_PER_COPY = 16
"""Of a word that a control chooses or lets in."""

BITS_PER_ADDRESS_COPY = 6 * 36
"""Of words in block RAMs, each of which has one address for 36 bits."""

SHALLOW = 32
"""Words of a memory that may be distributed, with addresses that reach every bit."""


class Copy(Component):
    """``o`` is ``i`` one cycle later, in flip-flops that synthesis does not merge with equal ones."""

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
    """``count`` registers, all holding ``value`` one cycle later."""
    found: list[Value] = []
    for k in range(count):
        copy = Copy(len(value))
        m.submodules[f"{name}_copy{k}"] = copy
        m.d.comb += copy.i.eq(value)
        found.append(copy.o)
    return found


def memory_reach(depth: int) -> int:
    """Bits of a word for which a copy of its address is enough."""
    return BITS_PER_COPY if depth <= SHALLOW else BITS_PER_ADDRESS_COPY


def memory_parts(width: int, depth: int) -> list[slice]:
    """A wide memory in parts with an address each."""
    size = memory_reach(depth)
    return [slice(at, min(at + size, width)) for at in range(0, width, size)]


def spread(m: Module, control: Value, width: int, name: str = "control") -> list[tuple[slice, Value]]:
    """A control one cycle later, for a word of ``width`` bits: (bits, their own copy), the lowest bits first."""
    parts = [slice(at, min(at + BITS_PER_COPY, width)) for at in range(0, width, BITS_PER_COPY)]
    return list(zip(parts, copies(m, control, len(parts), name), strict=True))
