"""Check of one run (link 3): the circuit against golden on every edge, and against the timing on every firing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.ir.design import Design, Edge
from onnx_hw.prove.circuit.stalls import Stall
from onnx_hw.timing.prediction import Prediction, predict

if TYPE_CHECKING:
    from onnx_hw.assemble.elaborate import CircuitNames
    from onnx_hw_sim.circuit import Recording, Simulator, Stimulus


@dataclass(frozen=True)
class Difference:
    """First wrong value or firing of a run, in the words of the model."""

    what: str
    cycle: int

    def __str__(self) -> str:
        return f"{self.what}, cycle {self.cycle}"


@dataclass(frozen=True)
class Expected:
    """Expected firings of a run and one frame more, and tokens of each edge, by tensor."""

    prediction: Prediction
    beats: Mapping[str, np.ndarray]


def expect(
    design: Design, golden: Mapping[str, np.ndarray], stall: Stall, prediction: Prediction | None = None
) -> Expected:
    """Return what the circuit must do under a stall; arguments as in ``simulate_and_compare``.

    Args:
        prediction: prediction for this stall and one frame more; None to compute it.
    """
    if prediction is None:
        frames = len(next(iter(golden.values())))
        prediction = predict(design, frames + 1, offers=stall.offers, ready=stall.ready)
    return Expected(prediction, {edge.tensor: edge.order.to_beats(golden[edge.tensor]) for edge in design.edges()})


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


@dataclass(frozen=True)
class PlannedRun:
    """Planned run: what is streamed, how the outside stalls it, and what must come out.

    Attributes:
        golden: every tensor of the network, (frames, height, width, channels).
        first_frame: number of its first frame, for messages.
    """

    golden: Mapping[str, np.ndarray]
    stall: Stall
    expected: Expected
    first_frame: int = 0

    @property
    def frames(self) -> int:
        return len(next(iter(self.golden.values())))

    def stimulus(self, design: Design, names: CircuitNames, slack: int) -> Stimulus:
        """Return the stimulus; it is ``slack`` cycles longer than the prediction, and in these nothing may happen."""
        prediction = self.expected.prediction
        events = [*prediction.fires.values(), *prediction.sinks.values()]
        end = max((int(times[-1]) for times in events if len(times)), default=0) + slack
        return stimulus_of(design, names, self.golden, self.stall, end)


SLACK = 64
"""Cycles simulated beyond the predicted end."""


def simulate_and_compare(
    design: Design,
    simulator: Simulator,
    names: CircuitNames,
    golden: Mapping[str, np.ndarray],
    stall: Stall,
    *,
    slack: int = SLACK,
    patience: int = 5000,
    false_start: int = 0,
    first_frame: int = 0,
) -> Run:
    """Stream all frames through the circuit and compare every edge and every firing.

    Args:
        golden: every tensor of the network, (frames, height, width, channels).
        stall: behaviour of the outside.
        slack: cycles simulated beyond the predicted end, in which nothing may happen that is not predicted.
        patience: quiet cycles after which the simulator gives up.
        false_start: cycles before a reset in mid-frame, which must leave no trace.
        first_frame: number of the first frame, for messages.
    """
    plan = PlannedRun(golden, stall, expect(design, golden, stall), first_frame)
    stimulus = replace(plan.stimulus(design, names, slack), patience=patience, false_start=false_start)
    return compare_recording(design, names, plan, simulator.run(stimulus))


def simulate_together(
    design: Design, simulator: Simulator, names: CircuitNames, plans: Sequence[PlannedRun]
) -> list[Run]:
    """Simulate and compare several runs, at once where the simulator can do that."""
    from onnx_hw_sim.circuit import run_together

    recordings = run_together(simulator, [plan.stimulus(design, names, SLACK) for plan in plans])
    return [
        compare_recording(design, names, plan, recording) for plan, recording in zip(plans, recordings, strict=True)
    ]


def compare_recording(design: Design, names: CircuitNames, plan: PlannedRun, recording: Recording) -> Run:
    """Compare a recording with what must be."""
    frames, prediction, beats = plan.frames, plan.expected.prediction, plan.expected.beats
    edges = design.edges()
    outputs = [edge for edge in edges if edge.consumer is None]
    # An engine that knows only pins records no other stream, and names no engine of the circuit.
    edges = tuple(edge for edge in edges if names.edges[edge.tensor] in recording.tokens)
    differences: list[Difference] = []
    values, wrong_values = _compare_values(edges, names, recording, beats, plan.first_frame, differences)
    firings, wrong_firings = _compare_firings(names, recording, prediction, differences)
    first = min(differences, key=lambda difference: difference.cycle, default=None)
    finished = all(len(recording.tokens[names.edges[e.tensor]]) >= len(beats[e.tensor]) for e in outputs)
    interval = latency = None
    if finished:
        seen = {e.tensor: recording.cycles_of[names.edges[e.tensor]][: frames * e.beats] for e in outputs}
        as_seen = Prediction({}, seen, prediction.beats)
        interval = as_seen.interval(frames) if frames > 1 else None
        latency = as_seen.latency()
    return Run(
        plan.stall.name,
        recording.cycles,
        len(edges),
        values,
        wrong_values,
        firings,
        wrong_firings,
        first,
        interval,
        latency,
        max_fill={e.tensor: _max_fill(design, e, names, recording) for e in edges if e.producer and recording.fires},
        outputs={e.tensor: _collected(e, recording.tokens[names.edges[e.tensor]]) for e in outputs},
        deadlock=() if finished else diagnose(design, names, recording, prediction),
    )


def stimulus_of(
    design: Design, names: CircuitNames, golden: Mapping[str, np.ndarray], stall: Stall, cycles: int
) -> Stimulus:
    """Return what the outside does to the circuit for a number of cycles; arguments as in ``simulate_and_compare``."""
    from onnx_hw_sim.circuit import Stimulus

    frames = len(next(iter(golden.values())))
    inputs = [edge for edge in design.edges() if edge.producer is None]
    outputs = [edge for edge in design.edges() if edge.consumer is None]
    return Stimulus(
        tokens={names.edges[e.tensor]: _fill_unused_lanes(e.order.to_beats(golden[e.tensor]), e) for e in inputs},
        offers={names.edges[tensor]: np.asarray(offers, dtype=np.int64) for tensor, offers in stall.offers.items()},
        ready={
            names.edges[edge.tensor]: np.asarray(stall.ready.get(edge.tensor, np.ones(0)), dtype=bool)
            for edge in outputs
        },
        expected={names.edges[edge.tensor]: frames * edge.beats for edge in outputs},
        cycles=cycles,
        tail=cycles,
    )


def _fill_unused_lanes(beats: np.ndarray, edge: Edge) -> np.ndarray:
    """Fill the unused lanes of an input with extreme values: no result may depend on them."""
    used = edge.order.used(len(beats))
    extremes = np.where(np.arange(beats.size) % 2, edge.type.dtype.min, edge.type.dtype.max).reshape(beats.shape)
    return np.where(used, beats, extremes)


def _compare_values(
    edges: Sequence[Edge],
    names: CircuitNames,
    recording: Recording,
    beats: Mapping[str, np.ndarray],
    first_frame: int,
    differences: list[Difference],
) -> tuple[int, int]:
    """Compare every token of every edge, without places beyond the tensor; return (values compared, mismatches).

    Tokens of the frame that never comes depend on padding alone: they equal the first ones of any frame. Whether they
    may be there is a question for the firings.
    """
    compared = wrong = 0
    for edge in edges:
        wire = names.edges[edge.tensor]
        seen, expected = recording.tokens[wire], np.concatenate([beats[edge.tensor], beats[edge.tensor][: edge.beats]])
        tokens = min(len(seen), len(expected))
        used = edge.order.used(tokens)
        compared += int(used.sum())
        unequal = (seen[:tokens] != expected[:tokens]) & used
        wrong += int(unequal.sum()) + abs(len(seen) - tokens) * edge.width
        if unequal.any():
            token, lane = map(int, np.argwhere(unequal)[0])
            where = _element_name(edge, token + first_frame * edge.beats, lane)
            what = f"{where}: golden {expected[token, lane]}, circuit {seen[token, lane]}"
            differences.append(Difference(what, int(recording.cycles_of[wire][token])))
        elif len(seen) > tokens:
            surplus = f"{edge.tensor}: a surplus token {seen[tokens].tolist()}"
            differences.append(Difference(surplus, int(recording.cycles_of[wire][tokens])))
    return compared, wrong


def _element_name(edge: Edge, token: int, lane: int) -> str:
    """Return ``tensor[frame, row, column, channel]`` of a value on a stream."""
    return f"{edge.tensor}[{', '.join(map(str, edge.order.place(token, lane)))}]"


def _compare_firings(
    names: CircuitNames, recording: Recording, prediction: Prediction, differences: list[Difference]
) -> tuple[int, int]:
    """Compare the firings of all engines and all sinks; return (firings compared, mismatches)."""
    events = [
        (f"{node}.{engine}, operation", predicted, recording.fires[names.engines[node, engine]])
        for (node, engine), predicted in prediction.fires.items()
        if (node, engine) in names.engines
    ]
    events += [
        (f"{tensor}, token", predicted, recording.cycles_of[names.edges[tensor]])
        for tensor, predicted in prediction.sinks.items()
    ]
    compared = wrong = 0
    for what, predicted, seen in events:
        expected = predicted[: np.searchsorted(predicted, recording.cycles)]
        count = min(len(seen), len(expected))
        compared += max(len(seen), len(expected))
        unequal = np.flatnonzero(seen[:count] != expected[:count])
        wrong += len(unequal) + abs(len(seen) - len(expected))
        if len(unequal) or len(seen) != len(expected):
            k = int(unequal[0]) if len(unequal) else count
            cycles = [f"cycle {int(times[k])}" if k < len(times) else "never" for times in (expected, seen)]
            cycle = min(int(times[k]) for times in (expected, seen) if k < len(times))
            differences.append(Difference(f"{what} {k}: predicted {cycles[0]}, circuit {cycles[1]}", cycle))
    return compared, wrong


def _max_fill(design: Design, edge: Edge, names: CircuitNames, recording: Recording) -> int:
    """Return the greatest number of tokens that were fired and not yet popped."""
    assert edge.producer is not None
    node, port = edge.producer
    schedule = design.network.node(node).operator.schedule(design.foldings[node])
    engine = next(e for e in schedule.engines if port in e.pushes)
    fires = recording.fires[names.engines[node, engine.name]][engine.once :]
    pushes = np.asarray(engine.pushes[port])
    frames = -(-len(fires) // engine.operations)
    numbers = (np.arange(frames)[:, None] * engine.operations + pushes[None, :]).reshape(-1)
    pushed = fires[numbers[numbers < len(fires)]]
    popped = recording.cycles_of[names.edges[edge.tensor]]
    gone = np.searchsorted(popped, pushed, side="left")  # popped before the cycle of the push
    return int(np.max(np.arange(1, len(pushed) + 1) - gone, initial=0))


def _collected(edge: Edge, tokens: np.ndarray) -> np.ndarray:
    return edge.order.from_beats(tokens[: len(tokens) // edge.beats * edge.beats])


def diagnose(design: Design, names: CircuitNames, recording: Recording, prediction: Prediction) -> tuple[str, ...]:
    """Describe what waits for what at the end of a run that did not finish."""
    if prediction.circle():
        return tuple(str(wait) for wait in prediction.circle())
    lines = []
    for edge in design.edges():
        wire, consumer = names.edges[edge.tensor], edge.consumer[0] if edge.consumer else "the outside"
        if recording.valid.get(wire) and not recording.ready.get(wire):
            lines.append(f"{edge.tensor} is offered to {consumer}, not taken")
        elif recording.ready.get(wire) and not recording.valid.get(wire):
            lines.append(f"{consumer} waits for {edge.tensor}")
    return tuple(lines)
