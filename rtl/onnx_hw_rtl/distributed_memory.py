"""Memory of few words that is read in the cycle of its address."""

from __future__ import annotations

from amaranth.hdl import Elaboratable
from amaranth.lib.memory import Memory

from onnx_hw_rtl.target import primitives_of

__all__ = ["DistributedMemory"]


class DistributedMemory(Memory):
    """Distributed memory where the target has some, even where it would fit a block; flip-flops elsewhere."""

    def elaborate(self, platform: object) -> Elaboratable:
        if primitives_of(platform).distributed_memory:
            self.attrs["ram_style"] = "distributed"
        elaborated: Elaboratable = super().elaborate(platform)
        return elaborated
