"""A whole board in 64 runs at once, through its pins: bits of a serial line or of SPI in and out, from power-up."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

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
        quiet: whether only what changes is computed while that is little; the results are the same.
    """

    def __init__(
        self, cells: ModelledCells, wires: Mapping[str, int], bit_cycles: Fraction, *, quiet: bool = True
    ) -> None:
        self.cells, self.bit_cycles, self._quiet = cells, bit_cycles, quiet
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
            for level in levels:
                number = c.pins_level(handle, built.place[level.net], level.high)
                for window in level.windows:
                    c.pins_window(handle, number, *window)
            if count is not None:
                begin_count(c, handle, count)
                c.pins_watched(handle, sum(1 << run for run in watched))
            yield BoardsUnderWay(c, handle, built.place)
            del keep
            if count is not None:
                end_count(c, handle, count)
        finally:
            c.gates_close(handle)
