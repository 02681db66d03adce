"""Tape of weights in an SDR SDRAM: its bytes, and the cycles in which a reader gets them. There is no circuit here.

The tape fills rows of the memory, from its first one on. A reader opens a row, reads all its columns, closes it and
refreshes; a *pass* is all rows, and ends with a check sum of ``CHECK_BYTES``. The reader begins a row when there is
room for the whole of it, so that no row stays open for long; while it waits it refreshes by the clock. At
power-up the rows are filled from a flash, in one pass of its own reader.

Steps of a row:

    wait, for a refresh that may be under way | activate ... read, read, ... | precharge ... refresh ... refresh
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onnx_hw_link.flash_tape import FlashTiming, whole_rows

if TYPE_CHECKING:
    import numpy as np

CHECK_BYTES = 4
CHECK_BITS, CHECK_TAPS = 31, (0, 3)
"""Degree of the polynomial of the check sum, and its other powers. It is primitive, and a bit of the state behind a
word takes one look-up table: there is no such polynomial of degree 32."""

CHECK_START = (1 << CHECK_BITS) - 1
"""State of the check sum before a pass, and after a good one: memories of zeros or of ones alone are not good."""

INITIAL_REFRESHES = 8
"""Refreshes at power-up, before the mode is set: as many as any data sheet asks for."""

BUFFERED_ROWS = 2
"""Rows in the reader: one is read while the other one is filled."""


@dataclass(frozen=True)
class SdramTiming:
    """Timing of an SDRAM reader, in cycles of its clock, which is that of the memory.

    Attributes:
        word_bytes: bytes that come at once: 2 or 4.
        columns, rows, banks: words of a row, rows of a bank, and banks.
        activate: cycles from opening a row until it is read or written.
        precharge: from closing a row until the next command.
        refresh: from a refresh until the next command.
        write: from a word that is written until its row is closed.
        open: least time that a row is open.
        mode: from setting the mode until the next command.
        power_up: cycles before the first command.
        interval: cycles in which there must be a refresh, on average.
        latency_cycles: latency of a read command, to which the memory is set.
        read: cycles from a read command at the pins until the word has come to the reader; ``falling`` if the input
            register behind the pins takes it at the falling edge of the clock.
        flash: timing of the reader of the flash from which the memory is filled.
    """

    word_bytes: int
    columns: int
    rows: int
    banks: int
    activate: int
    precharge: int
    refresh: int
    write: int
    open: int
    mode: int
    power_up: int
    interval: int
    latency_cycles: int
    read: int
    falling: bool
    flash: FlashTiming

    def __post_init__(self) -> None:
        if self.word_bytes not in (2, 4):
            raise ValueError(f"a memory must have words of 2 or 4 bytes, not {self.word_bytes}")
        for name in ("columns", "rows", "banks"):
            if (count := getattr(self, name)) < 2 or count & count - 1:
                raise ValueError(f"the number of {name} must be a power of two, not {count}")
        if self.interval <= self.shortest_idle:
            raise ValueError(f"a refresh must be due after more than {self.shortest_idle} cycles, not {self.interval}")

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.columns * self.word_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes that come at once."""
        return self.word_bytes

    @property
    def check_words(self) -> int:
        """Words of the check sum."""
        return CHECK_BYTES // self.word_bytes

    @property
    def shortest_idle(self) -> int:
        """Least number of cycles between two refreshes of a reader that waits."""
        return 2 * self.refresh

    @property
    def refreshes(self) -> int:
        """Refreshes behind each row: enough for the time that the row takes, and for the wait before it."""
        count = 1
        while count * self.interval < self._row_steps(count) + self.shortest_idle + 2:
            count += 1
        return count

    @property
    def idle(self) -> int:
        """Cycles without a refresh after which a reader that waits refreshes, so that a row may begin at any time."""
        left = self.refreshes * self.interval - self.row_steps - 2
        return min(left, self.interval - 2)

    @property
    def opens(self) -> int:
        """Step of a row that opens it."""
        return self.refresh

    @property
    def first_read(self) -> int:
        """Step of a row that reads its first word."""
        return self.opens + self.activate

    @property
    def closes(self) -> int:
        """Step of a row that closes it."""
        return self.first_read + self.columns

    def refresh_steps(self) -> tuple[int, ...]:
        """Return the steps of a row that refresh."""
        return tuple(self.closes + self.precharge + k * self.refresh for k in range(self.refreshes))

    def _row_steps(self, refreshes: int) -> int:
        return self.closes + self.precharge + (refreshes - 1) * self.refresh + 1

    @property
    def row_steps(self) -> int:
        """Steps of a row, one a cycle."""
        return self._row_steps(self.refreshes)

    @property
    def first_column(self) -> int:
        """Column of a row's first word: the step after it, so that a counter of steps is one of columns."""
        return (self.first_read + 1) % self.columns

    def whole(self, tape_bytes: int) -> int:
        """Return the least length of a tape, not less than some bytes, that fills its rows with its check sum."""
        return -(-(tape_bytes + CHECK_BYTES) // self.row_bytes) * self.row_bytes - CHECK_BYTES

    def tape_rows(self, tape_bytes: int) -> int:
        """Return the rows that a tape takes."""
        return (self.whole(tape_bytes) + CHECK_BYTES) // self.row_bytes

    def pass_cycles(self, tape_bytes: int) -> int:
        """Return the cycles of a pass in which the reader never waits for room."""
        return self.tape_rows(tape_bytes) * self.row_steps

    @property
    def capacity(self) -> int:
        """Steps of rows that are begun and whose words have not all left."""
        return BUFFERED_ROWS * self.row_steps

    @property
    def hold(self) -> int:
        """Cycles from a decision to send a word until it is taken from the buffer: then it is there."""
        return self.read + 1

    @property
    def latency(self) -> int:
        """Pipeline stages behind the decision to send a word."""
        return self.hold + 2

    @property
    def depth(self) -> int:
        """Depth of the FIFO behind the reader with which a word leaves in every cycle."""
        return self.latency + 3

    def word_depth(self, word_bytes: int) -> int:
        """Return the depth of the FIFO of a core's words with which the reader never waits.

        A word takes a cycle for each of its parts, and five until its place may be taken again.
        """
        return -(-5 // (word_bytes // self.word_bytes))

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the memory."""
        return self.row_bytes * self.rows * self.banks

    # ---- filling ----------------------------------------------------------------------------------------------------

    @property
    def write_steps(self) -> tuple[int, int, int, int]:
        """Steps, from a refresh on, that open a row, write a word and close the row, and the number of all steps."""
        opens = self.refresh
        writes = opens + self.activate
        closes = max(writes + self.write, opens + self.open)
        return opens, writes, closes, closes + self.precharge

    @property
    def prepare(self) -> int:
        """Cycles until the first word may be written."""
        return self.power_up + self.precharge + INITIAL_REFRESHES * self.refresh + self.mode + 4

    @property
    def filling(self) -> FlashTiming:
        """Timing of the flash while the memory is filled: its words come no faster than they are written."""
        flash = replace(self.flash, wake=max(self.flash.wake, self.prepare))
        while flash.byte_cycles * self.word_bytes < self.write_steps[-1] + 4:
            flash = replace(flash, half_period=2 * flash.half_period)
        return flash

    def in_flash(self, tape: bytes) -> bytes:
        """Return what lies in the flash between its digest and its CRC: all rows, and zeros."""
        image = memory_image(self, tape)
        return image + bytes(self.flash_bytes(len(tape)) - len(image))

    def flash_bytes(self, tape_bytes: int) -> int:
        """Return the bytes of what lies in the flash, without its digest and CRC: all rows, and zeros."""
        return whole_rows(self.tape_rows(tape_bytes) * self.row_bytes)

    def before(self, tape_bytes: int) -> int:
        """Return the cycles before the first step of the first row: the memory is prepared, filled and checked."""
        filling = self.filling
        fills = filling.once + filling.pass_cycles(self.flash_bytes(tape_bytes))
        return fills + filling.latency + self.write_steps[-1] + 8

    # ---- the law ----------------------------------------------------------------------------------------------------

    def offers(self, tape_bytes: int, passes: int) -> np.ndarray:
        """Return the cycle in which each word of the tape comes, (passes · words,) int64, if nothing waits.

        Cycle 0 is the reader's first cycle, and a word comes when it leaves the reader's register.
        """
        import numpy as np

        rows, words = self.tape_rows(tape_bytes), self.whole(tape_bytes) // self.word_bytes
        begins = self.before(tape_bytes) + self.row_steps * np.arange(passes * rows)
        steps = (begins[:, None] + self.first_read + np.arange(self.columns)).reshape(passes, -1)[:, :words]
        cycles: np.ndarray = steps.reshape(-1) + 1 + self.latency + 1
        return cycles


def check_after(state: int, word: int, bits: int) -> int:
    """Return the check sum after a word."""
    state = state << bits ^ word
    while above := state >> CHECK_BITS:
        state &= (1 << CHECK_BITS) - 1
        for tap in CHECK_TAPS:
            state ^= above << tap
    return state


def check_bytes(tape: bytes, word_bytes: int) -> bytes:
    """Return what must follow a tape so that a pass ends with the state with which it began."""
    state = CHECK_START
    for at in range(0, len(tape), word_bytes):
        state = check_after(state, int.from_bytes(tape[at : at + word_bytes], "little"), 8 * word_bytes)
    left = check_after(check_after(state, 0, 16), 0, 16) ^ CHECK_START
    shown = [left >> shift & (1 << 8 * word_bytes) - 1 for shift in range(32 - 8 * word_bytes, -1, -8 * word_bytes)]
    return b"".join(word.to_bytes(word_bytes, "little") for word in shown)


def memory_image(timing: SdramTiming, tape: bytes) -> bytes:
    """Return what fills the rows: the tape and its check sum."""
    if len(tape) != timing.whole(len(tape)):
        raise ValueError(f"a tape must fill its rows, {timing.whole(len(tape))} bytes, not {len(tape)}")
    return tape + check_bytes(tape, timing.word_bytes)
