"""Shell with a bus, for a design with a processor: control, status and two windows. docs/cores.md has the map."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Array, Cat, Module, ResetInserter, Signal
from amaranth.lib.wiring import Component, In, Out, connect

from onnx_hw_link.link import TRAILER, Link
from onnx_hw_rtl.link.bus_windows import InputWindow, OutputWindow
from onnx_hw_rtl.link.timestamps import FrameTimestamps
from onnx_hw_rtl.shells.wrap_network import connect_streams, insert_network
from onnx_hw_rtl.streams.beats import BeatsFromBytes, BytesFromBeats

__all__ = ["BusRegister", "Control", "Status", "WishboneShell"]

RESTART_CYCLES = 4
"""Cycles for which the network is reset."""

_WORD_BYTES = 4


class BusRegister(IntEnum):
    """Registers on the bus, by the address of their word."""

    INPUT_BYTES = 0
    OUTPUT_BYTES = 1
    STATUS = 2
    CONTROL = 3
    DIGEST = 4  # and the three words after it


class Status(IntEnum):
    """Bits of the status register."""

    FREE = 0  # the window of the input may be written
    READY = 1  # the window of the output holds the results of a frame
    REFUSED = 2  # since the last restart, something was requested at the wrong time


class Control(IntEnum):
    """Bits of the control register. Each has its effect when it is written as 1."""

    SEND = 0  # the window of the input holds a frame
    TAKE = 1  # the results in the window of the output have been read
    RESTART = 2  # discard everything that is in progress


class WishboneShell(Component):
    """Network with its frames in two windows of memory; the results come with their times, as over a link.

    The bus has 32 bits and follows Wishbone B4, classic cycles, each of two cycles of the clock; little-endian. While a
    frame passes, the next one may be written, and while results are read, the next ones come.

    Args:
        network: component of the domain ``sync`` with the ports of ``link.inputs`` and ``link.outputs``.
        link: the streams, the order of their beats, and the digest; its buffers are not used.

    Ports:
        wb_cyc_i, wb_stb_i, wb_we_i, wb_adr_i, wb_dat_i, wb_sel_i, wb_ack_o, wb_dat_o: the bus; addresses count words.
        irq: the window of the output holds results.

    Attributes:
        window: bytes of each of the three parts: registers, window of the input, window of the output.
    """

    def __init__(self, network: Component, link: Link) -> None:
        self.network, self.link = network, link
        most = max(link.input_bytes, link.output_bytes + TRAILER, _WORD_BYTES * (BusRegister.DIGEST + 4))
        self.window = 1 << (most - 1).bit_length()
        super().__init__(
            {
                **{f"wb_{name}_i": In(1) for name in ("cyc", "stb", "we")},
                "wb_adr_i": In(range(4 * self.window // _WORD_BYTES)),
                "wb_dat_i": In(32),
                "wb_sel_i": In(_WORD_BYTES),
                "wb_ack_o": Out(1),
                "wb_dat_o": Out(32),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        link = self.link
        restarts = Signal(RESTART_CYCLES, init=(1 << RESTART_CYCLES) - 1)
        restart = restarts.any()
        insert_network(m, self.network, restart)
        into, out = InputWindow(link.input_bytes, self.window), OutputWindow(self.window)
        beats, taken_apart = (
            BeatsFromBytes(link.inputs, link.input_turns),
            BytesFromBeats(link.outputs, link.output_turns),
        )
        times = FrameTimestamps()
        anew = ResetInserter(restart)
        m.submodules.into, m.submodules.out, m.submodules.times = anew(into), anew(out), anew(times)
        m.submodules.beats, m.submodules.taken_apart = anew(beats), anew(taken_apart)
        connect(m, into.o, beats.i)
        connect(m, taken_apart.o, out.i)
        m.d.comb += [
            out.last.eq(taken_apart.last),
            times.begins.eq(beats.begins),
            times.ends.eq(taken_apart.ends),
            times.passes.eq(taken_apart.passes),
            taken_apart.trailer.eq(times.byte),
            taken_apart.trailer_last.eq(times.last),
            self.irq.eq(out.ready),
        ]
        connect_streams(m, link.inputs, beats, self.network)
        connect_streams(m, link.outputs, taken_apart, self.network)

        begins, writes, part = Signal(), Signal(), self.wb_adr_i[-2:]
        asked, refused = Signal(len(Control)), Signal()
        m.d.comb += [
            begins.eq(self.wb_cyc_i & self.wb_stb_i & ~self.wb_ack_o),
            writes.eq(begins & self.wb_we_i),
            into.address.eq(self.wb_adr_i),
            into.data.eq(self.wb_dat_i),
            out.address.eq(self.wb_adr_i),
        ]
        with m.If(writes & (part == 1)):
            m.d.comb += into.lanes.eq(self.wb_sel_i)
        with m.If(writes & (self.wb_adr_i == BusRegister.CONTROL) & self.wb_sel_i[0]):
            m.d.comb += asked.eq(self.wb_dat_i)
        m.d.comb += [into.send.eq(asked[Control.SEND]), out.take.eq(asked[Control.TAKE])]
        m.d.sync += restarts.eq(restarts << 1 | asked[Control.RESTART])
        with m.If(restart):
            m.d.sync += refused.eq(0)
        with m.Elif((into.send & ~into.free) | (out.take & ~out.ready) | (into.lanes.any() & ~into.free)):
            m.d.sync += refused.eq(1)

        digest = [int.from_bytes(link.digest[at : at + _WORD_BYTES], "little") for at in range(0, 16, _WORD_BYTES)]
        registers = Array([link.input_bytes, link.output_bytes, Cat(into.free, out.ready, refused), 0, *digest])
        shown, in_window = Signal(32), Signal()
        m.d.sync += [
            self.wb_ack_o.eq(begins),
            in_window.eq(part == 2),
            shown.eq(0),
        ]
        with m.If((part == 0) & (self.wb_adr_i < len(registers))):
            m.d.sync += shown.eq(registers[self.wb_adr_i[: (len(registers) - 1).bit_length()]])
        m.d.comb += self.wb_dat_o.eq(shown)
        with m.If(in_window):
            m.d.comb += self.wb_dat_o.eq(out.data)
        return m
