"""Reader of an SDR SDRAM: a tape of words, from beginning to end and then again, for ever.

The reader has two engines of the firing law and a buffer of two rows between them. The first one, ``fill``, does the
steps of a row, one a cycle: it opens the row, reads all its columns, closes it and refreshes. It begins where there is
room for a whole row, and then nothing makes it wait. The second one, ``send``, pushes the words. So refreshes are steps
of the reader, and the cycle of every word is known. While ``fill`` waits, it refreshes by the clock; a row begins with
steps in which such a refresh ends.

Words come by the clock after their command. ``send`` decides a cycle after the step that reads a word, or later; what
it decided is carried out when the word has surely come.

The last words of a pass are a check sum. A pass that differs is bad: from then on no row is begun.
"""

from __future__ import annotations

from functools import reduce
from operator import or_, xor
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from onnx_hw_link.sdram_tape import CHECK_BITS, CHECK_START, CHECK_TAPS, SdramTiming
from onnx_hw_rtl.memory.qspi_flash import ALARMS
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer
from onnx_hw_rtl.streams.stream import beat

IDLE, ACTIVATE, READ, WRITE, PRECHARGE, REFRESH, SET_MODE = 0b111, 0b110, 0b101, 0b001, 0b010, 0b100, 0b000
"""Commands, as the levels of write enable, column strobe and row strobe, the last of which is the lowest bit."""

ALL_BANKS = 1 << 10
"""Address bit with which a precharge closes all banks."""


SDRAM_PINS = ("cke", "command", "ba", "a", "dq_o", "dq_oe", "dq_i")
"""Names of the ports on the side of the memory."""


def sdram_ports(timing: SdramTiming) -> dict[str, Any]:
    """Return the ports of a reader on the side of the memory; strobes, select and masks are active at low level."""
    bits = 8 * timing.word_bytes
    return {
        "cke": Out(1),
        "command": Out(3, init=IDLE),
        "ba": Out((timing.banks - 1).bit_length()),
        "a": Out(address_bits(timing)),
        "dq_o": Out(bits),
        "dq_oe": Out(1),
        "dq_i": In(bits),
    }


def address_bits(timing: SdramTiming) -> int:
    """Return the width of the address pins: all rows, or a column and the bit above it."""
    return max((timing.rows - 1).bit_length(), ALL_BANKS.bit_length())


def command_layout(timing: SdramTiming) -> data.StructLayout:
    """Return what is said to the memory in a cycle."""
    bank, bits = (timing.banks - 1).bit_length(), 8 * timing.word_bytes
    return data.StructLayout({"command": 3, "ba": bank, "a": address_bits(timing), "dq": bits, "drives": 1})


class SdramReader(Core):
    """Reader of a tape that lies in the memory.

    Args:
        timing: cycles of everything.
        tape_bytes: bytes of the tape, which fills its rows with its check sum.
        depth: FIFO depth of the output.

    Ports:
        o: the words of the tape.
        bad: the check sum of a pass was wrong.
        begins: strobe of a pass, when its first row has been read; another one only where all passes before were good.
        cke, command, ba, a, dq_o, dq_oe, dq_i: the pins of the memory; words have passed an input register.
    """

    def __init__(
        self, timing: SdramTiming, *, tape_bytes: int, depth: int, ports: dict[str, Any] | None = None
    ) -> None:
        if tape_bytes != timing.whole(tape_bytes):
            raise ValueError(f"a tape must fill its rows, {timing.whole(tape_bytes)} bytes, not {tape_bytes}")
        self.timing, self.tape_bytes = timing, tape_bytes
        super().__init__(
            {},
            {"o": (beat(1, 8 * timing.word_bytes, False), depth)},
            ("fill", "send"),
            {**sdram_ports(timing), **{name: Out(1) for name in ALARMS}, **(ports or {})},
        )

    @property
    def once(self) -> int:
        """Cycles before the first row."""
        return 1

    def before(self, m: Module, runs: Value) -> tuple[Value, Value]:
        """Return what is said to the memory before the first row, as a ``command_layout``, and whether that was bad.

        Args:
            runs: high until then.
        """
        return Const(IDLE, command_layout(self.timing).size), Const(0, 1)

    def elaborate(self, platform: object) -> Module:
        m, timing = self.begin(), self.timing
        rows, steps, columns = timing.tape_rows(self.tape_bytes), timing.row_steps, timing.columns
        shared = SharedBuffer(timing.capacity, timing.first_read + 1, 3 * steps)
        fill = Engine(m, "fill", {"row": rows, "step": steps}, conditions=[shared.has_room, ~self.bad], once=self.once)
        checks = (timing.check_words - 1).bit_length()  # a power of two of words, which nobody gets
        last = (rows * columns >> checks) - 1
        send = Engine(
            m,
            "send",
            {"word": rows * columns},
            pushes=[(self.outboxes["o"], lambda t: t["word"] >> checks != last)],
            conditions=[shared.has_beat],
        )
        ends = send.decode(lambda t: t["word"] & columns - 1 == columns - 1, 1, "row_ends")
        shared.count(m, fill, send, further=Mux(ends, steps - columns + 1, 1), released=Mux(ends, steps, 0))
        said, wrong = self.before(m, fill.prepares)
        reads = self._command(m, fill, said)
        comes = delayed(m, reads, timing.read, "comes", strobe=True)
        self._keep(m, send, comes)
        ends_pass = fill.decode(lambda t: (t["row"] == rows - 1) & (t["step"] == timing.closes - 1), 1, "pass_ends")
        self._check(m, comes, delayed(m, fill.works & ends_pass, timing.read + 3, "ends", strobe=True), wrong)
        begins = fill.decode(lambda t: (t["row"] == 0) & (t["step"] == timing.closes), 1, "pass_begins")
        m.d.sync += self.begins.eq(fill.works & begins & ~self.bad)
        self.arrives(m, "o", timing.latency)
        self.report(m, fill, send)
        return m

    def _command(self, m: Module, fill: Engine, before: Value) -> Value:
        """Drive the pins by registers, a cycle after the step; return a strobe for reads, in the cycle of the pins."""
        timing = self.timing
        said = data.View(command_layout(timing), Signal(command_layout(timing).size, name="said"))
        m.d.comb += said.as_value().eq(before)

        def at(steps: tuple[int, ...]) -> Any:
            return lambda turn: reduce(or_, [turn["step"] == step for step in steps])

        opens = fill.decode(at((timing.opens,)), 1, "opens")
        first, last = timing.first_read, timing.closes
        reads = fill.decode(lambda t: (t["step"] >= first) & (t["step"] < last), 1, "reads")
        closes = fill.decode(at((timing.closes,)), 1, "closes")
        refreshes = fill.decode(at(timing.refresh_steps()), 1, "refreshes")
        waits_here = fill.decode(lambda t: t["step"] == 0, 1, "begins")
        waits, since, due = Signal(), Signal(range(timing.idle + 1)), Signal()
        m.d.sync += [waits.eq(waits_here & ~fill.fire), due.eq(since == 0)]
        idle = Signal()
        m.d.comb += idle.eq(waits & due & ~fill.prepares)
        refresh_now = (fill.works & refreshes) | idle
        with m.If(refresh_now):
            m.d.sync += [since.eq(timing.idle - 2), due.eq(0)]
        with m.Elif(since != 0):
            m.d.sync += since.eq(since - 1)
        works = fill.works
        command = Signal(3, init=IDLE)
        with m.If(fill.prepares):
            m.d.comb += command.eq(said.command)
        with m.Else():
            m.d.comb += command.eq(
                Cat(
                    ~((works & (opens | refreshes)) | (works & closes) | idle),
                    ~((works & (reads | refreshes)) | idle),
                    ~(works & closes),
                )
            )
        row, bank_at = Value.cast(fill.next["row"]), (timing.rows - 1).bit_length()
        column = Cat(Value.cast(fill.next["step"])[: (timing.columns - 1).bit_length()], Const(0, 1))
        address = Mux(opens, row[:bank_at], column | Mux(closes, ALL_BANKS, 0))
        m.d.sync += [
            self.cke.eq(1),
            self.command.eq(command),
            self.a.eq(Mux(fill.prepares, said.a, address)),
            self.ba.eq(Mux(fill.prepares, said.ba, row[bank_at:])),
            self.dq_o.eq(said.dq),
            self.dq_oe.eq(fill.prepares & said.drives),
        ]
        return delayed(m, works & reads, 1, "read", strobe=True)

    def _keep(self, m: Module, send: Engine, comes: Value) -> None:
        """Write words that come into the buffer, and take them from it for the FIFO."""
        timing = self.timing
        words = 2 * timing.columns
        m.submodules.rows = rows = memory.Memory(shape=8 * timing.word_bytes, depth=words, init=[])
        write, read = rows.write_port(), rows.read_port()
        into, out_of = Signal(range(words), name="into"), Signal(range(words), name="out_of")
        m.d.comb += [write.addr.eq(into), write.data.eq(self.dq_i), write.en.eq(comes)]
        m.d.comb += [read.addr.eq(out_of), read.en.eq(1)]
        m.d.sync += into.eq(into + comes)
        m.d.sync += out_of.eq(out_of + delayed(m, send.fire, timing.hold, "taken", strobe=True))
        word = delayed(m, read.data, 1, "word")
        m.d.comb += Value.cast(self.outboxes["o"].data).eq(word)

    def _check(self, m: Module, comes: Value, ends: Value, wrong: Value) -> None:
        """Follow the check sum; at the end of a pass it is what it was before, or it is bad, as what is wrong."""
        bits = 8 * self.timing.word_bytes
        word = delayed(m, self.dq_i, 1, "checked")
        state = Signal(CHECK_BITS, init=CHECK_START, name="check")
        with m.If(delayed(m, comes, 1, "checks", strobe=True)):
            m.d.sync += state.eq(check_of(state, word, bits))
        differs = delayed(m, state != CHECK_START, 1, "differs")
        with m.If((delayed(m, ends, 1, "judges", strobe=True) & differs) | wrong):
            m.d.sync += self.bad.eq(1)


def check_of(state: Value, word: Value, bits: int) -> Value:
    """Return the check sum after a word."""
    terms: list[list[Any]] = [[] for _ in range(CHECK_BITS + bits)]
    for k in range(CHECK_BITS):
        terms[k + bits].append(state[k])
    for k in range(bits):
        terms[k].append(word[k])
    for k in reversed(range(CHECK_BITS, CHECK_BITS + bits)):
        for tap in CHECK_TAPS:
            terms[k - CHECK_BITS + tap] += terms[k]
    return Cat(*(reduce(xor, _odd(each)) for each in terms[:CHECK_BITS]))


def _odd(terms: list[Any]) -> list[Any]:
    """Return the terms that are there an odd number of times."""
    kept: dict[int, Any] = {}
    for term in terms:
        if kept.pop(id(term), None) is None:
            kept[id(term)] = term
    return list(kept.values())
