"""Frames of AXI4-Stream and streams of a network: one side marks the ends of frames, the other counts them."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import LinkPort
from onnx_hw_rtl.streams.beats import beat_of_transfer, transfer_of_beat

__all__ = ["FramesIn", "FramesOut"]


class FramesIn(Component):
    """Converter of transfers, which ``tlast`` divides into frames, into beats of a network.

    Whatever comes, the network gets whole frames: a frame that is too short is filled up with zeros, and the rest of a
    frame that is too long is dropped, up to its ``tlast``.

    Args:
        port: the stream.
        marked: whether there is a ``tlast``; without it every ``port.beats`` transfers are a frame.

    Ports:
        tdata, tvalid, tready, tlast: the transfers; each is a beat as it travels over a link, byte 0 lowest.
        payload, valid, ready: the beats.
        wrong: a frame was too short or too long; high for one cycle.
    """

    def __init__(self, port: LinkPort, *, marked: bool = True) -> None:
        self.port, self.marked = port, marked
        super().__init__(
            {
                "tdata": In(8 * port.transfer_bytes),
                **{name: In(1) for name in ("tvalid", "tlast", "ready")},
                **{name: Out(1) for name in ("tready", "valid", "wrong")},
                "payload": Out(port.width * port.bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beats = self.port.beats
        left = Signal(range(beats), init=beats - 1)  # beats of the frame after this one
        filling, dropping = Signal(), Signal()
        last, taken, given = Signal(), Signal(), Signal()
        m.d.comb += [
            last.eq(left == 0),
            self.payload.eq(Mux(filling, 0, beat_of_transfer(self.port, self.tdata))),
            self.valid.eq(filling | (self.tvalid & ~dropping)),
            self.tready.eq(dropping | (self.ready & ~filling)),
            taken.eq(self.tvalid & self.tready),
            given.eq(self.valid & self.ready),
        ]
        with m.If(given):
            m.d.sync += left.eq(Mux(last, beats - 1, left - 1))
        if not self.marked:
            return m
        m.d.comb += self.wrong.eq(given & ~filling & (self.tlast != last))
        with m.If(self.wrong):
            m.d.sync += [filling.eq(~last), dropping.eq(last)]
        with m.If(given & filling & last):
            m.d.sync += filling.eq(0)
        with m.If(taken & dropping & self.tlast):
            m.d.sync += dropping.eq(0)
        return m


class FramesOut(Component):
    """Converter of a network's beats into transfers; ``tlast`` marks the last one of a frame.

    Ports:
        payload, valid, ready: the beats.
        tdata, tvalid, tready, tlast: the transfers, as those of ``FramesIn``.
    """

    def __init__(self, port: LinkPort) -> None:
        self.port = port
        super().__init__(
            {
                "payload": In(port.width * port.bits),
                **{name: In(1) for name in ("valid", "tready")},
                **{name: Out(1) for name in ("ready", "tvalid", "tlast")},
                "tdata": Out(8 * port.transfer_bytes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beats = self.port.beats
        left = Signal(range(beats), init=beats - 1)
        m.d.comb += [
            self.tdata.eq(transfer_of_beat(self.port, self.payload)),
            self.tvalid.eq(self.valid),
            self.tlast.eq(left == 0),
            self.ready.eq(self.tready),
        ]
        with m.If(self.valid & self.ready):
            m.d.sync += left.eq(Mux(self.tlast, beats - 1, left - 1))
        return m
