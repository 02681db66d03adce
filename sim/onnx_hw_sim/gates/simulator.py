"""A netlist in 64 runs at once: every run is a stimulus of its own, from power-up, on memories full of rubbish."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from onnx_hw_sim.circuit import RESET_CYCLES, Stream
from onnx_hw_sim.gates.cell_models import CellLibrary, Model, Parts, not_modelled
from onnx_hw_sim.gates.netlist import FlatNetlist
from onnx_hw_sim.gates.program import GateProgram, program
from onnx_hw_sim.payload import idle, pack, unpack
from onnx_hw_tools import tools
from onnx_hw_tools.user_cache import exclusively, user_cache

RUNS = 64
HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-fvisibility=hidden", "-w"]
FLAGS += ["-fno-sanitize=undefined"]  # which ziglang switches on
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


@dataclass
class ToggleCount:
    """Count of toggles: changes of nets from one cycle to the next.

    The cycles are a sample: about one in ``gap``, in each run with one of the patterns.

    Attributes:
        groups: nets of the program by the name of their group, as ``GateSimulator.driven_nets`` returns them.
        pattern: number of the pattern of stalls whose runs are watched.
        window: cycles from a run's cycle 0 that are watched.
        gap: mean number of cycles from one compared pair to the next.
        toggles: result, by group, of all pairs.
        pairs: result, pairs of cycles that were compared, of all runs.
    """

    groups: Mapping[str, Sequence[int]]
    pattern: int
    window: int
    gap: int = 1
    toggles: dict[str, int] = field(default_factory=dict)
    pairs: int = 0


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
        self.parts, self._drivers = parts_of(netlist, models)
        self.program = program(self.parts, [net for name in netlist.inputs for net in netlist.ports[name]])

    def driven_nets(self, group_of: Callable[[str], str]) -> dict[str, list[int]]:
        """Return the nets that cells drive, by group; nets that the program replaces by others are left out.

        Args:
            group_of: returns the group of a cell, by its name.
        """
        groups: dict[str, list[int]] = {}
        for net, cell in self._drivers.items():
            if self.program.place[net] == net:
                groups.setdefault(group_of(cell), []).append(net)
        return groups

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
        c, built = _library(), self.program
        handle = c.gates_open(built.nets, self._ports["rst"][0], seed)
        try:
            keep = self._load(c, handle, built)
            keep += self._connect(c, handle, plan)
            if count is not None:
                _watch(c, handle, count)
            last = max(self._start(c, handle, start) for start in plan.starts)
            done, end = 0, last + plan.cycles
            while done < end:
                c.gates_step(handle, min(SLICE, end - done))
                done += SLICE
                if progress is not None:
                    progress(min(done, end), end)
            del keep
            if count is not None:
                toggles = np.zeros(len(count.groups), dtype=np.uint64)
                count.pairs = c.gates_watched(handle, toggles.ctypes.data)
                count.toggles = dict(zip(count.groups, map(int, toggles), strict=True))
            return [
                {sink.name: self._tokens(c, handle, k, sink, run, plan.cycles) for k, sink in enumerate(self.sinks)}
                for run in range(RUNS)
            ]
        finally:
            c.gates_close(handle)

    def _load(self, c: ctypes.CDLL, handle: int, built: GateProgram) -> list[np.ndarray]:
        keep = []
        for kind, rows in enumerate(built.rows):
            row = np.ascontiguousarray(rows)
            c.gates_rows(handle, kind, row.ctypes.data, len(row))
            keep.append(row)
        c.gates_functions(handle, built.functions.ctypes.data, len(built.functions))
        for words in built.contents:
            c.gates_contents(handle, words.ctypes.data)
        c.gates_power_up(handle)
        return keep

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
                trace = np.ascontiguousarray(pattern.ready[sink.name], dtype=np.uint8)
                c.gates_ready(handle, k, trace.ctypes.data, len(trace))
                keep.append(trace)
        return keep

    def _pins(self, stream: Stream) -> tuple[np.ndarray, int, int]:
        payload, valid, ready = (self._ports[f"{stream.name}_{part}"] for part in ("payload", "valid", "ready"))
        place = self.program.place
        return np.array([place[net] for net in payload], dtype=np.int32), place[valid[0]], place[ready[0]]

    def _tokens(self, c: ctypes.CDLL, handle: int, k: int, sink: Stream, run: int, cycles: int) -> Tokens:
        count, width = c.gates_transfers(handle, k, run), -(-sink.width // 8)
        when = _array(c.gates_cycles_of(handle, k, run), count * 8).view(np.int64)
        payload = _array(c.gates_payload(handle, k, run), count * width).reshape(count, width)
        within = when < cycles
        return Tokens(when[within].copy(), unpack(payload[within], sink.lanes, sink.bits, sink.signed))


def _watch(c: ctypes.CDLL, handle: int, count: ToggleCount) -> None:
    nets = np.array([net for nets in count.groups.values() for net in nets], dtype=np.int32)
    ends = np.cumsum([len(nets) for nets in count.groups.values()], dtype=np.int64)
    c.gates_watch(handle, nets.ctypes.data, ends.ctypes.data, len(ends), count.pattern, count.window, max(1, count.gap))


def parts_of(netlist: FlatNetlist, models: Mapping[str, Model]) -> tuple[Parts, dict[int, str]]:
    """Return the parts of all cells, and the cell that drives each net of the netlist, by its name."""
    parts = Parts(netlist.nets, netlist.ports["clk"][0])
    drivers: dict[int, str] = {}
    for cell in netlist.cells:
        model = models.get(cell.kind)
        if model is None:
            raise not_modelled(cell, "no model knows this kind of cell")
        first = _counts(parts)
        model(cell, parts)
        drivers |= {net: cell.name for net in _driven(parts, first) if net < netlist.nets}
    return parts, drivers


def _counts(parts: Parts) -> tuple[int, ...]:
    kinds: tuple[Sized, ...] = (parts.tables, parts.flip_flops, parts.products, parts.small, parts.blocks)
    return tuple(map(len, kinds))


def _driven(parts: Parts, first: Sequence[int]) -> Iterator[int]:
    """Yield the nets that parts drive, from those with the given numbers on."""
    tables, flip_flops, products, small, blocks = first
    yield from (part.out for part in parts.tables[tables:])
    yield from (part.out for part in parts.flip_flops[flip_flops:])
    ports = (port for block in parts.blocks[blocks:] for port in block.ports)
    words = [part.out for part in parts.products[products:]] + [part.out for part in parts.small[small:]]
    for word in (*words, *(port.out for port in ports)):
        yield from (net for net in word if net is not None)


def _array(address: int | None, size: int) -> np.ndarray:
    if not size or not address:
        return np.zeros(0, dtype=np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def fingerprint(library: CellLibrary) -> str:
    """Return the digest of all code that a result depends on: the simulator's, and that of the models of the cells."""
    state = hashlib.sha256()
    own = (file for file in sorted(HERE.glob("*")) if file.suffix in (".py", ".cpp", ".h"))
    for file in (*own, library.source):
        state.update(file.read_bytes())
    return state.hexdigest()


@cache
def _library() -> ctypes.CDLL:
    """Return the library, compiled once per computer and kept in the user's cache."""
    compiler = tools.find("c++")
    sources = [HERE / "interpreter.cpp", HERE / "bench.cpp"]
    state = hashlib.sha256(f"{compiler.version} {FLAGS} {_processor()}".encode())
    for file in (*sources, HERE / "interpreter.h"):
        state.update(file.read_bytes())
    folder = user_cache() / "gates" / state.hexdigest()[:20]
    library = folder / "gates.so"
    with exclusively(folder / "lock"):
        if not library.exists():
            fresh = folder / "gates.new.so"
            tools.run(compiler, [*FLAGS, *map(str, sources), "-o", str(fresh)], cwd=folder, log=folder / "compiler.log")
            os.replace(fresh, library)
    return _declared(ctypes.CDLL(str(library)))


def _processor() -> str:
    """Return the processor's features that the compiler uses; several computers may share a cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = [line for line in lines if line.startswith(("flags", "Features", "isa"))]
    return platform.machine() + (features[0] if features else platform.processor())


def _declared(c: ctypes.CDLL) -> ctypes.CDLL:
    """Return the library with the signatures of ``bench.cpp``."""
    pointer, i64, i32, u64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_uint64
    signatures = {
        "open": (pointer, [i64, i32, u64]),
        "close": (None, [pointer]),
        "rows": (None, [pointer, i32, pointer, i64]),
        "functions": (None, [pointer, pointer, i64]),
        "contents": (None, [pointer, pointer]),
        "power_up": (None, [pointer]),
        "run": (None, [pointer, i64, i64, i64, i64, i32]),
        "source": (None, [pointer, pointer, i64, i32, i32, i64, i64, i64, pointer, pointer]),
        "offers": (None, [pointer, i32, pointer]),
        "sink": (None, [pointer, pointer, i64, i32, i32]),
        "ready": (None, [pointer, i32, pointer, i64]),
        "watch": (None, [pointer, pointer, pointer, i64, i32, i64, i64]),
        "watched": (i64, [pointer, pointer]),
        "step": (None, [pointer, i64]),
        "transfers": (i64, [pointer, i32, i32]),
        "cycles_of": (pointer, [pointer, i32, i32]),
        "payload": (pointer, [pointer, i32, i32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(c, f"gates_{name}")
        function.restype, function.argtypes = result, arguments
    return c
