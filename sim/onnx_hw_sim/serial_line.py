"""Simulation of a whole chip at a serial line, bit by bit, as native code: bytes in, bytes out."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from onnx_hw_sim.circuit import Circuit
from onnx_hw_sim.compiled import SimulationError
from onnx_hw_sim.native_library import I64, POINTER, NativeChip, Signature
from onnx_hw_sim.shared_library import BoundDriver, build_library
from onnx_hw_tools.tools import Tool

BREAK = 256
"""Code sent instead of a byte to the chip: the line is low for the duration of a byte."""

_MAX_BYTES = 1 << 16  # bytes from the chip in one run

_BINDING = """\
#include "Vtop.h"
#include "line.h"
struct Binding {
    VerilatedContext context;
    Vtop top{&context};
    Line line{[](void* self) { static_cast<Binding*>(self)->top.eval(); }, this,
        &top.clk, &top.rst, &top.rx, &top.tx, %s};
    ~Binding() { top.final(); }
};
const Line* line_open() { return &(new Binding)->line; }
void line_close(const Line* line) { delete static_cast<Binding*>(line->model); }
"""


@dataclass
class WireFaults:
    """Faults on a wire. They hit a share of the bytes: flip a bit, drop the byte, double it, or break the line.

    Attributes:
        share: share of all bytes that are hit.
        seed: seed of the random numbers.
        hit: number of bytes that were hit so far.
    """

    share: float
    seed: int = 0
    hit: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def on(self, data: bytes, broken: tuple[int, ...] = (0,)) -> list[int]:
        """Return some bytes after their way over the wire; ``broken`` replaces a byte during a break."""
        if not self.share:
            return list(data)
        out: list[int] = []
        for byte in data:
            if self._random.random() >= self.share:
                out.append(byte)
                continue
            self.hit += 1
            out += self._random.choice(((byte ^ 1 << self._random.randrange(8),), (), (byte, byte), broken))
        return out

    def flipped(self, data: bytes) -> bytes:
        """Return as many bytes after their way over wires with a clock, which loses none."""
        out = bytearray(data)
        for k in range(len(out) if self.share else 0):
            if self._random.random() < self.share:
                self.hit += 1
                out[k] ^= 1 << self._random.randrange(8)
        return bytes(out)


class SerialChip(NativeChip):
    """Chip with the module ``top`` and the ports ``clk``, ``rst``, ``rx`` and ``tx``.

    Args:
        rtlil: its netlist.
        divisor: clock cycles of a bit.
        folder: folder in which it is compiled, unless an equal chip was compiled there before.
        traced: whether it has a port ``comes`` as well; see ``onnx_hw_rtl.shells.uart_shell.TracedUartShell``.
        on_first_run: see ``tools.run``.

    Raises:
        ToolMissing, ToolFailed: as ``build_library``.
    """

    PREFIX = "line_simulation"
    SIGNATURES: ClassVar[Mapping[str, Signature]] = {
        "open": (POINTER, [I64]),
        "close": (None, [POINTER]),
        "cycle": (I64, [POINTER]),
        "came": (I64, [POINTER]),
        "comes": (ctypes.POINTER(I64), [POINTER]),
        "error": (ctypes.c_char_p, [POINTER]),
        "run": (I64, [POINTER, I64, POINTER, I64, POINTER, POINTER, I64]),
    }

    def __init__(
        self,
        rtlil: str,
        divisor: int,
        folder: Path,
        *,
        traced: bool = False,
        on_first_run: Callable[[Tool], None] | None = None,
    ) -> None:
        circuit = Circuit(rtlil, (), ())
        bound = BoundDriver(_BINDING % ("&top.comes" if traced else "nullptr"), "line.cpp", "line.h")
        library = build_library(circuit, folder.resolve(), bound=bound, on_first_run=on_first_run)
        self.divisor = divisor
        super().__init__(library, divisor)

    @property
    def comes(self) -> np.ndarray:
        """Cycles in which beats came to the network so far, (beats,) int64."""
        count = self._function("came")(self._handle)
        cycles = self._function("comes")(self._handle)
        return np.ctypeslib.as_array(cycles, (count,)).copy() if count else np.zeros(0, dtype=np.int64)

    def run(self, cycles: int, to: list[int]) -> tuple[int, bytes]:
        """Simulate some cycles while sending bytes.

        Returns:
            (number of bytes whose sending has begun, bytes that came from the chip).

        Raises:
            SimulationError: the circuit cannot be simulated.
        """
        words = np.array(to, dtype=np.uint16)
        came, sent = np.zeros(_MAX_BYTES, dtype=np.uint8), ctypes.c_int64()
        addresses = words.ctypes.data, len(words), ctypes.addressof(sent), came.ctypes.data
        count = self._function("run")(self._handle, cycles, *addresses, _MAX_BYTES)
        if count < 0:
            raise SimulationError(self._error)
        return sent.value, came[:count].tobytes()
