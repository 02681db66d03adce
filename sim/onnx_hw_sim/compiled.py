"""Simulation of a run as native code, by Verilator; the cycle loop is C++ (``driver.cpp``), data are numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from onnx_hw_sim.circuit import RESET_CYCLES, Circuit, Recording, Stimulus
from onnx_hw_sim.native_library import I32, I64, POINTER, U32, U64, Signature
from onnx_hw_sim.native_simulator import NativeSimulator, RunStatus
from onnx_hw_sim.shared_library import CppToolchain, build_library
from onnx_hw_tools.tools import Tool

_NO_END = 2**62  # cycles
CYCLES_PER_CALL = 50_000  # cycles between two checks for Ctrl-C


class SimulationError(Exception):
    """Failure of the simulation itself, such as by a combinational loop in the netlist; a fault of the circuit."""


class CompiledSimulator(NativeSimulator):
    """Simulator whose runs are independent, one at a time in a thread."""

    at_once = 1
    PREFIX = "simulation"
    SIGNATURES: ClassVar[Mapping[str, Signature]] = {
        "open": (POINTER, [ctypes.c_char_p]),
        "close": (None, [POINTER]),
        "source": (None, [POINTER, U32, I64, POINTER, POINTER]),
        "sink": (None, [POINTER, U32, I64, I64, I64, POINTER]),
        "window": (None, [POINTER, U64, U64]),
        "reset": (I32, [POINTER, I64, I64]),
        "advance": (I32, [POINTER, I64, I64, I64, I64]),
        "forget": (None, [POINTER]),
        "error": (ctypes.c_char_p, [POINTER]),
        "cycle": (I64, [POINTER]),
        "state": (ctypes.c_uint8, [POINTER, U32]),
        "port_bytes": (U32, [POINTER, U32]),
        "fire_bytes": (U32, [POINTER]),
        "transfers": (I64, [POINTER, U32]),
        "cycles_of": (POINTER, [POINTER, U32]),
        "payload": (POINTER, [POINTER, U32]),
        "fires": (POINTER, [POINTER]),
    }

    def __init__(self, circuit: Circuit, library: Path, *, traced: bool = False):
        super().__init__(circuit, library)
        self.traced = traced

    def __reduce__(self) -> tuple[type[CompiledSimulator], tuple[Circuit, Path], dict[str, bool]]:
        """Pickle for processes of this machine; the text of the circuit stays here."""
        return CompiledSimulator, (replace(self.circuit, rtlil=""), self.library), {"traced": self.traced}

    @classmethod
    def build(
        cls,
        circuit: Circuit,
        folder: Path,
        *,
        traced: bool = False,
        jobs: int | None = None,
        toolchain: CppToolchain | None = None,
        on_first_run: Callable[[Tool], None] | None = None,
    ) -> CompiledSimulator:
        """Compile ``circuit`` under ``folder``, or take the library of an equal circuit there.

        Args:
            traced: whether the library can write waveforms, see ``waves``.
            jobs: number of compilers at a time; None for one per processor.
            toolchain: the tools; None to search for them.
            on_first_run: see ``tools.run``.

        Raises:
            ToolMissing: yosys, Verilator or a C++ compiler is not installed.
            ToolFailed: one of them failed.
        """
        library = build_library(
            circuit, folder.resolve(), traced=traced, jobs=jobs, toolchain=toolchain, on_first_run=on_first_run
        )
        return cls(circuit, library, traced=traced)

    def run(
        self,
        stimulus: Stimulus,
        *,
        progress: Callable[[int], None] | None = None,
        wave: Path | None = None,
        window: tuple[int, int] = (0, _NO_END),
    ) -> Recording:
        """Simulate from reset.

        Args:
            progress: called now and then with the number of simulated cycles.
            wave: VCD file to write; needs a library built with ``traced``, see ``waves``.
            window: first cycle of the waveform, and the first one after it, at which the run stops, too.

        Raises:
            ValueError: the stimulus does not fit the circuit.
            SimulationError: the circuit cannot be simulated.
        """
        if wave is not None:
            if not self.traced:
                raise ValueError("this library was compiled without waveforms; it must be built with `traced`")
            wave.open("w").close()  # Verilator would not report a file that it cannot write
            stimulus = replace(stimulus, cycles=min(stimulus.cycles, window[1]))
        with self._begun(stimulus, str(wave).encode() if wave else None, window) as windows:
            while windows.advance(CYCLES_PER_CALL):
                if progress is not None:
                    progress(windows.cycle)
            if progress is not None:
                progress(windows.cycle)
            return windows.recording(0)

    def run_together(self, stimuli: Sequence[Stimulus]) -> list[Recording]:
        """Simulate runs, one after the other; see ``run``."""
        return [self.run(stimulus) for stimulus in stimuli]

    @contextmanager
    def windows(self, stimuli: Sequence[Stimulus]) -> Iterator[CompiledWindows]:
        """Begin one run from reset that is recorded in windows of cycles; raise as ``run``, there or later."""
        (stimulus,) = stimuli
        with self._begun(stimulus) as windows:
            yield windows

    @contextmanager
    def _begun(
        self, stimulus: Stimulus, wave: bytes | None = None, window: tuple[int, int] = (0, _NO_END)
    ) -> Iterator[CompiledWindows]:
        stimulus.check(self.circuit)
        handle = self._c.simulation_open(wave)
        try:
            self._c.simulation_window(handle, *window)
            keep = self._connect(handle, stimulus=stimulus)
            self._reset(handle)
            if stimulus.false_start:
                self._advance(handle, stimulus.false_start, stimulus.false_start, _NO_END, _NO_END)
                self._reset(handle)
            yield CompiledWindows(self, handle, stimulus)
            del keep
        finally:
            self._c.simulation_close(handle)

    def _reset(self, handle: int) -> None:
        if self._c.simulation_reset(handle, RESET_CYCLES, self.circuit.reset_delay) == RunStatus.BROKEN:
            raise SimulationError(self._c.simulation_error(handle).decode())

    def _advance(self, handle: int, until: int, limit: int, patience: int, tail: int) -> RunStatus:
        status = RunStatus(self._c.simulation_advance(handle, until, limit, patience, tail))
        if status == RunStatus.BROKEN:
            cycle = self._c.simulation_cycle(handle)
            raise SimulationError(f"cycle {cycle}: {self._c.simulation_error(handle).decode()}")
        return status

    def _port_bytes(self, handle: int, port: int) -> int:
        return int(self._c.simulation_port_bytes(handle, port))

    def _fire_bytes(self, handle: int) -> int:
        return int(self._c.simulation_fire_bytes(handle))

    def _window(self, handle: int, status: RunStatus, since: int) -> Recording:
        """Return what was recorded from a cycle on, and forget it."""
        recording = self._recording(handle, status=status, since=since)
        self._c.simulation_forget(handle)
        return recording


class CompiledWindows:
    """Run that is under way; see ``circuit.Windows``."""

    def __init__(self, simulator: CompiledSimulator, handle: int, stimulus: Stimulus) -> None:
        self._simulator, self._handle, self._stimulus = simulator, handle, stimulus
        self._limit, self._status = stimulus.cycles, RunStatus.GO_ON
        self.cycle = self._since = 0

    def limit(self, run: int, cycles: int) -> None:
        """End the run, number 0, at another cycle than its stimulus says."""
        del run
        self._limit = cycles

    def advance(self, cycles: int) -> bool:
        """Simulate some cycles; return whether the run goes on."""
        until, stimulus = self.cycle + cycles, self._stimulus
        while self._status == RunStatus.GO_ON and self.cycle < until:
            stop = min(until, self.cycle + CYCLES_PER_CALL)
            self._status = self._simulator._advance(self._handle, stop, self._limit, stimulus.patience, stimulus.tail)
            self.cycle = self._simulator._c.simulation_cycle(self._handle)
        return self._status == RunStatus.GO_ON

    def recording(self, run: int) -> Recording:
        """Return what was recorded of the run, number 0, since the last call, and forget it."""
        del run
        recording = self._simulator._window(self._handle, self._status, self._since)
        self._since = recording.cycles
        return recording
