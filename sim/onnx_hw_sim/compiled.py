"""Simulation of a run as native code, by Verilator; the cycle loop is C++ (``driver.cpp``), data are numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from pathlib import Path

import numpy as np

from onnx_hw_sim.circuit import RESET_CYCLES, Circuit, Recording, Stimulus, Stream
from onnx_hw_sim.native_arrays import bytes_at, firings, rows_to_offer
from onnx_hw_sim.payload import unpack
from onnx_hw_sim.shared_library import VERILOG, CppToolchain, build_library
from onnx_hw_tools.tools import Tool

_NO_END = 2**62  # cycles
CYCLES_PER_CALL = 50_000  # cycles between two checks for Ctrl-C


class SimulationError(Exception):
    """Failure of the simulation itself, for example by a combinational loop in the netlist. It is a fault of the
    circuit.
    """


class _Status(IntEnum):
    """Result of a run, as in ``driver.cpp``."""

    GO_ON = 0
    FINISHED = 1
    STUCK = 2
    OUT_OF_CYCLES = 3
    BROKEN = 4


class CompiledSimulator:
    """Circuit compiled to a shared library. Runs are independent, and several threads may run at once."""

    name = "compiled"

    def __init__(self, circuit: Circuit, library: Path, *, traced: bool = False):
        self.circuit = circuit
        self.library = library
        self.traced = traced
        self._streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self._c = _declare(ctypes.CDLL(str(library)))

    def __reduce__(self) -> tuple[type[CompiledSimulator], tuple[Circuit, Path], dict[str, bool]]:
        """Pickle for processes of this machine; the text of the circuit stays here."""
        return CompiledSimulator, (replace(self.circuit, rtlil=""), self.library), {"traced": self.traced}

    @property
    def verilog(self) -> str:
        """Verilog that yosys wrote of the circuit, module by module; Verilator gets the same circuit, flattened."""
        return (self.library.parent / VERILOG).read_text(encoding="utf-8")

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
        stimulus.check(self.circuit)
        if wave is not None:
            if not self.traced:
                raise ValueError("this library was compiled without waveforms; it must be built with `traced`")
            wave.open("w").close()  # Verilator would not report a file that it cannot write
            stimulus = replace(stimulus, cycles=min(stimulus.cycles, window[1]))
        handle = self._c.simulation_open(str(wave).encode() if wave else None)
        try:
            self._c.simulation_window(handle, *window)
            keep = self._connect(handle, stimulus)
            self._reset(handle)
            if stimulus.false_start:
                self._advance(handle, stimulus.false_start, stimulus.false_start, _NO_END, _NO_END)
                self._reset(handle)
            status = _Status.GO_ON
            until = 0
            while status == _Status.GO_ON:
                until += CYCLES_PER_CALL
                status = self._advance(handle, until, stimulus.cycles, stimulus.patience, stimulus.tail)
                if progress is not None:
                    progress(self._c.simulation_cycle(handle))
            del keep
            return self._recording(handle, status)
        finally:
            self._c.simulation_close(handle)

    def _connect(self, handle: int, stimulus: Stimulus) -> list[np.ndarray]:
        """Pass the stimulus to the library. The returned arrays must live as long as the run."""
        keep = []
        for k, source in enumerate(self.circuit.sources):
            tokens = stimulus.tokens[source.name]
            rows = rows_to_offer(source, tokens, self._c.simulation_port_bytes(handle, k))
            offers = np.ascontiguousarray(stimulus.offers[source.name], dtype=np.int64)
            self._c.simulation_source(handle, k, len(tokens), rows.ctypes.data, offers.ctypes.data)
            keep += [rows, offers]
        for k, sink in enumerate(self.circuit.sinks):
            trace = np.ascontiguousarray(stimulus.ready[sink.name], dtype=np.uint8)
            self._c.simulation_sink(handle, k, stimulus.expected[sink.name], len(trace), trace.ctypes.data)
            keep.append(trace)
        return keep

    def _reset(self, handle: int) -> None:
        if self._c.simulation_reset(handle, RESET_CYCLES, self.circuit.reset_delay) == _Status.BROKEN:
            raise SimulationError(self._c.simulation_error(handle).decode())

    def _advance(self, handle: int, until: int, limit: int, patience: int, tail: int) -> _Status:
        status = _Status(self._c.simulation_advance(handle, until, limit, patience, tail))
        if status == _Status.BROKEN:
            cycle = self._c.simulation_cycle(handle)
            raise SimulationError(f"cycle {cycle}: {self._c.simulation_error(handle).decode()}")
        return status

    def _recording(self, handle: int, status: _Status) -> Recording:
        cycles = self._c.simulation_cycle(handle)
        cycles_of, tokens, valid, ready = {}, {}, {}, {}
        for k, stream in enumerate(self._streams):
            cycles_of[stream.name], tokens[stream.name] = self._transfers(handle, k, stream)
            state = self._c.simulation_state(handle, k)
            valid[stream.name], ready[stream.name] = bool(state & 1), bool(state & 2)
        return Recording(
            cycles=cycles,
            fires=self._fires(handle, cycles),
            cycles_of=cycles_of,
            tokens=tokens,
            finished=status == _Status.FINISHED,
            deadlocked=status == _Status.STUCK,
            valid=valid,
            ready=ready,
        )

    def _transfers(self, handle: int, k: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
        count, width = self._c.simulation_transfers(handle, k), self._c.simulation_port_bytes(handle, k)
        cycles = bytes_at(self._c.simulation_cycles_of(handle, k), count * 8).view(np.int64).copy()
        payload = bytes_at(self._c.simulation_payload(handle, k), count * width).reshape(count, width)
        return cycles, unpack(payload, stream.lanes, stream.bits, stream.signed)

    def _fires(self, handle: int, cycles: int) -> dict[str, np.ndarray]:
        width = self._c.simulation_fire_bytes(handle)
        rows = bytes_at(self._c.simulation_fires(handle), cycles * width).reshape(cycles, width)
        return firings(self.circuit.engines, rows)


def _declare(c: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the signatures of ``driver.cpp``."""
    pointer, i64, u64, u32, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32
    signatures = {
        "open": (pointer, [ctypes.c_char_p]),
        "close": (None, [pointer]),
        "source": (None, [pointer, u32, i64, pointer, pointer]),
        "sink": (None, [pointer, u32, i64, i64, pointer]),
        "window": (None, [pointer, u64, u64]),
        "reset": (i32, [pointer, i64, i64]),
        "advance": (i32, [pointer, i64, i64, i64, i64]),
        "error": (ctypes.c_char_p, [pointer]),
        "cycle": (i64, [pointer]),
        "state": (ctypes.c_uint8, [pointer, u32]),
        "port_bytes": (u32, [pointer, u32]),
        "fire_bytes": (u32, [pointer]),
        "transfers": (i64, [pointer, u32]),
        "cycles_of": (pointer, [pointer, u32]),
        "payload": (pointer, [pointer, u32]),
        "fires": (pointer, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(c, f"simulation_{name}")
        function.restype, function.argtypes = result, arguments
    return c
