"""Bench of link 4: the streams of 64 runs of a chip's netlist, and their expected outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import CircuitNames, edge_names
from onnx_hw.ir.design import Design, Edge
from onnx_hw.prove.circuit.check_run import stimulus_of
from onnx_hw.prove.circuit.prove import beats_of, beats_of_sequence
from onnx_hw.prove.circuit.stalls import SEED, full_rate, random_stall
from onnx_hw.timing.event_windows import token_cycles

if TYPE_CHECKING:
    from onnx_hw_sim.circuit import Stream
    from onnx_hw_sim.gates.simulator import Start, StreamPlan, Tokens

SLACK = 64
"""Number of cycles beyond the predicted end, in which nothing may happen that is not predicted."""


@dataclass(frozen=True)
class NetlistDifference:
    """First wrong value or cycle at the outputs of the chip.

    Attributes:
        what: which output, frame and element, and both values; or which token, and both cycles.
        cycle: of the run, counted from its first one out of reset.
        run: how it began and how it was stalled.
    """

    what: str
    cycle: int
    run: str

    def __str__(self) -> str:
        return f"{self.what}, cycle {self.cycle} ({self.run})"


@dataclass(frozen=True)
class GateLevelComparison:
    """Comparison of the outputs of all runs: compared values and tokens, and how many are wrong."""

    values: int
    tokens: int
    wrong: int
    difference: NetlistDifference | None


def streams_of(design: Design) -> tuple[list[Stream], list[Stream]]:
    """Return the input streams and the output streams of a design."""
    from onnx_hw_sim.circuit import Stream

    names = edge_names(design)

    def stream(edge: Edge) -> Stream:
        return Stream(names[edge.tensor], edge.width, edge.type.dtype.bits, edge.type.dtype.signed)

    edges = design.edges()
    return [stream(e) for e in edges if e.producer is None], [stream(e) for e in edges if e.consumer is None]


class GateLevelBench:
    """Streams of all runs, and their expected outputs.

    Args:
        integers: by input tensor, (frames, height, width, channels); run after run takes the next
            ``per_run`` of them, and the first ones again.
        whose: what is simulated, for sentences: the netlist, or the bitstream.
    """

    FULL_RATE = 0
    """Number of the pattern without stalls."""

    def __init__(
        self, design: Design, integers: Mapping[str, np.ndarray], per_run: int, *, whose: str = "netlist"
    ) -> None:
        from onnx_hw_sim.gates.native_gates import RUNS
        from onnx_hw_sim.gates.simulator import Start

        self.design, self.per_run, self.whose = design, per_run, whose
        self.names = CircuitNames(edge_names(design), {})
        self.edges = design.edges()
        self.outputs = [edge for edge in self.edges if edge.consumer is None]
        there = len(next(iter(integers.values())))
        choices = min(RUNS, -(-there // per_run))
        picked = np.arange(choices * per_run) % there
        ends = {edge.tensor: edge for edge in self.edges if edge.producer is None or edge.consumer is None}
        chunks = [picked[c * per_run : (c + 1) * per_run] for c in range(choices)]
        if design.network.keepers:  # every run is a sequence of its own
            self.beats = [
                beats_of_sequence(design, {name: array[chunk] for name, array in integers.items()}, ends)
                for chunk in chunks
            ]
        else:
            beats = {
                tensor: rows.reshape(there, ends[tensor].beats, -1)
                for tensor, rows in beats_of(design, integers, ends).items()
            }
            self.beats = [{tensor: np.concatenate(rows[chunk]) for tensor, rows in beats.items()} for chunk in chunks]
        self.stalls = [
            full_rate(design, per_run),
            random_stall(design, per_run, "random"),
            random_stall(design, per_run, "bursts"),
        ]
        self.due = [token_cycles(design, per_run + 1, stall.offers, stall.ready) for stall in self.stalls]
        self.cycles = max(int(cycles[-1]) for due in self.due for cycles in due.values() if len(cycles)) + SLACK
        resets = np.random.PCG64(SEED).random_raw(RUNS) % np.uint64(max(2, design.interval)) + np.uint64(1)
        self.starts = [
            Start(int(resets[k]) if k % 2 else None, k // 2 % len(self.stalls), k % choices) for k in range(RUNS)
        ]

    @property
    def full_rate_cycles(self) -> int:
        """Cycles of a run without stalls, from its cycle 0 to its last output."""
        due = self.due[self.FULL_RATE].values()
        return max((int(cycles[-1]) for cycles in due if len(cycles)), default=0) + 1

    @property
    def frames(self) -> int:
        return self.per_run * len(self.starts)

    def plan(self) -> StreamPlan:
        from onnx_hw_sim.gates.simulator import Pattern, StreamPlan

        each = [stimulus_of(self.design, self.names, beats, self.stalls[0], self.cycles) for beats in self.beats]
        patterns = [stimulus_of(self.design, self.names, self.beats[0], stall, self.cycles) for stall in self.stalls]
        return StreamPlan(
            {name: np.stack([stimulus.tokens[name] for stimulus in each]) for name in each[0].tokens},
            [Pattern(stimulus.offers, stimulus.ready) for stimulus in patterns],
            self.starts,
            self.cycles,
        )

    def compare(self, seen: Sequence[Mapping[str, Tokens]]) -> GateLevelComparison:
        """Compare all outputs, run by run."""
        values = tokens = wrong = 0
        first: NetlistDifference | None = None
        for start, run in zip(self.starts, seen, strict=True):
            for edge in self.outputs:
                difference, compared = self._compare(edge, start, run[self.names.edges[edge.tensor]])
                values, tokens, wrong = values + compared[0], tokens + compared[1], wrong + compared[2]
                if difference is not None and (first is None or difference.cycle < first.cycle):
                    first = difference
        return GateLevelComparison(values, tokens, wrong, first)

    def _compare(self, edge: Edge, start: Start, seen: Tokens) -> tuple[NetlistDifference | None, tuple[int, int, int]]:
        """Compare one output; return its first difference, and (values, tokens) compared, and those that are wrong."""
        beats = self.beats[start.frames][edge.tensor]
        if len(beats) == self.per_run * edge.beats:
            # Of the frame that never comes, padding alone may leave: what any frame begins with.
            beats = np.concatenate([beats, beats[: edge.beats]])
        due = self.due[start.pattern][edge.tensor]
        due = due[due < self.cycles]
        count = min(len(seen.cycles), len(due), len(beats))
        late = np.flatnonzero(seen.cycles[:count] != due[:count])
        used = edge.order.used(count)
        unequal = (seen.values[:count] != beats[:count]) & used
        differences = []
        if unequal.any():
            token, lane = map(int, np.argwhere(unequal)[0])
            place = ", ".join(map(str, edge.order.place(token, lane)))
            what = f"{edge.tensor}[{place}]: golden {beats[token, lane]}, {self.whose} {seen.values[token, lane]}"
            differences.append((int(seen.cycles[token]), what))
        if len(late) or len(seen.cycles) != len(due):
            k = int(late[0]) if len(late) else count
            cycles = [f"cycle {int(times[k])}" if k < len(times) else "never" for times in (due, seen.cycles)]
            place = ", ".join(map(str, edge.order.place(k, 0)))
            what = f"{edge.tensor}[{place}], token {k}: predicted {cycles[0]}, {self.whose} {cycles[1]}"
            differences.append((min(int(times[k]) for times in (due, seen.cycles) if k < len(times)), what))
        wrong = int(unequal.sum()) + len(late) + abs(len(seen.cycles) - len(due))
        difference = None
        if differences:
            cycle, what = min(differences)
            difference = NetlistDifference(what, cycle, self._describe(start))
        return difference, (int(used.sum()), max(len(seen.cycles), len(due)), wrong)

    def _describe(self, start: Start) -> str:
        begins = "no reset" if start.false_start is None else f"reset after {start.false_start} cycles"
        return f"{begins}, stalls: {self.stalls[start.pattern].name}"
