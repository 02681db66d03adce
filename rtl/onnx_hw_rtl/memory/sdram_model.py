"""Model of an SDR SDRAM, which checks its timing: for simulation beside a reader, in the reader's clock.

The clock of the memory is the reader's, inverted: pins that change with an edge of the reader's clock are seen half a
period later. A time is a number of whole periods: what takes longer than one part of a period takes all of it.
It knows what a reader uses: reads and writes of one word each, and precharges of all banks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import reduce
from math import ceil
from operator import or_

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.sdram_tape import SdramTiming
from onnx_hw_rtl.memory.beside_memory import BesideMemory
from onnx_hw_rtl.memory.sdr_sdram import (
    ACTIVATE,
    IDLE,
    PRECHARGE,
    READ,
    REFRESH,
    SDRAM_PINS,
    SET_MODE,
    WRITE,
)

LONGEST_OPEN_NS = 100_000
"""Greatest time that a row may be open, of all parts."""

MOST_POSTPONED = 8
"""Refreshes that may be late at any time."""

MODE_CYCLES = 2
"""Clocks from setting the mode until the next command, of all parts."""


@dataclass(frozen=True)
class SdramPart:
    """Geometry and times of a part.

    Attributes:
        word_bytes, columns, rows, banks: geometry.
        precharge_ns, activate_ns, write_ns, refresh_ns, open_ns, interval_ns: tRP, tRCD, tWR, tRFC, tRAS and tREFI;
            tRC is the sum of tRAS and tRP.
        period_ns: least period of the clock, by the latency of a read, which the mode register sets.
        valid_ns: greatest time from an edge of the clock to valid data, likewise.
        hold_ns: least time for which data are valid behind the next edge.
        power_up_us: time before the first command.
    """

    word_bytes: int
    columns: int
    rows: int
    banks: int
    precharge_ns: float
    activate_ns: float
    write_ns: float
    refresh_ns: float
    open_ns: float
    interval_ns: float
    period_ns: tuple[tuple[int, float], ...] = ((2, 10.0), (3, 7.0))
    valid_ns: tuple[tuple[int, float], ...] = ((2, 6.0), (3, 5.4))
    hold_ns: float = 2.5
    power_up_us: float = 200


PARTS = {
    "MT48LC16M16": SdramPart(2, 512, 8192, 4, 20, 20, 15, 66, 44, 64e6 / 8192),
    "W9825G6KH6": SdramPart(2, 512, 8192, 4, 15, 15, 15, 60, 42, 64e6 / 8192),
    "AS4C4M16": SdramPart(2, 256, 4096, 4, 22, 21, 20, 63, 42, 64e6 / 4096),
    "M12L64322A": SdramPart(4, 256, 2048, 4, 15, 15, 15, 55, 40, 64e6 / 4096),
}
"""Some parts, by name: geometry and times of the commands are those of LiteDRAM 2024.12, ``litedram/modules.py``."""


class SdramFault(IntEnum):
    """Fault of what drives the pins; the first one is kept."""

    NONE = 0
    CLOCK_TOO_FAST = 1
    NOT_PREPARED = 2
    ACTIVATE_TOO_SOON = 3
    BANK_IS_OPEN = 4
    BANK_IS_CLOSED = 5
    ACCESS_TOO_SOON = 6
    PRECHARGE_TOO_SOON = 7
    REFRESH_TOO_SOON = 8
    REFRESH_TOO_LATE = 9
    COMMAND_TOO_SOON = 10
    OPEN_TOO_LONG = 11
    UNKNOWN_COMMAND = 12
    BOTH_DRIVE = 13


class SdramModel(Component):
    """Memory whose first words are kept; what lies beyond is lost.

    Args:
        part: geometry and times.
        clock_mhz: clock of the domain ``sync``.
        words: words that are kept.
        pads_ns: least and greatest time that the pads on both sides take, in both directions together.

    Ports:
        cke, command, ba, a, dq_i, dq_oe: driven by the reader.
        dq_rise, dq_fall: the data pins at the next rising and at the next falling edge of the reader's clock; where
            they are not valid, the complement of what was valid last.
        fault: an ``SdramFault``.
    """

    def __init__(self, part: SdramPart, clock_mhz: float, *, words: int, pads_ns: tuple[float, float] = (0, 0)) -> None:
        self.part, self.clock_mhz, self.words, self.pads_ns = part, clock_mhz, words, pads_ns
        bits = 8 * part.word_bytes
        self.kept = memory.Memory(shape=bits, depth=words, init=[])
        super().__init__(
            {
                "cke": In(1),
                "command": In(3, init=IDLE),
                "ba": In((part.banks - 1).bit_length()),
                "a": In(max(11, (part.rows - 1).bit_length())),
                "dq_i": In(bits),
                "dq_oe": In(1),
                "dq_rise": Out(bits),
                "dq_fall": Out(bits),
                "fault": Out(SdramFault),
            }
        )

    def cycles(self, nanoseconds: float) -> int:
        """Return the least number of whole cycles that take a time."""
        return ceil(nanoseconds * self.clock_mhz / 1e3 - 1e-9)

    def elaborate(self, platform: object) -> Module:
        m, part = Module(), self.part
        said = {
            name: Signal(name=f"is_{name.lower()}")
            for name in ("ACTIVATE", "READ", "WRITE", "PRECHARGE", "REFRESH", "SET_MODE")
        }
        codes = (ACTIVATE, READ, WRITE, PRECHARGE, REFRESH, SET_MODE)
        m.d.comb += [
            flag.eq(self.cke & (self.command == code)) for flag, code in zip(said.values(), codes, strict=True)
        ]
        latency = Signal(3)
        with m.If(said["SET_MODE"]):
            m.d.sync += latency.eq(self.a[4:7])
        open_rows = [Signal(range(part.rows), name=f"row{k}") for k in range(part.banks)]
        opened = Signal(part.banks)
        for k, row in enumerate(open_rows):
            with m.If(said["ACTIVATE"] & (self.ba == k)):
                m.d.sync += [row.eq(self.a), opened[k].eq(1)]
        with m.If(said["PRECHARGE"]):
            m.d.sync += opened.eq(0)
        self._store(m, said, latency, Array(open_rows)[self.ba])
        self._judge(m, said, latency, opened)
        return m

    def _store(self, m: Module, said: dict[str, Signal], latency: Value, row: Value) -> None:
        """Keep words, and show those that are read when they are valid."""
        part = self.part
        m.submodules.words = kept = self.kept
        write, read = kept.write_port(), kept.read_port(domain="comb")
        column = (part.columns - 1).bit_length()
        place = Signal(column + (part.rows - 1).bit_length() + 2)
        m.d.comb += [
            place.eq(Cat(self.a[:column], row, self.ba)),
            write.addr.eq(place),
            write.data.eq(self.dq_i),
            write.en.eq(said["WRITE"] & self.dq_oe & (place < self.words)),
            read.addr.eq(place),
        ]
        deepest = 8
        words, reads = [Signal.like(read.data, name="word0")], [said["READ"]]
        m.d.comb += words[0].eq(Mux(place < self.words, read.data, 0))
        for k in range(1, deepest):
            words.append(Signal.like(read.data, name=f"word{k}"))
            reads.append(Signal(name=f"read{k}"))
            m.d.sync += [words[k].eq(words[k - 1]), reads[k].eq(reads[k - 1])]
        last = Signal.like(read.data, name="last")
        for port, half in ((self.dq_rise, 2), (self.dq_fall, 1)):
            shown = Signal.like(port, name=f"shown{half}")
            m.d.comb += shown.eq(~last)
            for cycles, _ in part.valid_ns:
                late = self.lateness(cycles, half)
                if late is not None:
                    with m.If((latency == cycles) & reads[late]):
                        m.d.comb += shown.eq(words[late])
            m.d.comb += port.eq(shown)
        with m.If(reads[0]):
            m.d.sync += last.eq(words[0])

    def lateness(self, latency: int, half: int) -> int | None:
        """Return the cycles from a read until its word is valid at the middle (1) or the end (2) of a cycle; None where
        no word is valid then.
        """
        period = 1e3 / self.clock_mhz
        valid = dict(self.part.valid_ns)[latency] + self.pads_ns[1]
        for late in range(8):
            instant = (late + half / 2) * period
            begins, ends = (latency - 0.5) * period + valid, (latency + 0.5) * period + self.part.hold_ns
            if begins <= instant <= ends + self.pads_ns[0]:
                return late
        return None

    def _judge(self, m: Module, said: dict[str, Signal], latency: Value, opened: Value) -> None:
        """Keep the first fault."""
        part, cycles = self.part, self.cycles
        activate, read, write, precharge, refresh, mode = said.values()

        def since(name: str, most: int, restarts: Value) -> Signal:
            """Count the cycles since something, to a greatest number."""
            count = Signal(range(most + 2), init=most + 1, name=f"since_{name}")
            with m.If(restarts):
                m.d.sync += count.eq(1)
            with m.Elif(count != most + 1):
                m.d.sync += count.eq(count + 1)
            return count

        banks = range(part.banks)
        row_cycle, longest = cycles(part.open_ns + part.precharge_ns), cycles(LONGEST_OPEN_NS)
        activated = [since(f"activate{k}", longest, activate & (self.ba == k)) for k in banks]
        any_activated = Array(activated)[self.ba]
        precharged = since("precharge", cycles(part.precharge_ns), precharge)
        written = since("write", cycles(part.write_ns), write)
        refreshed, moded = since("refresh", cycles(part.refresh_ns), refresh), since("mode", MODE_CYCLES, mode)
        accesses, anything = read | write, reduce(or_, said.values())
        power = Signal(range(cycles(part.power_up_us * 1e3) + 1))
        first = Signal(range(4))  # refreshes before the mode is set, of which there must be two
        prepared, closed_once = Signal(), Signal()
        with m.If(power != cycles(part.power_up_us * 1e3)):
            m.d.sync += power.eq(power + 1)
        m.d.sync += [
            closed_once.eq(closed_once | precharge),
            first.eq(first + (refresh & (first != 3))),
            prepared.eq(prepared | mode),
        ]
        # A debt of MOST_POSTPONED refreshes, in hundredths of a cycle, each of which a refresh pays back.
        interval = int(part.interval_ns * self.clock_mhz / 10)
        debt = Signal(range((MOST_POSTPONED + 2) * interval))
        late = debt >= MOST_POSTPONED * interval
        grown = Mux(late, debt, debt + 100)
        m.d.sync += debt.eq(Mux(~prepared, 0, Mux(refresh, Mux(grown > interval, grown - interval, 0), grown)))
        bank_open = opened.bit_select(self.ba, 1)
        too_fast = reduce(
            or_,
            [
                (latency == n) & (1e3 / self.clock_mhz < period)
                for n, period in part.period_ns
                if 1e3 / self.clock_mhz < period - 1e-9
            ],
            Const(0, 1),
        )
        known = reduce(or_, [latency == n for n, _ in part.period_ns])
        finds = [
            (accesses & (too_fast | ~known), SdramFault.CLOCK_TOO_FAST),
            (anything & (power != cycles(part.power_up_us * 1e3)), SdramFault.NOT_PREPARED),
            (mode & (~closed_once | (first < 2)), SdramFault.NOT_PREPARED),
            (activate & ~prepared, SdramFault.NOT_PREPARED),
            (activate & bank_open, SdramFault.BANK_IS_OPEN),
            ((refresh | mode) & opened.any(), SdramFault.BANK_IS_OPEN),
            (activate & (any_activated < row_cycle), SdramFault.ACTIVATE_TOO_SOON),
            (activate & (precharged < cycles(part.precharge_ns)), SdramFault.ACTIVATE_TOO_SOON),
            (accesses & ~bank_open, SdramFault.BANK_IS_CLOSED),
            (accesses & (any_activated < cycles(part.activate_ns)), SdramFault.ACCESS_TOO_SOON),
            (accesses & self.a[10], SdramFault.UNKNOWN_COMMAND),
            (precharge & ~self.a[10], SdramFault.UNKNOWN_COMMAND),
            (precharge & (written < cycles(part.write_ns)), SdramFault.PRECHARGE_TOO_SOON),
            ((refresh | mode) & (precharged < cycles(part.precharge_ns)), SdramFault.REFRESH_TOO_SOON),
            (anything & (refreshed < cycles(part.refresh_ns)), SdramFault.COMMAND_TOO_SOON),
            (anything & (moded < MODE_CYCLES), SdramFault.COMMAND_TOO_SOON),
            (late, SdramFault.REFRESH_TOO_LATE),
            (write & ~self.dq_oe, SdramFault.UNKNOWN_COMMAND),
            (
                ~(write | activate | precharge | refresh | mode | read) & (self.command != IDLE) & self.cke,
                SdramFault.UNKNOWN_COMMAND,
            ),
        ]
        for k in banks:
            finds += [
                (precharge & opened[k] & (activated[k] < cycles(part.open_ns)), SdramFault.PRECHARGE_TOO_SOON),
                (opened[k] & (activated[k] > longest), SdramFault.OPEN_TOO_LONG),
            ]
        driven = Signal(4)  # cycles in which the memory drives the pins
        m.d.sync += driven.eq(Cat(read, driven))
        finds.append((self.dq_oe & driven.any(), SdramFault.BOTH_DRIVE))
        for found, fault in finds:
            with m.If(found & (self.fault == Const(0, 4))):
                m.d.sync += self.fault.eq(fault)


def with_geometry(part: SdramPart, timing: SdramTiming) -> SdramPart:
    """Return a part with the times of one, and the geometry and the refresh interval that a reader counts on."""
    return replace(part, word_bytes=timing.word_bytes, columns=timing.columns, rows=timing.rows, banks=timing.banks)


class BesideSdram(BesideMemory):
    """Circuit with an SDRAM beside it: the ports of the circuit, without those of its reader that lead to the SDRAM.

    The input registers that a board has behind the pins are here.

    Args:
        circuit: the circuit; it has the ports of ``onnx_hw_rtl.memory.sdr_sdram.sdram_ports``.
        prefix: first part of the names of these.
        falling: whether the input registers take data at the falling edge.

    Ports, besides: ``sdram_fault``, an ``SdramFault``.
    """

    def __init__(self, circuit: Component, model: SdramModel, prefix: str, *, falling: bool) -> None:
        self.falling = falling
        super().__init__(circuit, model, prefix, SDRAM_PINS, {"sdram_fault": SdramFault})

    def elaborate(self, platform: object) -> Module:
        m, model = self.begin(), self.model
        for name in SDRAM_PINS:
            if name == "dq_i":
                m.d.sync += self.pin(name).eq(model.dq_fall if self.falling else model.dq_rise)
            else:
                m.d.comb += getattr(model, {"dq_o": "dq_i"}.get(name, name)).eq(self.pin(name))
        m.d.comb += self.sdram_fault.eq(model.fault)
        return m
