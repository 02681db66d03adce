"""Fast engine: four runs of a circuit at once as native code, with numpy on both sides."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from onnx_hw_sim.circuit import RESET_CYCLES, Circuit, Recording, Stimulus
from onnx_hw_sim.lockstep.library import RUNS, build_lockstep, tables_of
from onnx_hw_sim.native_library import I32, I64, POINTER, U32, Signature
from onnx_hw_sim.native_simulator import NativeSimulator, RunStatus
from onnx_hw_tools.tools import Tool

CYCLES_PER_CALL = 20_000  # cycles between two checks for Ctrl-C


class LockstepSimulator(NativeSimulator):
    """Simulator of up to four runs at once, in each thread."""

    at_once = RUNS
    PREFIX = "lockstep"
    SIGNATURES: ClassVar[Mapping[str, Signature]] = {
        "open": (POINTER, [POINTER, I64, I64]),
        "close": (None, [POINTER]),
        "source": (None, [POINTER, U32, U32, I64, POINTER, POINTER]),
        "sink": (None, [POINTER, U32, U32, I64, I64, I64, POINTER]),
        "begin": (None, [POINTER, U32, I64, I64, I64, I64]),
        "limit": (None, [POINTER, U32, I64]),
        "forget": (None, [POINTER, U32]),
        "advance": (I32, [POINTER, I64]),
        "status": (I32, [POINTER, U32]),
        "cycle": (I64, [POINTER, U32]),
        "state": (ctypes.c_uint8, [POINTER, U32, U32]),
        "port_words": (U32, [POINTER, U32]),
        "fire_words": (U32, [POINTER]),
        "transfers": (I64, [POINTER, U32, U32]),
        "cycles_of": (POINTER, [POINTER, U32, U32]),
        "payload": (POINTER, [POINTER, U32, U32]),
        "fires": (POINTER, [POINTER, U32]),
    }

    def __init__(self, circuit: Circuit, library: Path):
        super().__init__(circuit, library)
        self._tables = tables_of(library)

    def __reduce__(self) -> tuple[type[LockstepSimulator], tuple[Circuit, Path]]:
        """Pickle for processes of this machine; the text of the circuit stays here."""
        return LockstepSimulator, (replace(self.circuit, rtlil=""), self.library)

    @classmethod
    def build(
        cls,
        circuit: Circuit,
        folder: Path,
        *,
        jobs: int | None = None,
        on_first_run: Callable[[Tool], None] | None = None,
    ) -> LockstepSimulator:
        """Compile ``circuit`` under ``folder``, unless an equal circuit is there; see ``build_lockstep``."""
        return cls(circuit, build_lockstep(circuit, folder.resolve(), jobs=jobs, on_first_run=on_first_run))

    def run(self, stimulus: Stimulus) -> Recording:
        """Simulate one run from reset; raise ``ValueError`` where the stimulus does not fit the circuit."""
        return self.run_together([stimulus])[0]

    def run_together(self, stimuli: Sequence[Stimulus]) -> list[Recording]:
        """Simulate at most ``RUNS`` runs in lockstep, each from reset. It takes as long as the longest run.

        Raises:
            ValueError: a stimulus does not fit the circuit, or there are too many.
        """
        with self.windows(stimuli) as windows:
            while windows.advance(CYCLES_PER_CALL):
                pass
            return [windows.recording(run) for run in range(len(stimuli))]

    @contextmanager
    def windows(self, stimuli: Sequence[Stimulus]) -> Iterator[LockstepWindows]:
        """Begin at most ``RUNS`` runs, each from reset, that are recorded in windows of cycles.

        Raises:
            ValueError: a stimulus does not fit the circuit, or there are too many.
        """
        if len(stimuli) > RUNS:
            raise ValueError(f"there must be at most {RUNS} runs at once, not {len(stimuli)}")
        for stimulus in stimuli:
            stimulus.check(self.circuit)
        handle = self._c.lockstep_open(self._tables.ctypes.data, RESET_CYCLES, self.circuit.reset_delay)
        if not handle:
            raise MemoryError
        try:
            keep = [self._begin(handle, k, stimulus) for k, stimulus in enumerate(stimuli)]
            yield LockstepWindows(self, handle, len(stimuli))
            del keep
        finally:
            self._c.lockstep_close(handle)

    def _begin(self, handle: int, run: int, stimulus: Stimulus) -> list[np.ndarray]:
        """Pass a stimulus to the library. The returned arrays must live as long as the run."""
        keep = self._connect(handle, run, stimulus=stimulus)
        plan = stimulus.cycles, stimulus.patience, stimulus.tail, stimulus.false_start
        self._c.lockstep_begin(handle, run, *plan)
        return keep

    def _port_bytes(self, handle: int, port: int) -> int:
        return 4 * int(self._c.lockstep_port_words(handle, port))

    def _fire_bytes(self, handle: int) -> int:
        return 4 * int(self._c.lockstep_fire_words(handle))

    def _window(self, handle: int, run: int, since: int) -> Recording:
        """Return what was recorded of a run from a cycle on, and forget it."""
        recording = self._recording(handle, run, status=RunStatus(self._c.lockstep_status(handle, run)), since=since)
        self._c.lockstep_forget(handle, run)
        return recording


class LockstepWindows:
    """Runs in lockstep that are under way; see ``circuit.Windows``."""

    def __init__(self, simulator: LockstepSimulator, handle: int, runs: int) -> None:
        self._simulator, self._handle, self._since = simulator, handle, [0] * runs

    def limit(self, run: int, cycles: int) -> None:
        """End a run at another cycle than its stimulus says."""
        self._simulator._c.lockstep_limit(self._handle, run, cycles)

    def advance(self, cycles: int) -> bool:
        """Simulate some cycles; return whether a run goes on.

        Raises:
            MemoryError: the recording takes too much.
        """
        more = self._simulator._c.lockstep_advance(self._handle, cycles)
        if more < 0:
            raise MemoryError
        return bool(more)

    def recording(self, run: int) -> Recording:
        """Return what was recorded of a run since the last call, and forget it."""
        recording = self._simulator._window(self._handle, run, self._since[run])
        self._since[run] = recording.cycles
        return recording
