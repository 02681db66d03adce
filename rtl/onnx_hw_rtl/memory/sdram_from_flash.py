"""Reader of an SDR SDRAM that is filled from a flash at power-up.

The memory is prepared as its data sheet says; meanwhile the flash sleeps. Then the reader of the flash brings the rows,
once, and each word is written by itself: refresh, activate, write, precharge. The flash is so slow that it never waits.
So the cycle in which the first row is read is known. A flash that is bad leaves the memory unread.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.sdram_tape import INITIAL_REFRESHES, SdramTiming
from onnx_hw_rtl.memory.qspi_flash import FLASH_PORTS, QspiFlashReader
from onnx_hw_rtl.memory.sdr_sdram import (
    ACTIVATE,
    ALL_BANKS,
    IDLE,
    PRECHARGE,
    REFRESH,
    SET_MODE,
    WRITE,
    SdramReader,
    address_bits,
    command_layout,
)
from onnx_hw_rtl.streams.engine import pick

WRITE_WORDS_ALONE = 1 << 9
"""Bit of the mode register: a write is one word, as every read is by the bits that are 0."""


class SdramFiller(Component):
    """Preparation of a memory, and writing of the bytes that come.

    Ports:
        byte, byte_valid: the bytes of all rows, each taken at once.
        said: what is said to the memory.
    """

    def __init__(self, timing: SdramTiming) -> None:
        self.timing = timing
        super().__init__({"byte": In(8), "byte_valid": In(1), "said": Out(command_layout(timing))})

    def elaborate(self, platform: object) -> Module:
        m, timing = Module(), self.timing
        opens, writes, closes, total = timing.write_steps
        commands = [IDLE, PRECHARGE, *[REFRESH] * INITIAL_REFRESHES, SET_MODE]
        waits = [timing.power_up, timing.precharge, *[timing.refresh] * INITIAL_REFRESHES, timing.mode + 1]
        ready = len(commands)  # a word is awaited; then it is written
        commands += [IDLE, REFRESH, ACTIVATE, WRITE, PRECHARGE]
        waits += [1, opens, writes - opens, closes - writes, total - closes]
        stage, timer = Signal(range(len(commands))), Signal(range(max(waits)), init=timing.power_up - 1)
        stage_ends, awaits, whole, taken = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            awaits.eq(stage == ready),
            stage_ends.eq(Mux(awaits, whole, timer == 0)),
            taken.eq((stage == ready + 3) & (timer == 0)),
        ]
        following = Signal.like(stage, name="following")
        m.d.comb += following.eq(Mux(stage == len(commands) - 1, ready, stage + 1))
        said = data.View(command_layout(timing), Signal(command_layout(timing).size, init=IDLE))
        m.d.sync += said.command.eq(IDLE)
        with m.If(stage_ends):
            m.d.sync += [
                stage.eq(following),
                timer.eq(pick(following, [wait - 1 for wait in waits])),
                said.command.eq(pick(following, commands)),
            ]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        words = Signal((timing.capacity_bytes // timing.word_bytes - 1).bit_length(), name="words")
        shift = (timing.columns - 1).bit_length()
        row, bank_at = words[shift:], (timing.rows - 1).bit_length()
        column = Signal(shift)
        m.d.comb += column.eq(words[:shift] + timing.first_column)
        mode = timing.latency_cycles << 4 | WRITE_WORDS_ALONE
        word = self._gather(m, whole, taken)
        m.d.sync += words.eq(words + taken)
        address = Signal(address_bits(timing))
        m.d.comb += address.eq(Mux(following == ready + 2, row[:bank_at], column))
        with m.If(following == ready + 4):
            m.d.comb += address.eq(ALL_BANKS)
        with m.If(following < ready):
            m.d.comb += address.eq(Mux(following == ready - 1, mode, ALL_BANKS))
        m.d.sync += [
            said.a.eq(address),
            said.ba.eq(Mux(following < ready, 0, row[bank_at:])),
            said.dq.eq(word),
            said.drives.eq(stage_ends & (following == ready + 3)),
        ]
        m.d.comb += self.said.as_value().eq(said.as_value())
        return m

    def _gather(self, m: Module, whole: Value, taken: Value) -> Value:
        """Put the bytes of a word together; return it, which stays while the next one comes."""
        count = self.timing.word_bytes
        came, place, word = Signal(8 * (count - 1)), Signal(range(count)), Signal(8 * count)
        full = Signal()
        m.d.comb += whole.eq(full)
        together = Cat(came, self.byte)
        with m.If(taken):
            m.d.sync += full.eq(0)
        with m.If(self.byte_valid):
            m.d.sync += [came.eq(together[8:]), place.eq(place + 1)]
            with m.If(place == count - 1):
                m.d.sync += [word.eq(together), full.eq(1)]
        return word


class FilledSdramReader(SdramReader):
    """Reader of a tape that is filled from a flash.

    Args:
        address: address of the digest in the flash.
        digest: digest that must come first in the flash.

    Ports, besides: ``flash_sck`` and so on, those of the reader of the flash; ``bad`` also for a flash that is.
    """

    def __init__(self, timing: SdramTiming, *, address: int, digest: bytes, tape_bytes: int, depth: int) -> None:
        self.address, self.digest = address, digest
        ports = {f"flash_{name}": port for name, port in FLASH_PORTS.items()}
        super().__init__(timing, tape_bytes=tape_bytes, depth=depth, ports=ports)

    @property
    def once(self) -> int:
        return self.timing.before(self.tape_bytes)

    def before(self, m: Module, runs: Value) -> tuple[Value, Value]:
        timing = self.timing
        m.submodules.flash = flash = QspiFlashReader(
            timing.filling,
            address=self.address,
            digest=self.digest,
            tape_bytes=timing.flash_bytes(self.tape_bytes),
            depth=2,
        )
        m.submodules.filler = filler = SdramFiller(timing)
        for name, port in FLASH_PORTS.items():
            inner, outer = getattr(flash, name), getattr(self, f"flash_{name}")
            m.d.comb += outer.eq(inner) if port.flow == Out else inner.eq(outer)
        m.d.comb += [
            flash.o.ready.eq(runs),
            filler.byte.eq(flash.o.payload.as_value()),
            filler.byte_valid.eq(flash.o.valid & runs),
        ]
        return filler.said.as_value(), flash.bad
