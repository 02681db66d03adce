"""A whole board in 64 runs at once, through its pins: bits of a serial line or of SPI in and out, from power-up."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from onnx_hw_sim.gates.cell_models import TwoWayPad
from onnx_hw_sim.gates.native_gates import RUNS, load, native_library
from onnx_hw_sim.gates.toggles import ModelledCells, ToggleCount, begin_count, end_count

BREAK = 256
"""Word that a host sends instead of a byte: the line is low for the time of a byte."""

_PAUSE, _LONGEST_PAUSE = 1024, (1 << 16) - 1025


def pause(bits: int) -> list[int]:
    """Return the words with which a host lets the line rest for the time of some bits."""
    whole, rest = divmod(bits, _LONGEST_PAUSE)
    return [_PAUSE + _LONGEST_PAUSE] * whole + ([_PAUSE + rest] if rest else [])


@dataclass(frozen=True)
class PinLevel:
    """The level of a pin, or of the lock of a PLL.

    Attributes:
        net: its net.
        high: its usual level.
        windows: (run, first cycle, cycle after the last one) in which it is the other one.
    """

    net: int
    high: bool
    windows: Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class FlashTimes:
    """Times of a flash, in cycles; see ``onnx_hw_link.flash_parts.FlashPart``.

    Attributes:
        invalid: cycles after a falling edge of its clock in which the bits are not there yet.
    """

    low: int
    high: int
    period: int
    deselect: int
    wake: int
    invalid: int
    dummy_clocks: int


@dataclass(frozen=True)
class FlashChip:
    """A flash at the pins of each board.

    Attributes:
        clock, select_n: nets of its clock and its select.
        data: its four data pins.
        base: address of its first byte; all others are erased.
        contents: the bytes.
    """

    clock: int
    select_n: int
    data: Sequence[TwoWayPad]
    base: int
    times: FlashTimes
    contents: bytes


class BoardsUnderWay:
    """64 boards, each with a host. A host sends words: bytes, breaks and pauses."""

    def __init__(self, c: ctypes.CDLL, handle: int, place: Sequence[int]) -> None:
        self._c, self._handle, self._place = c, handle, place
        self.cycle = 0
        self._waiting, self._come = np.zeros(RUNS, np.int64), np.zeros(RUNS, np.int64)

    @property
    def waiting(self) -> np.ndarray:
        """Words that each host has not begun to send, (64,) int64, after the last step."""
        return self._waiting

    def send(self, run: int, words: Sequence[int]) -> None:
        """Send words behind those that wait."""
        data = np.array(words, dtype=np.uint16)
        self._c.pins_send(self._handle, run, data.ctypes.data, len(data))

    def drop(self, run: int) -> None:
        """Forget the words that wait."""
        self._c.pins_drop(self._handle, run)

    def word(self, net: int) -> int:
        """Return the value of a net in all runs, one bit for each."""
        return int(self._c.pins_word(self._handle, self._place[net]))

    def step(self, cycles: int) -> None:
        """Simulate some cycles."""
        self._c.gates_step(self._handle, cycles)
        self.cycle += cycles
        self._c.pins_state(self._handle, self._waiting.ctypes.data, self._come.ctypes.data)

    def hold(self, contents: bytes, run: int = -1) -> None:
        """Let the flash of a run, or of all, have other contents."""
        data = np.array([*contents], dtype=np.uint8)
        self._c.pins_flash_contents(self._handle, run, data.ctypes.data, len(data))

    def flash_faults(self) -> np.ndarray:
        """Return the first fault that the flash of each run saw, (64,) uint8; see ``onnx_hw_link.flash_parts``."""
        faults = np.zeros(RUNS, dtype=np.uint8)
        self._c.pins_flash_faults(self._handle, faults.ctypes.data)
        return faults

    def take(self, run: int) -> bytes:
        """Return the bytes that have come."""
        data = np.zeros(int(self._come[run]), dtype=np.uint8)
        if len(data):
            self._c.pins_take(self._handle, run, data.ctypes.data)
            self._come[run] = 0
        return data.tobytes()


class PinSimulator:
    """The netlist of a board, ready to run.

    Args:
        cells: cells of the netlist.
        wires: nets of the link's pins, by name: ``rx`` and ``tx``, or ``sck``, ``cs_n``, ``copi`` and ``cipo``.
        bit_cycles: cycles of the chip's clock in a bit; need not be whole.
        flash: flash that it reads; None without one.
        quiet: whether only what changes is computed while that is little; the results are the same.
    """

    def __init__(
        self,
        cells: ModelledCells,
        wires: Mapping[str, int],
        bit_cycles: Fraction,
        flash: FlashChip | None = None,
        *,
        quiet: bool = True,
    ) -> None:
        self.cells, self.bit_cycles, self._quiet, self._flash = cells, bit_cycles, quiet, flash
        self._wires = {name: cells.program.place[net] for name, net in wires.items()}

    @contextmanager
    def run(
        self,
        levels: Sequence[PinLevel] = (),
        *,
        seed: int = 0,
        count: ToggleCount | None = None,
        watched: Sequence[int] = (),
        paces: Mapping[int, Fraction] | None = None,
    ) -> Iterator[BoardsUnderWay]:
        """Power 64 boards up.

        Args:
            levels: pins and nets that have a level.
            seed: seed of the rubbish.
            count: toggles to count; its results are set at the end.
            watched: runs in which they are counted.
            paces: times that a bit of a host lasts, in those of ``bit_cycles``, by run; 1 for all others.

        Raises:
            ToolMissing, ToolFailed: the C++ compiler, which is needed once per machine.
        """
        c, built = native_library(), self.cells.program
        serial = "rx" in self._wires
        bit = self.bit_cycles if serial else self.bit_cycles / 2
        lasting = {run: bit * pace for run, pace in (paces or {}).items()}
        parts = lcm(bit.denominator, *(each.denominator for each in lasting.values()))
        handle = c.pins_open(built.nets, seed, int(bit * parts), parts, self._quiet)
        try:
            for run, each in lasting.items():
                c.pins_pace(handle, run, int(each * parts))
            keep = load(c, handle, built)
            names = ("rx", "tx") if serial else ("sck", "cs_n", "copi", "cipo")
            (c.pins_uart if serial else c.pins_spi)(handle, *(self._wires[name] for name in names))
            boards = BoardsUnderWay(c, handle, built.place)
            if self._flash is not None:
                self._connect_flash(c, handle, self._flash)
                boards.hold(self._flash.contents)
            for level in levels:
                number = c.pins_level(handle, built.place[level.net], level.high)
                for window in level.windows:
                    c.pins_window(handle, number, *window)
            if count is not None:
                begin_count(c, handle, count)
                c.pins_watched(handle, sum(1 << run for run in watched))
            yield boards
            del keep
            if count is not None:
                end_count(c, handle, count)
        finally:
            c.gates_close(handle)

    def _connect_flash(self, c: ctypes.CDLL, handle: int, flash: FlashChip) -> None:
        place, parts = self.cells.program.place, self.cells.parts
        read = {pad.into for pad in flash.data}
        settling = [*(table.ins for table in parts.tables), *(part.address for part in parts.small)]
        settling += [(*product.a, *product.b) for product in parts.products]
        at_once = any(read & {*nets} for nets in settling)
        ways = [[place[pad.out] for pad in flash.data], [place[pad.off] for pad in flash.data]]
        into = [-1 if pad.into is None else pad.into for pad in flash.data]
        nets = np.array([place[flash.clock], place[flash.select_n], *ways[0], *ways[1], *into], dtype=np.int32)
        times = np.array(astuple(flash.times), dtype=np.int32)
        c.pins_flash(handle, nets.ctypes.data, at_once, flash.base, times.ctypes.data)
