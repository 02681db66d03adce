"""Tape of weights in a flash: its bytes, and the cycles in which a reader gets them. There is no circuit here.

A *tape* is read from beginning to end, and then again, for ever. Each such pass is one read command: a digest of
``DIGEST_BYTES``, the bytes of the tape, and a CRC of ``CRC_BYTES`` over both, the high byte first.
The reader counts in rows of ``ROW_BYTES``: in the first one there are the command and the digest, the last one ends
with the CRC. So a tape fills its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

DIGEST_BYTES = 16
CRC_BYTES = 4
ROW_BYTES = 32

COMMAND_BYTES = 4
"""Length of a read command, in bytes of four bits a clock: its eight bits come one a clock."""

ADDRESS_BYTES, MODE_BYTES = 3, 1

CRC_POLYNOMIAL = 0x0040_0007
"""Polynomial x³² + x²² + x² + x + 1. It is primitive, and so finds what others of this degree find: every burst of up
to 32 bits, any two bits, and all but one of 2³² other faults. It has few terms, so a circuit of few look-up tables."""

WAKE_COMMAND, READ_COMMAND = 0xAB, 0xEB
"""Release from power-down, in which some chips leave their flash after configuration; fast read quad I/O."""


@dataclass(frozen=True)
class FlashTiming:
    """Timing of a flash reader, in cycles of its clock.

    Attributes:
        half_period: cycles from an edge of the flash's clock to the next one; a power of two.
        dummy_bytes: half of the clocks between the mode bits and the first data.
        deselect: least number of cycles between two commands.
        wake: cycles from the end of the wake command until the flash takes another command.
        capture: cycles from the falling edge that brings four bits until they are taken.
    """

    half_period: int
    dummy_bytes: int
    deselect: int
    wake: int
    capture: int

    def __post_init__(self) -> None:
        if self.half_period < 1 or self.half_period & self.half_period - 1:
            raise ValueError(f"half a period must be a power of two of cycles, not {self.half_period}")
        if not 1 <= self.capture <= 2 * self.half_period:
            raise ValueError(f"bits must be taken after 1..{2 * self.half_period} cycles, not {self.capture}")
        if self.gap_bytes * self.byte_cycles < max(1, self.deselect):
            raise ValueError(f"there are {self.gap_bytes} bytes between two commands; {self.deselect} cycles are more")
        if self.deselect > 16 * self.half_period:
            raise ValueError(f"eight clocks must be enough between two commands, not {self.deselect} cycles")

    @property
    def token_bytes(self) -> int:
        """Bytes that come at once."""
        return 1

    @property
    def depth(self) -> int:
        """Depth of the FIFO behind the reader."""
        return 2

    def word_depth(self, word_bytes: int) -> int:  # noqa: ARG002
        """Return the depth of the FIFO of a core's words with which the reader never waits: one word, which takes four
        cycles or more.
        """
        return 1

    @property
    def byte_cycles(self) -> int:
        """Cycles of a byte: two clocks of the flash."""
        return 4 * self.half_period

    @property
    def gap_bytes(self) -> int:
        """Bytes of a pass in which no command is under way: what the first row has left."""
        return ROW_BYTES - DIGEST_BYTES - self.lead_bytes

    @property
    def lead_bytes(self) -> int:
        """Bytes of a command before its first data."""
        return COMMAND_BYTES + ADDRESS_BYTES + MODE_BYTES + self.dummy_bytes

    @property
    def once(self) -> int:
        """Cycles before the first pass: a pause and the wake command, eight clocks each, and the time that it takes.

        Whatever command a reset has cut short has then ended for long enough.
        """
        return 32 * self.half_period + self.wake

    @property
    def latency(self) -> int:
        """Pipeline stages behind the operation that pushes a byte."""
        return self.capture + 1

    def whole(self, tape_bytes: int) -> int:
        """Return the least length of a tape, not less than some bytes, that fills its rows."""
        return whole_rows(tape_bytes)

    def before(self, tape_bytes: int) -> int:  # noqa: ARG002
        """Return the cycles before the first pass of a tape."""
        return self.once

    def pass_bytes(self, tape_bytes: int) -> int:
        """Return the bytes of a pass, those without data included: whole rows."""
        return ROW_BYTES + tape_bytes + CRC_BYTES

    def pass_cycles(self, tape_bytes: int) -> int:
        """Return the cycles of a pass in which the reader never waits for room."""
        return self.pass_bytes(tape_bytes) * self.byte_cycles

    def pushes(self) -> tuple[int, int]:
        """Return the operation of a pass that pushes the first byte of the tape, and the operations from one to the
        next.
        """
        return ROW_BYTES * self.byte_cycles + 2 * self.half_period, self.byte_cycles

    def offers(self, tape_bytes: int, passes: int) -> np.ndarray:
        """Return the cycle in which each byte of the tape comes, (passes · tape_bytes,) int64, if nothing waits.

        Cycle 0 is the reader's first cycle, and a byte comes when it leaves the reader's register.
        """
        import numpy as np

        first, step = self.pushes()
        begins = self.once + self.pass_cycles(tape_bytes) * np.arange(passes)
        cycles: np.ndarray = (begins[:, None] + first + step * np.arange(tape_bytes)).reshape(-1)
        return cycles + self.latency + 1


def crc32(data: bytes) -> int:
    """Return the CRC of some bytes by ``CRC_POLYNOMIAL``: the highest bit first, from 0 on, not inverted.

    >>> hex(crc32(b"123456789"))
    '0x1742350d'
    """
    state = 0
    for byte in data:
        state = (state << 8 & 0xFFFFFFFF) ^ _TABLE[state >> 24 ^ byte]
    return state


def _after_byte(byte: int) -> int:
    state = byte << 24
    for _ in range(8):
        state = (state << 1 ^ (CRC_POLYNOMIAL if state >> 31 else 0)) & 0xFFFFFFFF
    return state


_TABLE = tuple(map(_after_byte, range(256)))


def whole_rows(tape_bytes: int) -> int:
    """Return the least length of a tape, not less than some bytes, that fills its rows."""
    return -(-(tape_bytes + CRC_BYTES) // ROW_BYTES) * ROW_BYTES - CRC_BYTES


def image_bytes(tape_bytes: int) -> int:
    """Return the bytes that a tape takes in the memory, with digest and CRC."""
    return DIGEST_BYTES + tape_bytes + CRC_BYTES


def tape_image(digest: bytes, tape: bytes) -> bytes:
    """Return what lies in the memory: digest, tape and CRC."""
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest must have {DIGEST_BYTES} bytes, not {len(digest)}")
    if len(tape) != whole_rows(len(tape)):
        raise ValueError(f"a tape must fill its rows, {whole_rows(len(tape))} bytes, not {len(tape)}")
    return digest + tape + crc32(digest + tape).to_bytes(CRC_BYTES, "big")
