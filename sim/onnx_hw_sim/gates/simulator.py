"""A netlist in 64 runs at once: every run is a stimulus of its own, from power-up, on memories full of rubbish."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw_sim.circuit import RESET_CYCLES, Stream
from onnx_hw_sim.gates.cell_models import Model
from onnx_hw_sim.gates.native_gates import RUNS, array_at, load, native_library
from onnx_hw_sim.gates.netlist import FlatNetlist
from onnx_hw_sim.gates.toggles import ModelledCells, ToggleCount, begin_count, end_count
from onnx_hw_sim.payload import idle, pack, unpack
from onnx_hw_sim.stalls import RepeatedTrace

SLICE = 256  # cycles between two looks at Ctrl-C


@dataclass(frozen=True)
class Start:
    """The beginning of a run.

    Attributes:
        false_start: cycles of streaming before a reset; None for a run without one, straight from power-up.
        pattern: number of the pattern of stalls.
        frames: number of the choice of tokens.
    """

    false_start: int | None
    pattern: int
    frames: int


@dataclass(frozen=True)
class Pattern:
    """The outside's timing: offers per source, readiness per sink, as in ``Stimulus``."""

    offers: Mapping[str, np.ndarray]
    ready: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class StreamPlan:
    """Tokens and timing of 64 runs.

    Attributes:
        tokens: (choices, tokens, lanes) integers by source; a run takes one of the choices.
        patterns: patterns that runs choose from.
        starts: start of each run.
        cycles: cycles of each run, from its cycle 0.
    """

    tokens: Mapping[str, np.ndarray]
    patterns: Sequence[Pattern]
    starts: Sequence[Start]
    cycles: int


@dataclass(frozen=True)
class Tokens:
    """Tokens that left by one sink in one run: (n,) cycles, (n, lanes) integers."""

    cycles: np.ndarray
    values: np.ndarray


class GateSimulator:
    """A netlist, ready to run.

    Args:
        models: models of the family's cells.
        sources, sinks: the streams on the netlist's ports.
        reset_cycles: cycles that pass between the end of a reset, or power-up, and a run's cycle 0.
    """

    def __init__(
        self,
        netlist: FlatNetlist,
        models: Mapping[str, Model],
        sources: Sequence[Stream],
        sinks: Sequence[Stream],
        reset_cycles: int,
    ) -> None:
        self.sources, self.sinks, self.reset_cycles = tuple(sources), tuple(sinks), reset_cycles
        self._ports = netlist.ports
        self.cells = ModelledCells(netlist, models)
        self.parts, self.program = self.cells.parts, self.cells.program

    def run(
        self,
        plan: StreamPlan,
        *,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
        count: ToggleCount | None = None,
    ) -> list[dict[str, Tokens]]:
        """Return the tokens that left by every sink, for each run.

        Args:
            seed: seed of the rubbish.
            count: toggles to count; its results are set.
            progress: called now and then with the cycles done and the cycles to do.

        Raises:
            ToolMissing, ToolFailed: the C++ compiler, which is needed once per machine.
        """
        c, built = native_library(), self.program
        handle = c.gates_open(built.nets, self._ports["rst"][0], seed)
        try:
            keep = load(c, handle, built)
            keep += self._connect(c, handle, plan)
            if count is not None:
                begin_count(c, handle, count)
            last = max(self._start(c, handle, start) for start in plan.starts)
            done, end = 0, last + plan.cycles
            while done < end:
                c.gates_step(handle, min(SLICE, end - done))
                done += SLICE
                if progress is not None:
                    progress(min(done, end), end)
            del keep
            if count is not None:
                end_count(c, handle, count)
            return [
                {sink.name: self._tokens(c, handle, k, sink, run, plan.cycles) for k, sink in enumerate(self.sinks)}
                for run in range(RUNS)
            ]
        finally:
            c.gates_close(handle)

    def _start(self, c: ctypes.CDLL, handle: int, start: Start) -> int:
        """Add a run to the simulation; return the cycle since power-up that is its cycle 0."""
        if start.false_start is None:
            c.gates_run(handle, 0, -1, -1, self.reset_cycles, start.pattern)
            return self.reset_cycles
        first = self.reset_cycles + start.false_start
        zero = first + RESET_CYCLES + self.reset_cycles
        c.gates_run(handle, self.reset_cycles, first, first + RESET_CYCLES, zero, start.pattern)
        return zero

    def _connect(self, c: ctypes.CDLL, handle: int, plan: StreamPlan) -> list[np.ndarray]:
        """Pass the plan to the library. The returned arrays must live as long as the run."""
        keep: list[np.ndarray] = []
        choices = np.array([start.frames for start in plan.starts], dtype=np.int32)
        for k, source in enumerate(self.sources):
            tokens = plan.tokens[source.name]
            rows = pack(tokens.reshape(-1, source.lanes), source.bits)
            rows = np.concatenate([rows, idle(source.lanes, source.bits)[None]])
            pins = self._pins(source)
            c.gates_source(
                handle,
                pins[0].ctypes.data,
                source.width,
                *pins[1:],
                tokens.shape[1],
                len(rows) - 1,
                rows.shape[1],
                rows.ctypes.data,
                choices.ctypes.data,
            )
            keep += [rows, choices, pins[0]]
            for pattern in plan.patterns:
                offers = np.ascontiguousarray(pattern.offers[source.name], dtype=np.int64)
                c.gates_offers(handle, k, offers.ctypes.data)
                keep.append(offers)
        for k, sink in enumerate(self.sinks):
            pins = self._pins(sink)
            c.gates_sink(handle, pins[0].ctypes.data, sink.width, *pins[1:])
            keep.append(pins[0])
            for pattern in plan.patterns:
                trace = RepeatedTrace(pattern.ready[sink.name])
                c.gates_ready(handle, k, trace.row.ctypes.data, trace.length, trace.mask)
                keep.append(trace.row)
        return keep

    def _pins(self, stream: Stream) -> tuple[np.ndarray, int, int]:
        payload, valid, ready = (self._ports[f"{stream.name}_{part}"] for part in ("payload", "valid", "ready"))
        place = self.program.place
        return np.array([place[net] for net in payload], dtype=np.int32), place[valid[0]], place[ready[0]]

    def _tokens(self, c: ctypes.CDLL, handle: int, k: int, sink: Stream, run: int, cycles: int) -> Tokens:
        count, width = c.gates_transfers(handle, k, run), -(-sink.width // 8)
        when = array_at(c.gates_cycles_of(handle, k, run), count * 8).view(np.int64)
        payload = array_at(c.gates_payload(handle, k, run), count * width).reshape(count, width)
        within = when < cycles
        return Tokens(when[within].copy(), unpack(payload[within], sink.lanes, sink.bits, sink.signed))
