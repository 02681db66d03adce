"""Model of a serial flash, which checks its timing: for simulation beside a reader, in the reader's clock.

It knows what a reader uses: the release from power-down, and FAST READ QUAD I/O. Pins are looked at once a cycle, so a
time is a number of whole cycles: what takes longer than one part of a cycle takes all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.flash_parts import FlashFault, FlashPart
from onnx_hw_link.flash_tape import READ_COMMAND, WAKE_COMMAND
from onnx_hw_rtl.memory.beside_memory import BesideMemory
from onnx_hw_rtl.memory.qspi_flash import FLASH_PORTS


class FlashModel(Component):
    """Flash with some bytes; all others are erased.

    Args:
        part: times.
        clock_mhz: clock of the domain ``sync``.
        base: address of the first byte.
        contents: the bytes.
        pads_ns: time that the pads on both sides take, in both directions together.

    Ports:
        sck, cs_n, dq_i, dq_oe: driven by the reader.
        dq_o: the data pins; until they are valid they show the complement of what will be.
        fault: a ``FlashFault``.
    """

    def __init__(
        self, part: FlashPart, clock_mhz: float, *, base: int, contents: Sequence[int], pads_ns: float = 0
    ) -> None:
        self.part, self.clock_mhz, self.base, self.contents, self.pads_ns = part, clock_mhz, base, contents, pads_ns
        super().__init__(
            {
                "sck": In(1),
                "cs_n": In(1),
                "dq_i": In(4),
                "dq_oe": In(4),
                "dq_o": Out(4),
                "fault": Out(FlashFault),
            }
        )

    def cycles(self, nanoseconds: float) -> int:
        """Return the least number of whole cycles that take a time."""
        return ceil(nanoseconds * self.clock_mhz / 1e3 - 1e-9)

    def elaborate(self, platform: object) -> Module:
        m, part = Module(), self.part
        sck, cs_n, dq = (Signal(n, name=f"{name}_before") for n, name in ((1, "sck"), (1, "cs_n"), (4, "dq")))
        m.d.sync += [sck.eq(self.sck), cs_n.eq(self.cs_n), dq.eq(self.dq_i)]
        rises, falls = Signal(), Signal()
        m.d.comb += [rises.eq(self.sck & ~sck & ~self.cs_n), falls.eq(~self.sck & sck & ~self.cs_n)]
        awake, waking = Signal(), Signal(range(self.cycles(part.wake_ns) + 1))
        clocks, command = Signal(range(40)), Signal(8)
        address, low = Signal(24), Signal()
        lead = 8 + 6 + 2 + part.dummy_clocks
        with m.If(waking != 0):
            m.d.sync += waking.eq(waking - 1)
        with m.If(self.cs_n):
            m.d.sync += clocks.eq(0)
            with m.If(~cs_n & (clocks == 8) & (command == WAKE_COMMAND)):
                m.d.sync += [awake.eq(1), waking.eq(self.cycles(part.wake_ns))]
        with m.Elif(rises):
            m.d.sync += clocks.eq(Mux(clocks == lead, lead, clocks + 1))
            with m.If(clocks < 8):
                m.d.sync += command.eq(Cat(self.dq_i[0], command))
            with m.Elif(clocks < 14):
                m.d.sync += address.eq(Cat(self.dq_i, address))
        sends = Signal()
        m.d.comb += sends.eq((command == READ_COMMAND) & (clocks == lead))
        shown = self._shown(m, address, low)
        with m.If(self.cs_n):
            m.d.sync += low.eq(0)
        with m.If(falls & sends):
            m.d.sync += low.eq(~low)
            with m.If(low):
                m.d.sync += address.eq(address + 1)
        self._show(m, falls & sends, shown)
        self._judge(m, rises, falls, sck, cs_n, dq, awake & (waking == 0), clocks, command, sends)
        return m

    def _shown(self, m: Module, address: Value, low: Value) -> Value:
        """Return the four bits that the next falling edge brings."""
        m.submodules.contents = stored = memory.Memory(shape=8, depth=len(self.contents), init=self.contents)
        port = stored.read_port()
        place = Signal(25)
        m.d.comb += [place.eq(address - self.base), port.addr.eq(place)]
        known = Signal()
        m.d.sync += known.eq(place < len(self.contents))
        byte = Mux(known, port.data, 0xFF)
        return Mux(low, byte[:4], byte[4:])

    def _show(self, m: Module, changes: Value, bits: Value) -> None:
        """Show bits once they are valid, and their complement before."""
        late = max(1, self.cycles(self.part.valid_ns + self.pads_ns)) - 1  # cycles without valid data
        left, pending = Signal(range(max(2, late + 1))), Signal(4)
        with m.If(changes):
            m.d.sync += [pending.eq(bits), left.eq(max(0, late - 1))]
            m.d.comb += self.dq_o.eq(~bits if late else bits)
        with m.Else():
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
            m.d.comb += self.dq_o.eq(Mux(left == 0, pending, ~pending))

    def _judge(
        self,
        m: Module,
        rises: Value,
        falls: Value,
        sck: Value,
        cs_n: Value,
        dq: Value,
        ready: Value,
        clocks: Value,
        command: Value,
        sends: Value,
    ) -> None:
        """Keep the first fault."""
        part = self.part
        most = max(self.cycles(t) for t in (part.low_ns, part.high_ns, part.period_ns, part.deselect_ns)) + 1
        since_edge, since_rise = Signal(range(most + 1), init=most), Signal(range(most + 1), init=most)
        deselected = Signal(range(most + 1), init=most)
        for count, restarts in ((since_edge, rises | falls), (since_rise, rises), (deselected, ~self.cs_n)):
            with m.If(restarts):
                m.d.sync += count.eq(0 if count is deselected else 1)
            with m.Elif(count != most):
                m.d.sync += count.eq(count + 1)
        finds = [
            (rises & (since_edge < self.cycles(part.low_ns)), FlashFault.CLOCK_TOO_FAST),
            (falls & (since_edge < self.cycles(part.high_ns)), FlashFault.CLOCK_TOO_FAST),
            (rises & (since_rise < self.cycles(part.period_ns)), FlashFault.CLOCK_TOO_FAST),
            (~self.cs_n & cs_n & (deselected < self.cycles(part.deselect_ns)), FlashFault.SELECTED_TOO_SOON),
            (rises & (clocks == 8) & (command == READ_COMMAND) & ~ready, FlashFault.ASLEEP),
            (
                (rises | (self.cs_n & ~cs_n)) & (clocks == 8) & (command != READ_COMMAND) & (command != WAKE_COMMAND),
                FlashFault.UNKNOWN_COMMAND,
            ),
            (rises & (clocks == 14) & (self.dq_i == 0xA), FlashFault.CONTINUOUS_READ),
            (sends & ~self.cs_n & ~self.sck & ~sck & (self.dq_oe != 0), FlashFault.BOTH_DRIVE),
            (rises & ~sends & (clocks < 16) & (dq != self.dq_i), FlashFault.UNSTABLE_INPUT),
        ]
        for found, fault in finds:
            with m.If(found & (self.fault == Const(0, 3))):
                m.d.sync += self.fault.eq(fault)


class BesideFlash(BesideMemory):
    """Circuit with a flash beside it: the ports of the circuit, without those that lead to the flash.

    Args:
        circuit: the circuit; it has the ports of ``onnx_hw_rtl.memory.qspi_flash.FLASH_PORTS``.
        prefix: first part of the names of these.

    Ports, besides: ``memory_fault``, a ``FlashFault``.
    """

    def __init__(self, circuit: Component, model: FlashModel, prefix: str) -> None:
        super().__init__(circuit, model, prefix, FLASH_PORTS, {"memory_fault": FlashFault})

    def elaborate(self, platform: object) -> Module:
        m, model, pin = self.begin(), self.model, self.pin
        m.d.comb += [
            model.sck.eq(pin("sck")),
            model.cs_n.eq(pin("cs_n")),
            model.dq_i.eq(pin("dq_o")),
            model.dq_oe.eq(pin("dq_oe")),
            pin("dq_i").eq(model.dq_o),
            self.memory_fault.eq(model.fault),
        ]
        return m
