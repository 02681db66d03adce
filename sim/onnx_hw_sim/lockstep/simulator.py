"""Fast engine: four runs of a circuit at once as native code, with numpy on both sides."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from pathlib import Path

import numpy as np

from onnx_hw_sim.circuit import RESET_CYCLES, Circuit, Recording, Stimulus, Stream
from onnx_hw_sim.lockstep.library import RUNS, build_lockstep, tables_of
from onnx_hw_sim.native_arrays import bytes_at, firings, rows_to_offer
from onnx_hw_sim.payload import unpack
from onnx_hw_sim.shared_library import VERILOG
from onnx_hw_tools.tools import Tool

CYCLES_PER_CALL = 20_000  # cycles between two checks for Ctrl-C


class _Status(IntEnum):
    """Result of a run, as in ``driver.cpp``."""

    GO_ON = 0
    FINISHED = 1
    STUCK = 2
    OUT_OF_CYCLES = 3


class LockstepSimulator:
    """Circuit compiled to a shared library. Several threads may use it at once, each for up to four runs."""

    name = "compiled"
    at_once = RUNS

    def __init__(self, circuit: Circuit, library: Path):
        self.circuit = circuit
        self.library = library
        self._streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self._tables = tables_of(library)
        self._c = _declare(ctypes.CDLL(str(library)))

    def __reduce__(self) -> tuple[type[LockstepSimulator], tuple[Circuit, Path]]:
        """Pickle for processes of this machine; the text of the circuit stays here."""
        return LockstepSimulator, (replace(self.circuit, rtlil=""), self.library)

    @property
    def verilog(self) -> str:
        """Verilog that yosys wrote of the circuit, module by module; the simulated cells are the same, flattened."""
        return (self.library.parent / VERILOG).read_text(encoding="utf-8")

    @classmethod
    def build(
        cls,
        circuit: Circuit,
        folder: Path,
        *,
        jobs: int | None = None,
        on_first_run: Callable[[Tool], None] | None = None,
    ) -> LockstepSimulator:
        """Compile ``circuit`` under ``folder``, or take the library of an equal circuit there.

        Args:
            jobs: number of compilers at a time; None for one per processor.
            on_first_run: see ``tools.run``.

        Raises:
            UnsupportedCircuit: a cell of the circuit is not known here.
            ToolMissing: yosys or a C++ compiler is not installed.
            ToolFailed: one of them failed.
        """
        return cls(circuit, build_lockstep(circuit, folder.resolve(), jobs=jobs, on_first_run=on_first_run))

    def run(self, stimulus: Stimulus) -> Recording:
        """Simulate one run from reset.

        Raises:
            ValueError: the stimulus does not fit the circuit.
        """
        return self.run_together([stimulus])[0]

    def run_together(self, stimuli: Sequence[Stimulus]) -> list[Recording]:
        """Simulate at most ``RUNS`` runs in lockstep, each from reset. It takes as long as the longest run.

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
            keep = [self._connect(handle, k, stimulus) for k, stimulus in enumerate(stimuli)]
            while (more := self._c.lockstep_advance(handle, CYCLES_PER_CALL)) > 0:
                pass
            del keep
            if more < 0:
                raise MemoryError
            return [self._recording(handle, k) for k in range(len(stimuli))]
        finally:
            self._c.lockstep_close(handle)

    def _connect(self, handle: int, run: int, stimulus: Stimulus) -> list[np.ndarray]:
        """Pass a stimulus to the library. The returned arrays must live as long as the run."""
        keep = []
        for k, source in enumerate(self.circuit.sources):
            tokens = stimulus.tokens[source.name]
            rows = rows_to_offer(source, tokens, 4 * self._c.lockstep_port_words(handle, k))
            offers = np.ascontiguousarray(stimulus.offers[source.name], dtype=np.int64)
            self._c.lockstep_source(handle, run, k, len(tokens), rows.ctypes.data, offers.ctypes.data)
            keep += [rows, offers]
        for k, sink in enumerate(self.circuit.sinks):
            trace = np.ascontiguousarray(stimulus.ready[sink.name], dtype=np.uint8)
            self._c.lockstep_sink(handle, run, k, stimulus.expected[sink.name], len(trace), trace.ctypes.data)
            keep.append(trace)
        plan = stimulus.cycles, stimulus.patience, stimulus.tail, stimulus.false_start
        self._c.lockstep_begin(handle, run, *plan)
        return keep

    def _recording(self, handle: int, run: int) -> Recording:
        cycles = self._c.lockstep_cycle(handle, run)
        status = _Status(self._c.lockstep_status(handle, run))
        cycles_of, tokens, valid, ready = {}, {}, {}, {}
        for k, stream in enumerate(self._streams):
            cycles_of[stream.name], tokens[stream.name] = self._transfers(handle, run, k, stream)
            state = self._c.lockstep_state(handle, run, k)
            valid[stream.name], ready[stream.name] = bool(state & 1), bool(state & 2)
        return Recording(
            cycles=cycles,
            fires=self._fires(handle, run, cycles),
            cycles_of=cycles_of,
            tokens=tokens,
            finished=status == _Status.FINISHED,
            deadlocked=status == _Status.STUCK,
            valid=valid,
            ready=ready,
        )

    def _transfers(self, handle: int, run: int, k: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
        count, width = self._c.lockstep_transfers(handle, run, k), 4 * self._c.lockstep_port_words(handle, k)
        cycles = bytes_at(self._c.lockstep_cycles_of(handle, run, k), count * 8).view(np.int64).copy()
        payload = bytes_at(self._c.lockstep_payload(handle, run, k), count * width).reshape(count, width)
        return cycles, unpack(payload, stream.lanes, stream.bits, stream.signed)

    def _fires(self, handle: int, run: int, cycles: int) -> dict[str, np.ndarray]:
        width = 4 * self._c.lockstep_fire_words(handle)
        rows = bytes_at(self._c.lockstep_fires(handle, run), cycles * width).reshape(cycles, width)
        return firings(self.circuit.engines, rows)


def _declare(c: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the signatures of ``driver.cpp``."""
    pointer, i64, u32, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int32
    signatures = {
        "open": (pointer, [pointer, i64, i64]),
        "close": (None, [pointer]),
        "source": (None, [pointer, u32, u32, i64, pointer, pointer]),
        "sink": (None, [pointer, u32, u32, i64, i64, pointer]),
        "begin": (None, [pointer, u32, i64, i64, i64, i64]),
        "advance": (i32, [pointer, i64]),
        "status": (i32, [pointer, u32]),
        "cycle": (i64, [pointer, u32]),
        "state": (ctypes.c_uint8, [pointer, u32, u32]),
        "port_words": (u32, [pointer, u32]),
        "fire_words": (u32, [pointer]),
        "transfers": (i64, [pointer, u32, u32]),
        "cycles_of": (pointer, [pointer, u32, u32]),
        "payload": (pointer, [pointer, u32, u32]),
        "fires": (pointer, [pointer, u32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(c, f"lockstep_{name}")
        function.restype, function.argtypes = result, arguments
    return c
