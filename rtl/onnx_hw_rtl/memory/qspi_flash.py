"""Reader of a serial flash with four data pins: a tape of bytes, from beginning to end and then again, for ever.

The reader is an engine of the firing law. Its operations are steps of the flash's clock; the one in which the last bits
of a byte of the tape come pushes this byte. Where there is no room for it, the clock stands still, and the flash holds
what it shows. So nothing is ever read twice, and a read is one command, however long.

A pass begins with the command FAST READ QUAD I/O (EBh), its address and mode bits, which say that another command
follows. Then come a digest, the tape, and a CRC over both. A pass whose digest or CRC differs is bad: from then on no
byte leaves the reader, of a tape with another digest one byte at most.

    row 0                                                                      rows 1 ..
    pause, bytes 0..5 | command 6..9 | address 10..12 | mode 13 | dummy 14, 15 | digest 16..31 | tape ... | CRC
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from onnx_hw_link.flash_tape import (
    ADDRESS_BYTES,
    COMMAND_BYTES,
    CRC_BYTES,
    CRC_POLYNOMIAL,
    DIGEST_BYTES,
    MODE_BYTES,
    READ_COMMAND,
    ROW_BYTES,
    WAKE_COMMAND,
    FlashTiming,
    whole_rows,
)
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, delayed
from onnx_hw_rtl.streams.stream import beat

FLASH_PORTS = {"sck": Out(1), "cs_n": Out(1, init=1), "dq_o": Out(4), "dq_oe": Out(4), "dq_i": In(4)}
"""Ports of a reader on the side of the flash: clock, select, and four data pins with an output enable each."""

ALARMS = ("bad", "begins")
"""Ports of a reader by which it says whether the tape is right."""

BITS_AT_ONCE = 2
"""Number of bits of which the CRC is computed in a cycle: half of those that come in one step, which takes two."""

DATA = ROW_BYTES - DIGEST_BYTES
"""First byte of the first row that is data."""


class QspiFlashReader(Core):
    """Reader of a tape.

    Args:
        timing: cycles of everything.
        address: address of the digest in the flash.
        digest: digest that must come first.
        tape_bytes: bytes of the tape, which fills its rows.
        depth: FIFO depth of the output.

    Ports:
        o: the bytes of the tape.
        bad: the digest or a CRC was wrong.
        begins: strobe of a read command; another one after the first only where all passes before were good.
        sck, cs_n, dq_o, dq_oe, dq_i: the pins of the flash.
    """

    def __init__(self, timing: FlashTiming, *, address: int, digest: bytes, tape_bytes: int, depth: int) -> None:
        if len(digest) != DIGEST_BYTES or tape_bytes != whole_rows(tape_bytes):
            raise ValueError(
                f"a tape must have a digest of {DIGEST_BYTES} bytes and fill its rows, not {len(digest)} and "
                f"{tape_bytes} bytes"
            )
        if not 0 <= address < 1 << 8 * ADDRESS_BYTES:
            raise ValueError(f"an address must have {8 * ADDRESS_BYTES} bits, not {address:#x}")
        self.timing, self.address, self.digest, self.tape_bytes = timing, address, digest, tape_bytes
        super().__init__(
            {}, {"o": (beat(1, 8, False), depth)}, ("flash",), {**FLASH_PORTS, **{name: Out(1) for name in ALARMS}}
        )

    def elaborate(self, platform: object) -> Module:
        m, timing = self.begin(), self.timing
        outbox = self.outboxes["o"]
        self._last_row = timing.pass_bytes(self.tape_bytes) // ROW_BYTES - 1
        engine = Engine(
            m,
            "flash",
            {"row": self._last_row + 1, "byte": ROW_BYTES, "slot": 2, "phase": 2 * timing.half_period},
            pushes=[(outbox, lambda t: self._in_tape(t) & (t["slot"] == 1) & (t["phase"] == 0))],
            conditions=[~self.bad],
            once=timing.once,
        )
        self._drive(m, engine)
        dq = delayed(m, self.dq_i, 1, "dq")
        takes = engine.decode(lambda t: ((t["row"] != 0) | (t["byte"] >= DATA)) & (t["phase"] == 0), 1, "takes")
        strobe = delayed(m, engine.works & takes, timing.latency, "strobe", strobe=True)
        high = Signal(4)
        with m.If(strobe):
            m.d.sync += high.eq(dq)
        m.d.comb += Value.cast(outbox.data).eq(Cat(dq, high))
        self._check(m, engine, strobe, dq)
        self.arrives(m, "o", timing.latency)
        self.report(m, engine)
        return m

    def _in_crc(self, turn: Turn) -> Any:
        return (turn["row"] == self._last_row) & (turn["byte"] >= ROW_BYTES - CRC_BYTES)

    def _in_tape(self, turn: Turn) -> Any:
        return (turn["row"] != 0) & ~self._in_crc(turn)

    def _drive(self, m: Module, engine: Engine) -> None:
        """Drive the pins by registers, a cycle after the operation that changes them."""
        timing, half = self.timing, self.timing.half_period
        gap = timing.gap_bytes

        def rests(turn: Turn) -> Any:
            return (turn["row"] == 0) & (turn["byte"] < gap)

        low = engine.decode(lambda t: t["phase"] == 0, 1, "low")
        high = engine.decode(lambda t: t["phase"] == half, 1, "high")
        resting = engine.decode(rests, 1, "rests")
        out = engine.decode(self._out, 6, "out")
        with m.If(engine.works & low):
            m.d.sync += [self.sck.eq(0), self.cs_n.eq(resting), self.dq_o.eq(out[:4])]
            m.d.sync += self.dq_oe.eq(Cat(out[4], out[5], out[4], out[4]))
        m.d.sync += self.begins.eq(engine.works & low & ~resting & self.cs_n)
        with m.If(engine.works & high):
            m.d.sync += self.sck.eq(~resting)
        with m.If(engine.prepares):
            step, fine = engine.prepared, (2 * half).bit_length() - 1
            sends, bit = step[fine + 3 :] == 1, step[fine : fine + 3]
            m.d.sync += [
                self.sck.eq(sends & step[fine - 1]),
                self.cs_n.eq(~sends),
                self.dq_o.eq(Cat(_chosen(bit, _bits(WAKE_COMMAND)), Const(0b110, 3))),
                self.dq_oe.eq(0b1101),
            ]

    def _out(self, turn: Turn) -> Any:
        """Return what the data pins show in an operation, whether pins 0, 2 and 3 are driven, and whether pin 1 is.

        While a command comes on pin 0, pins 2 and 3 are high: older commands take them for hold and write protection.
        """
        single, quad = 0b01 << 4, 0b11 << 4
        steps = [single | 0b1100] * (2 * self.timing.gap_bytes)
        steps += [single | 0b1100 | bit for bit in _bits(READ_COMMAND)]
        steps += [quad | self.address >> shift & 15 for shift in range(8 * ADDRESS_BYTES - 4, -1, -4)]
        steps += [quad | 15] * (2 * MODE_BYTES)
        assert len(steps) == 2 * (self.timing.gap_bytes + COMMAND_BYTES + ADDRESS_BYTES + MODE_BYTES)
        steps += [0] * (2 * ROW_BYTES - len(steps))
        return Mux(turn["row"] == 0, _chosen(Cat(turn["slot"][0], turn["byte"]), steps), 0)

    def _check(self, m: Module, engine: Engine, strobe: Value, dq: Value) -> None:
        """Compare the digest, four bits at a time, and the CRC, bit by bit: there, no bit may change the CRC."""
        nibbles = [nibble for byte in self.digest for nibble in (byte >> 4, byte & 15)]

        def expected(turn: Turn) -> Any:
            """Return the four bits of the digest that come, and whether some come."""
            place = Cat(turn["slot"][0], turn["byte"][:4])
            return Cat(_chosen(place, nibbles), (turn["row"] == 0) & (turn["byte"] >= DATA))

        wait = self.timing.latency
        due = delayed(m, engine.decode(expected, 5, "digest"), wait, "digest")
        is_crc = delayed(m, engine.decode(self._in_crc, 1, "crc"), wait + 1, "is_crc")
        wrong = delayed(m, strobe & due[4] & (due[:4] != dq), 1, "wrong", strobe=True)
        first = delayed(m, strobe, 1, "first", strobe=True)
        second = delayed(m, first, 1, "second", strobe=True)
        bits = Signal(4, name="crc_bits")
        m.d.sync += bits.eq(Cat(dq[:2], Mux(strobe, dq[2:], bits[:2])))  # the lower two stay for a cycle
        crc = Signal(32)  # 0 again at the end of a good pass
        following, changes = crc_after(crc, bits[4 - BITS_AT_ONCE :])
        with m.If(first | second):
            m.d.sync += crc.eq(following)
        with m.If(wrong | ((first | second) & is_crc & changes)):
            m.d.sync += self.bad.eq(1)


def _bits(byte: int) -> list[int]:
    """Return the bits of a byte, the highest one first."""
    return [byte >> k & 1 for k in range(7, -1, -1)]


def _chosen(index: Value, values: list[int]) -> Value:
    """Return one of as many values as the index can choose from."""
    assert len(values) == 1 << len(index)
    shown = [Const(value, max(1, max(values).bit_length())) for value in values]
    for bit in index:
        shown = [Mux(bit, odd, even) for even, odd in zip(shown[::2], shown[1::2], strict=True)]
    return shown[0]


def crc_after(crc: Value, bits: Value) -> tuple[Value, Value]:
    """Return the CRC after further bits, the highest one of which comes first, and whether one of them changes it."""
    state, changes = [crc[k] for k in range(32)], Const(0, 1)
    for bit in reversed(range(len(bits))):
        back = state[31] ^ bits[bit]
        changes = changes | back
        state = [back if not k else state[k - 1] ^ back if CRC_POLYNOMIAL >> k & 1 else state[k - 1] for k in range(32)]
    return Cat(*state), changes
