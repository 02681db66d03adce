"""Memory of few words that is read in the cycle of its address."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Value
from amaranth.lib.memory import Memory

from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.target import primitives_of

__all__ = ["DistributedMemory", "stored"]


class DistributedMemory(Memory):
    """Distributed memory where the target has some, even where it would fit a block; flip-flops elsewhere."""

    def elaborate(self, platform: object) -> Elaboratable:
        if primitives_of(platform).distributed_memory:
            self.attrs["ram_style"] = "distributed"
        elaborated: Elaboratable = super().elaborate(platform)
        return elaborated


def stored(m: Module, data: Value, depth: int, control: Value, name: str, platform: object) -> Value:
    """What lies at the address to read, one cycle later; nothing is written where it is read, in the same cycle.

    Args:
        control: strobe, address to write, address to read.
        platform: without distributed memory it may be a block RAM, which would else be made to answer like one.
    """
    at_once = primitives_of(platform).distributed_memory
    m.submodules[f"{name}_words"] = ring = DistributedMemory(shape=len(data), depth=depth, init=[])
    write_port, read_port = ring.write_port(), ring.read_port(domain="comb" if at_once else "sync")
    middle = 1 + len(control) // 2
    m.d.comb += [
        write_port.addr.eq(control[1:middle]),
        write_port.data.eq(data),
        write_port.en.eq(control[0]),
        read_port.addr.eq(control[middle:]),
    ]
    found: Value = delayed(m, read_port.data, 1, name) if at_once else read_port.data
    return found
