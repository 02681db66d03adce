"""Base of the simulators that a C++ compiler makes: arrays into their libraries, and recordings out of them."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import numpy as np

from onnx_hw_sim.circuit import Circuit, Recording, Stimulus
from onnx_hw_sim.native_arrays import bytes_at, firings, rows_to_offer
from onnx_hw_sim.native_library import NativeLibrary
from onnx_hw_sim.payload import unpack
from onnx_hw_sim.shared_library import VERILOG
from onnx_hw_sim.stalls import RepeatedTrace


class RunStatus(IntEnum):
    """Result of a run, as in each ``driver.cpp``."""

    GO_ON = 0
    FINISHED = 1
    STUCK = 2
    OUT_OF_CYCLES = 3
    BROKEN = 4


class NativeSimulator(NativeLibrary):
    """Circuit compiled to a shared library; several threads may use it at once.

    A driver's functions take a handle, then a run, if the driver has several, then a port.
    """

    name = "compiled"

    def __init__(self, circuit: Circuit, library: Path):
        super().__init__(library)
        self.circuit = circuit
        self._streams = (*circuit.sources, *circuit.sinks, *circuit.probes)

    @property
    def verilog(self) -> str:
        """Verilog that yosys wrote of the circuit, module by module; the simulated circuit is the same, flattened."""
        return (self.library.parent / VERILOG).read_text(encoding="utf-8")

    def _port_bytes(self, handle: int, port: int) -> int:
        """Return the bytes of a beat in the library's arrays."""
        raise NotImplementedError

    def _fire_bytes(self, handle: int) -> int:
        """Return the bytes of a cycle's firings."""
        raise NotImplementedError

    def _connect(self, handle: int, *run: int, stimulus: Stimulus) -> list[np.ndarray]:
        """Pass a stimulus to the library. The returned arrays must live as long as the run."""
        keep = []
        for k, source in enumerate(self.circuit.sources):
            tokens = stimulus.tokens[source.name]
            rows = rows_to_offer(source, tokens, self._port_bytes(handle, k))
            offers = np.ascontiguousarray(stimulus.offers[source.name], dtype=np.int64)
            self._function("source")(handle, *run, k, len(tokens), rows.ctypes.data, offers.ctypes.data)
            keep += [rows, offers]
        for k, sink in enumerate(self.circuit.sinks):
            trace = RepeatedTrace(stimulus.ready[sink.name])
            length, mask, address = trace.length, trace.mask, trace.row.ctypes.data
            self._function("sink")(handle, *run, k, stimulus.expected[sink.name], length, mask, address)
            keep.append(trace.row)
        return keep

    def _recording(self, handle: int, *run: int, status: RunStatus, since: int = 0) -> Recording:
        """Return what was recorded, from cycle ``since`` on, in which nothing was forgotten."""
        cycles = self._function("cycle")(handle, *run)
        cycles_of, tokens, valid, ready = {}, {}, {}, {}
        for k, stream in enumerate(self._streams):
            count, width = self._function("transfers")(handle, *run, k), self._port_bytes(handle, k)
            when = bytes_at(self._function("cycles_of")(handle, *run, k), count * 8)
            payload = bytes_at(self._function("payload")(handle, *run, k), count * width).reshape(count, width)
            cycles_of[stream.name] = when.view(np.int64).copy()
            tokens[stream.name] = unpack(payload, stream.lanes, stream.bits, stream.signed)
            state = self._function("state")(handle, *run, k)
            valid[stream.name], ready[stream.name] = bool(state & 1), bool(state & 2)
        width = self._fire_bytes(handle)
        fires = bytes_at(self._function("fires")(handle, *run), (cycles - since) * width).reshape(cycles - since, width)
        return Recording(
            cycles=cycles,
            fires=firings(self.circuit.engines, fires, since),
            cycles_of=cycles_of,
            tokens=tokens,
            finished=status == RunStatus.FINISHED,
            deadlocked=status == RunStatus.STUCK,
            valid=valid,
            ready=ready,
        )
