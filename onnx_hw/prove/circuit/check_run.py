"""Check of runs (link 3): the circuit against golden on every edge, and against the timing on every firing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.ir.design import Design, Edge
from onnx_hw.ir.golden import one_frame_more, trace
from onnx_hw.prove.circuit.run_comparison import Run, RunComparison
from onnx_hw.prove.circuit.stalls import Stall
from onnx_hw.timing.event_windows import WINDOW_CYCLES, EventWindows

if TYPE_CHECKING:
    from onnx_hw.assemble.elaborate import CircuitNames
    from onnx_hw_sim.circuit import Recording, Simulator, Stimulus, WindowedSimulator

SLACK = 64
"""Cycles simulated beyond the predicted end."""

UNUSED_SEED = 11
"""Seed of what unused lanes hold."""

MAX_STORED_FRAMES = 6
"""Greatest number of frames whose weights from a tape are stored before a frame comes: those of two groups, and the
words in FIFOs."""

Name = tuple[str, str]

NO_END = 1 << 60
"""Cycles: more than any run has."""


@dataclass(frozen=True)
class PlannedRun:
    """Planned run: what is streamed, how the outside stalls it, and what must come out.

    Attributes:
        beats: tokens of each edge, by tensor, (frames · beats, width); see ``golden_beats``. Of a design that keeps
            state, edges that sources do not feed have one frame more.
        frames: number of frames.
        first_frame: number of its first frame, for messages.
    """

    beats: Mapping[str, np.ndarray]
    frames: int
    stall: Stall
    first_frame: int = 0

    def events(self, design: Design) -> EventWindows:
        """Return the prediction, of one frame more than is streamed; of more where the weights of others are stored."""
        more = 1 if design.tape is None else 1 + MAX_STORED_FRAMES
        return EventWindows(design, self.frames + more, self.stall.offers, self.stall.ready)

    def comparison(self, design: Design, names: CircuitNames) -> RunComparison:
        """Return the comparison, with nothing compared so far."""
        return RunComparison(design, names, self.beats, self.frames, self.first_frame)


def golden_beats(design: Design, golden: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tokens of each edge, by tensor, of all frames end to end.

    Args:
        golden: every tensor of the network, (frames, height, width, channels).
    """
    frames = len(next(iter(golden.values())))
    beats = {e.tensor: e.order.to_beats(golden[e.tensor]) for e in design.edges() if e.tensor in golden}
    return beats | {tensor: np.tile(array, (frames, 1)) for tensor, array in design.taped_beats().items()}


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
    beats, frames = golden_beats(design, golden), len(next(iter(golden.values())))
    if design.network.keepers:
        inputs = [boundary.tensor for boundary in design.network.inputs]
        following = trace(design.network, one_frame_more({name: golden[name] for name in inputs}))
        beats |= {name: rows for name, rows in golden_beats(design, following).items() if name not in inputs}
    plan = PlannedRun(beats, frames, stall, first_frame)
    return _whole(design, simulator, names, [plan], slack, patience, false_start)[0]


def simulate_together(
    design: Design, simulator: Simulator, names: CircuitNames, plans: Sequence[PlannedRun]
) -> list[Run]:
    """Simulate and compare several runs, at once where the simulator can do that."""
    from onnx_hw_sim.circuit import WindowedSimulator

    if not isinstance(simulator, WindowedSimulator):
        return _whole(design, simulator, names, plans)
    groups = (plans[k : k + simulator.at_once] for k in range(0, len(plans), simulator.at_once))
    return [run for group in groups for run in _in_windows(design, simulator, names, group)]


def _whole(
    design: Design,
    simulator: Simulator,
    names: CircuitNames,
    plans: Sequence[PlannedRun],
    slack: int = SLACK,
    patience: int = 5000,
    false_start: int = 0,
) -> list[Run]:
    """Simulate runs, and compare their recordings."""
    from onnx_hw_sim.circuit import run_together

    stimuli, predicted = [], []
    for plan in plans:
        events = plan.events(design)
        predicted.append((events, _seen_events(events, names)))
        stimulus = stimulus_of(design, names, plan.beats, plan.stall, max(0, events.last) + slack)
        stimuli.append(replace(stimulus, patience=patience, false_start=false_start))
    runs = []
    for plan, (events, every), recording in zip(plans, predicted, run_together(simulator, stimuli), strict=True):
        comparison = plan.comparison(design, names)
        comparison.add(recording, every)
        runs.append(comparison.result(plan.stall.name, recording, events.circle()))
        events.close()
    return runs


def _seen_events(events: EventWindows, names: CircuitNames) -> dict[Name, np.ndarray]:
    """Return all events of a run that a recording has, those of engines without a name in the circuit left out."""
    pieces, cycle = defaultdict[Name, list[np.ndarray]](list), 0
    while not events.over:
        cycle += WINDOW_CYCLES
        for name, cycles in events.until(cycle).items():
            if name[0] == "sink" or name in names.engines:
                pieces[name].append(cycles)
    return {name: np.concatenate(parts) for name, parts in pieces.items()}


def _in_windows(
    design: Design, simulator: WindowedSimulator, names: CircuitNames, plans: Sequence[PlannedRun]
) -> list[Run]:
    """Simulate runs at once; compare them window by window, and keep nothing of what was compared.

    A run ends ``SLACK`` cycles after the last event that is predicted, which is known once none is predicted any more.
    """
    events = [plan.events(design) for plan in plans]
    comparisons = [plan.comparison(design, names) for plan in plans]
    stimuli = [stimulus_of(design, names, plan.beats, plan.stall, NO_END) for plan in plans]
    last: list[Recording | None] = [None] * len(plans)
    try:
        with simulator.windows(stimuli) as windows:
            more = True
            while more:
                predicted = []
                for k, before in enumerate(last):
                    predicted.append(events[k].until((before.cycles if before else 0) + WINDOW_CYCLES))
                    if events[k].over:
                        windows.limit(k, max(0, events[k].last) + SLACK)
                more = windows.advance(WINDOW_CYCLES)
                for k, (comparison, due) in enumerate(zip(comparisons, predicted, strict=True)):
                    last[k] = window = windows.recording(k)
                    comparison.add(window, due)
        return [
            comparison.result(plan.stall.name, recording, waiting.circle())
            for plan, comparison, recording, waiting in zip(plans, comparisons, last, events, strict=True)
            if recording is not None
        ]
    finally:
        for prediction in events:
            prediction.close()


def stimulus_of(
    design: Design, names: CircuitNames, beats: Mapping[str, np.ndarray], stall: Stall, cycles: int
) -> Stimulus:
    """Return what the outside does to the circuit for a number of cycles.

    Args:
        beats: tokens of the inputs, by tensor.
        stall: behaviour of the outside.
    """
    from onnx_hw_sim.circuit import Stimulus

    inputs = [edge for edge in design.edges() if edge.producer is None]
    outputs = [edge for edge in design.edges() if edge.consumer is None]
    frames = len(beats[inputs[0].tensor]) // inputs[0].beats  # of an input, there is never one frame more
    return Stimulus(
        tokens={names.edges[e.tensor]: _fill_unused_lanes(beats[e.tensor], e) for e in inputs},
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
    """Fill the unused lanes of an input with extreme values, drawn for each beat: no result may depend on them."""
    used = edge.order.used(len(beats))
    if used.all():
        return beats
    is_least = np.random.Generator(np.random.PCG64(UNUSED_SEED)).integers(0, 2, beats.shape, dtype=bool)
    return np.where(used, beats, np.where(is_least, edge.type.dtype.min, edge.type.dtype.max))
