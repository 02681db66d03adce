"""Comparison of one run (link 3), window by window: every value on every edge, and every firing.

A large frame has hundreds of millions of events, which are never all in memory: what the circuit did in some cycles is
compared with golden and with the prediction, and dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.ir.design import Design, Edge
from onnx_hw.ops.schedule import Schedule
from onnx_hw.ops.tape import DEAL, FLASH, SDRAM
from onnx_hw.timing.prediction import BlockedEngine

if TYPE_CHECKING:
    from onnx_hw.assemble.elaborate import CircuitNames
    from onnx_hw.ops.affine_ranges import AffineSequence
    from onnx_hw_sim.circuit import Recording

Name = tuple[str, str]


@dataclass(frozen=True)
class Difference:
    """First wrong value or firing of a run, in the words of the model."""

    what: str
    cycle: int

    def __str__(self) -> str:
        return f"{self.what}, cycle {self.cycle}"


@dataclass(frozen=True)
class Run:
    """Result of one simulation and its comparison.

    Attributes:
        stall: name of the stall pattern.
        cycles: number of simulated cycles.
        edges_compared: number of compared streams, inputs and outputs included.
        values_compared, mismatches: numbers of integers on all edges.
        firings_compared, firing_mismatches: operations of all engines, and tokens that leave.
        difference: the first difference; None without one.
        interval_cycles, latency_cycles: simulated cycles, of the slowest output; None if it did not finish.
        max_fill: per edge, the most tokens fired and not yet popped.
        outputs: per output tensor, (frames, height, width, channels) integers that left the circuit.
        deadlock: description of what waits for what; empty without a deadlock.
    """

    stall: str
    cycles: int
    edges_compared: int
    values_compared: int
    mismatches: int
    firings_compared: int
    firing_mismatches: int
    difference: Difference | None
    interval_cycles: int | None
    latency_cycles: int | None
    max_fill: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    deadlock: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return self.mismatches == 0 and self.firing_mismatches == 0 and not self.deadlock


class RunComparison:
    """Comparison under way.

    Args:
        design: the design.
        names: names of its streams and engines in the circuit.
        beats: tokens of each edge, by tensor, those of all frames end to end; of edges that sources do not feed perhaps
            those of one frame more.
        frames: number of frames.
        first_frame: number of the first one, for messages.
    """

    def __init__(
        self, design: Design, names: CircuitNames, beats: Mapping[str, np.ndarray], frames: int, first_frame: int = 0
    ) -> None:
        self._design, self._names, self._frames = design, names, frames
        edges = {edge.tensor: edge for edge in design.edges()}
        self._values = {
            tensor: _EdgeComparison(edge, beats[tensor], frames * edge.beats, first_frame * edge.beats)
            for tensor, edge in edges.items()
        }
        schedules = design.schedules()
        self._fills = {
            tensor: _Fill(schedules[edge.producer[0]], edge) for tensor, edge in edges.items() if edge.producer
        }
        self._outputs = {edge.tensor: _Collected(edge, frames) for edge in edges.values() if edge.consumer is None}
        self._firings: dict[Name, _FiringComparison] = {}
        self._fires = False  # an engine that knows only pins names no engine of the circuit

    def add(self, window: Recording, events: Mapping[Name, np.ndarray]) -> None:
        """Compare what was recorded in a window, the one that follows those before.

        Args:
            window: tokens and firings of some cycles; ``cycles`` is the number of all cycles so far.
            events: the predicted events that were not given yet, up to the window's end or further.
        """
        self._fires |= bool(window.fires)
        for tensor, comparison in list(self._values.items()):
            wire = self._names.edges[tensor]
            if wire not in window.tokens:
                del self._values[tensor]  # an engine that knows only pins records no other stream
                continue
            comparison.add(window.tokens[wire], window.cycles_of[wire])
            if tensor in self._fills and window.fires:
                self._fills[tensor].add(window.fires, window.cycles_of[wire], self._names)
            if tensor in self._outputs:
                self._outputs[tensor].add(window.tokens[wire], window.cycles_of[wire])
        for name, expected in events.items():
            first, second = name
            if first == "sink":
                what, seen = f"{second}, token", window.cycles_of[self._names.edges[second]]
            elif name in self._names.engines:
                what, seen = f"{first}.{second}, operation", window.fires[self._names.engines[name]]
            else:
                continue
            if name not in self._firings:
                self._firings[name] = _FiringComparison(what)
            self._firings[name].add(expected, seen, window.cycles)

    def result(self, stall: str, last: Recording, circle: Sequence[BlockedEngine]) -> Run:
        """Return the result, once everything was added.

        Args:
            stall: name of the stall.
            last: the last recording.
            circle: predicted waits that hold each other up.
        """
        for firing in self._firings.values():
            firing.end(last.cycles)
        differences = [edge.difference for edge in self._values.values()]
        differences += [firing.difference for firing in self._firings.values()]
        first = min((d for d in differences if d is not None), key=lambda d: d.cycle, default=None)
        finished = all(output.finished for output in self._outputs.values())
        ends = [output.ends for output in self._outputs.values()]
        return Run(
            stall,
            last.cycles,
            len(self._values),
            sum(edge.compared for edge in self._values.values()),
            sum(edge.wrong for edge in self._values.values()),
            sum(firing.compared for firing in self._firings.values()),
            sum(firing.wrong for firing in self._firings.values()),
            first,
            interval_cycles=max(end[-1] - end[-2] for end in ends) if finished and self._frames > 1 else None,
            latency_cycles=max(end[0] + 1 for end in ends) if finished else None,
            max_fill={tensor: fill.most for tensor, fill in self._fills.items() if self._fires},
            outputs={tensor: output.frames() for tensor, output in self._outputs.items()},
            deadlock=() if finished else diagnose(self._design, self._names, last, circle),
        )


class _EdgeComparison:
    """Tokens of one edge, without places beyond the tensor.

    Tokens of the frame that never comes depend on padding and on kept states alone. Without states they equal the first
    ones of any frame; with them, golden gives one frame more. Whether they may be there is a question for the firings.
    """

    def __init__(self, edge: Edge, beats: np.ndarray, whole: int, before: int) -> None:
        self._edge, self._beats, self._whole, self._before = edge, beats, whole, before
        self._endless = edge.producer is not None and edge.producer[0] in (DEAL, FLASH, SDRAM)  # it never ends
        self._seen = self.compared = self.wrong = 0
        self.difference: Difference | None = None

    def add(self, seen: np.ndarray, cycles: np.ndarray) -> None:
        edge, first, whole = self._edge, self._seen, self._whole
        count = len(seen) if self._endless else max(0, min(len(seen), whole + edge.beats - first))
        expected = self._beats[first : first + count]
        if first + count > len(self._beats):
            later = np.arange(max(first, len(self._beats)), first + count)
            expected = np.concatenate([expected, self._beats[later % whole]])
        used = edge.order.used(count, first)
        self.compared += int(np.count_nonzero(used))
        unequal = (seen[:count] != expected) & used
        self.wrong += int(np.count_nonzero(unequal)) + (len(seen) - count) * edge.width
        self._seen += len(seen)
        if self.difference is not None:
            return
        if unequal.any():
            token, lane = map(int, np.argwhere(unequal)[0])
            where = _element_name(edge, first + token + self._before, lane)
            what = f"{where}: golden {expected[token, lane]}, circuit {seen[token, lane]}"
            self.difference = Difference(what, int(cycles[token]))
        elif len(seen) > count:
            surplus = f"{edge.tensor}: a surplus token {seen[count].tolist()}"
            self.difference = Difference(surplus, int(cycles[count]))


def _element_name(edge: Edge, token: int, lane: int) -> str:
    """Return ``tensor[frame, row, column, channel]`` of a value on a stream."""
    return f"{edge.tensor}[{', '.join(map(str, edge.order.place(token, lane)))}]"


class _FiringComparison:
    """Firings of one engine, or tokens of one sink: the n-th predicted one against the n-th of the circuit."""

    def __init__(self, what: str) -> None:
        self._what, self._number = what, 0
        self._expected, self._seen = _Queue(), _Queue()
        self.compared = self.wrong = 0
        self.difference: Difference | None = None

    def add(self, expected: np.ndarray, seen: np.ndarray, cycles: int) -> None:
        """Compare what is predicted for the cycles so far, and keep the rest."""
        self._expected.put(expected)
        self._seen.put(seen)
        while count := min(self._expected.before(cycles), self._seen.before(cycles)):
            predicted, fired = self._expected.take(count), self._seen.take(count)
            unequal = np.flatnonzero(predicted != fired)
            self.compared += count
            self.wrong += len(unequal)
            if len(unequal):
                k = int(unequal[0])
                self._differ(self._number + k, int(predicted[k]), int(fired[k]))
            self._number += count

    def end(self, cycles: int) -> None:
        """Count what is left on one side when the run has ended."""
        expected, seen = self._expected.count(cycles), self._seen.count(cycles)
        self.compared += max(expected, seen)
        self.wrong += max(expected, seen)
        if expected:
            self._differ(self._number, int(self._expected.take(1)[0]), None)
        elif seen:
            self._differ(self._number, None, int(self._seen.take(1)[0]))

    def _differ(self, number: int, predicted: int | None, fired: int | None) -> None:
        if self.difference is None:
            texts = ["never" if cycle is None else f"cycle {cycle}" for cycle in (predicted, fired)]
            cycle = min(cycle for cycle in (predicted, fired) if cycle is not None)
            what = f"{self._what} {number}: predicted {texts[0]}, circuit {texts[1]}"
            self.difference = Difference(what, cycle)


class _Queue:
    """Cycles in ascending order, piece by piece."""

    def __init__(self) -> None:
        self._pieces: deque[np.ndarray] = deque()

    def put(self, cycles: np.ndarray) -> None:
        if len(cycles):
            self._pieces.append(cycles)

    def before(self, cycle: int) -> int:
        """Return how many of the first piece come before a cycle."""
        return int(np.searchsorted(self._pieces[0], cycle)) if self._pieces else 0

    def take(self, count: int) -> np.ndarray:
        """Return the first ones, which lie in the first piece."""
        piece = self._pieces.popleft()
        if count < len(piece):
            self._pieces.appendleft(piece[count:])
        return piece[:count]

    def count(self, cycle: int) -> int:
        """Return how many come before a cycle."""
        return sum(int(np.searchsorted(piece, cycle)) for piece in self._pieces)


class _Fill:
    """The most tokens of an edge that were fired and not yet popped."""

    def __init__(self, schedule: Schedule, edge: Edge) -> None:
        assert edge.producer is not None
        node, port = edge.producer
        engine = next(engine for engine in schedule.engines if port in engine.pushes)
        self._wire, self._engine, self._operations = edge.tensor, (node, engine.name), engine.operations
        pushes = engine.pushes[port]
        self._pushes = None if len(pushes) == engine.operations else pushes
        self._fired, self._pushed, self._popped, self.most = -engine.once, 0, 0, 0

    def add(self, fires: Mapping[str, np.ndarray], popped: np.ndarray, names: CircuitNames) -> None:
        fired = fires[names.engines[self._engine]]
        skipped = min(len(fired), max(0, -self._fired))  # what happens once pushes nothing
        number, pushed = self._fired + skipped, fired[skipped:]
        if self._pushes is not None:
            pushed = self._those_that_push(number, pushed, self._pushes)
        gone = self._popped + np.searchsorted(popped, pushed, side="left")  # popped before the cycle of the push
        fill = self._pushed + np.arange(1, len(pushed) + 1) - gone
        self.most = max(self.most, int(np.max(fill, initial=0)))
        self._fired, self._pushed, self._popped = (
            self._fired + len(fired),
            self._pushed + len(pushed),
            self._popped + len(popped),
        )

    def _those_that_push(self, number: int, fired: np.ndarray, pushes: AffineSequence) -> np.ndarray:
        """Return the cycles of operations that push, of consecutive ones of which the first has a number."""
        parts = [fired[:0]]
        while len(fired):
            first = number % self._operations
            count = min(len(fired), self._operations - first)  # up to the end of the frame
            parts.append(fired[pushes.between(first, first + count) - first])
            number, fired = number + count, fired[count:]
        return np.concatenate(parts)


class _Collected:
    """Tokens of an output, and the cycles in which its frames ended."""

    def __init__(self, edge: Edge, frames: int) -> None:
        self._edge, self._frames, self._tokens = edge, frames, list[np.ndarray]()
        self._count = 0
        self.ends: list[int] = []

    @property
    def finished(self) -> bool:
        return len(self.ends) == self._frames

    def add(self, tokens: np.ndarray, cycles: np.ndarray) -> None:
        while not self.finished:
            last = (len(self.ends) + 1) * self._edge.beats - 1 - self._count
            if last >= len(cycles):
                break
            self.ends.append(int(cycles[last]))
        self._count += len(tokens)
        self._tokens.append(tokens.astype(self._edge.type.narrow))

    def frames(self) -> np.ndarray:
        """Return the whole frames, (frames, height, width, channels)."""
        tokens = np.concatenate(self._tokens)
        return self._edge.order.from_beats(tokens[: len(tokens) // self._edge.beats * self._edge.beats])


def diagnose(
    design: Design, names: CircuitNames, recording: Recording, circle: Sequence[BlockedEngine]
) -> tuple[str, ...]:
    """Describe what waits for what at the end of a run that did not finish.

    Args:
        circle: predicted waits that hold each other up.
    """
    if circle:
        return tuple(str(wait) for wait in circle)
    lines = []
    for edge in design.edges():
        wire, consumer = names.edges[edge.tensor], edge.consumer[0] if edge.consumer else "the outside"
        if recording.valid.get(wire) and not recording.ready.get(wire):
            lines.append(f"{edge.tensor} is offered to {consumer}, not taken")
        elif recording.ready.get(wire) and not recording.valid.get(wire):
            lines.append(f"{consumer} waits for {edge.tensor}")
    return tuple(lines)
