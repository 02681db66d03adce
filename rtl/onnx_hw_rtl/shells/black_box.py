"""Stub with a network's ports only, to synthesize a shell by itself."""

from __future__ import annotations

from amaranth.hdl import Instance, Module
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import Link

__all__ = ["BlackBox"]


class BlackBox(Component):
    """Black box with the ports that a shell expects of the network of a link."""

    def __init__(self, link: Link) -> None:
        ports: dict[str, object] = {}
        for side, there, back in ((link.inputs, In, Out), (link.outputs, Out, In)):
            for port in side:
                ports |= {f"{port.name}_payload": there(port.width * port.bits)}
                ports |= {f"{port.name}_valid": there(1), f"{port.name}_ready": back(1)}
        if link.load:
            widths = {"address": link.load.address_bits, "word": 8 * link.load.word_bytes, "write": 1}
            ports |= {f"load_{part}": In(width) for part, width in widths.items()}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        members = self.signature.members.items()
        connected = {f"{'i' if member.flow == In else 'o'}_{name}": getattr(self, name) for name, member in members}
        m.submodules.inside = Instance("black_box", **connected)
        return m
