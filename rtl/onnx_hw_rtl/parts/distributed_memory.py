"""Memory of few words that is read in the cycle of its address."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Value
from amaranth.lib.memory import Memory

from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.target import primitives_of


class DistributedMemory(Memory):
    """Distributed memory if the target has it, even for words that would fit a block; else flip-flops."""

    def elaborate(self, platform: object) -> Elaboratable:
        if primitives_of(platform).distributed_memory:
            self.attrs["ram_style"] = "distributed"
        elaborated: Elaboratable = super().elaborate(platform)
        return elaborated


def stored(m: Module, data: Value, depth: int, control: Value, name: str, platform: object) -> Value:
    """Return the word at the read address, one cycle later.

    A word is never written in the cycle in which it is read.

    Args:
        control: strobe, write address and read address, from the lowest bit on.
        platform: the target. Without distributed memory the ring may become a block RAM, which is read synchronously;
            it would cost extra logic to make it answer in the cycle of its address.
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
    word: Value = delayed(m, read_port.data, 1, name) if at_once else read_port.data
    return word
