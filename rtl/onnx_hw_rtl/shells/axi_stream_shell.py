"""Shell with AXI4-Streams, to put a network next to other cores of a design in Verilog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import LinkPort
from onnx_hw_rtl.link.axi_stream import FramesIn, FramesOut
from onnx_hw_rtl.shells.wrap_network import insert_network

__all__ = ["AxiStreamShell"]

WAKE_UP_CYCLES = 4
"""Cycles after a reset before anything is offered to a network, because its cores leave the reset later."""


class AxiStreamShell(Component):
    """Network whose streams are AXI4-Streams.

    Args:
        network: component of the domain ``sync`` with the ports of ``inputs`` and ``outputs``: an ``Assembly``, or
            anything with such ports.
        inputs, outputs: its streams.
        marked: whether ``tlast`` marks the ends of the frames that come; see ``FramesIn``.
        names: names of streams in the shell's own ports, by their names in the network; they are the same without one.

    Ports:
        s_axis_{name}_tdata, _tvalid, _tready, _tlast: each input.
        m_axis_{name}_tdata, _tvalid, _tready, _tlast: each output.
        wrong: one bit for each input: since the reset, a frame was too short or too long.
    """

    def __init__(
        self,
        network: Component,
        inputs: Sequence[LinkPort],
        outputs: Sequence[LinkPort],
        *,
        marked: bool = True,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.names = {port.name: port.name for port in (*inputs, *outputs)} | dict(names or {})
        self.network, self.inputs, self.outputs, self.marked = network, tuple(inputs), tuple(outputs), marked
        ports: dict[str, object] = {"wrong": Out(len(self.inputs))}
        for prefix, side, there, back in (("s_axis", self.inputs, In, Out), ("m_axis", self.outputs, Out, In)):
            for port in side:
                name = f"{prefix}_{self.names[port.name]}"
                ports |= {f"{name}_tdata": there(8 * port.transfer_bytes), f"{name}_tlast": there(1)}
                ports |= {f"{name}_tvalid": there(1), f"{name}_tready": back(1)}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        insert_network(m, self.network, Const(0))
        awake = Signal(WAKE_UP_CYCLES)
        m.d.sync += awake.eq(Cat(1, awake))
        wrong = []
        for port in self.inputs:
            m.submodules[f"to_{port.name}"] = frames = FramesIn(port, marked=self.marked)
            data, valid, ready, last = self._pins("s_axis", port)
            m.d.comb += [
                frames.tdata.eq(data),
                frames.tlast.eq(last),
                frames.tvalid.eq(valid & awake[-1]),
                ready.eq(frames.tready & awake[-1]),
                getattr(self.network, f"{port.name}_payload").eq(frames.payload),
                getattr(self.network, f"{port.name}_valid").eq(frames.valid),
                frames.ready.eq(getattr(self.network, f"{port.name}_ready")),
            ]
            wrong.append(frames.wrong)
        m.d.sync += self.wrong.eq(self.wrong | Cat(wrong))
        for port in self.outputs:
            m.submodules[f"of_{port.name}"] = leaving = FramesOut(port)
            data, valid, ready, last = self._pins("m_axis", port)
            m.d.comb += [
                data.eq(leaving.tdata),
                valid.eq(leaving.tvalid),
                last.eq(leaving.tlast),
                leaving.tready.eq(ready),
                leaving.payload.eq(getattr(self.network, f"{port.name}_payload")),
                leaving.valid.eq(getattr(self.network, f"{port.name}_valid")),
                getattr(self.network, f"{port.name}_ready").eq(leaving.ready),
            ]
        return m

    def _pins(self, prefix: str, port: LinkPort) -> tuple[Signal, ...]:
        name = f"{prefix}_{self.names[port.name]}"
        return tuple(getattr(self, f"{name}_t{part}") for part in ("data", "valid", "ready", "last"))
