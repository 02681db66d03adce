"""How fast the loops of a design go round: by the firing law, with FIFOs that make nobody wait.

A step cannot begin before the state that the step before leaves, so the latency of the way round bounds the interval,
however many lanes there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from onnx_hw.ir.design import Design, LoopPace
from onnx_hw.ir.network import Loop
from onnx_hw.ops.schedule import Schedule
from onnx_hw.schedule.min_fifo_depths import horizon, part_of
from onnx_hw.timing.frame_times import Frames
from onnx_hw.timing.prediction import Events


def loop_paces(design: Design, schedules: Mapping[str, Schedule]) -> tuple[LoopPace, ...]:
    """Return the pace of every loop of a design; FIFOs have no depths yet."""
    paces = []
    for loop in design.network.loops:
        part = _Part(design, schedules, loop)
        cycles, depths = part.pace()
        step_cycles = part.step_cycles(depths) if part.steps > 1 else cycles
        paces.append(LoopPace(tuple(node.name for node in loop), part.steps, step_cycles, cycles))
    return tuple(paces)


def cycles_of_loops(design: Design, schedules: Mapping[str, Schedule]) -> int:
    """Return the cycles from frame to frame of the slowest loop."""
    return max(_Part(design, schedules, loop).pace()[0] for loop in design.network.loops)


def ample_on_loops(design: Design, schedules: Mapping[str, Schedule]) -> dict[str, int]:
    """Return depths with which no core on a loop waits for room, by tensor, for the streams between those cores.

    All tokens of the steps that can be under way fit; where that takes a deep FIFO, whose tokens are visible later, a
    shallow one may be faster.
    """
    depths: dict[str, int] = {}
    for loop in design.network.loops:
        depths |= _Part(design, schedules, loop).pace()[1]
    return depths


class _Part:
    """A loop as a design of its own, fed and drained without delay.

    Attributes:
        steps: of a frame.
    """

    def __init__(self, design: Design, schedules: Mapping[str, Schedule], loop: Loop) -> None:
        self._loop, self._schedules = loop, {node.name: schedules[node.name] for node in loop}
        self._design = replace(design, network=part_of(design.network, loop), loops=())
        self._edges = self._design.edges()
        kept = any(node.operator.keeps for node in loop)  # what leads to the next frame leads round once a frame
        self.steps = 1 if kept else design.network.tensors[loop[0].outputs[0]].shape[0]
        self._settled, self._most = horizon(self._design, 1)
        self._leaving = {edge.tensor: self._most * edge.beats for edge in self._edges if edge.consumer is None}

    def pace(self) -> tuple[int, dict[str, int]]:
        """Return the cycles from frame to frame, and depths of the streams on the loop with which it has that pace."""
        under_way = 1 + sum(bool(node.operator.feedback) for node in self._loop)
        inner = [edge for edge in self._edges if edge.producer and edge.consumer]
        deep = {edge.tensor: under_way * edge.beats // self.steps for edge in inner}
        shallow = {edge.tensor: min(deep[edge.tensor], edge.deepest_at_once) for edge in inner}
        frames, counted = Frames(self._design, self._schedules), self._most - self._settled
        paces: list[tuple[int, dict[str, int]]] = []
        for depths in (deep,) if deep == shallow else (deep, shallow):
            times = frames.times(self._most, 0, {**self._leaving, **depths})
            if times.live:
                paces.append((-(-times.elapsed(self._settled, self._most) // counted), depths))
        return min(paces, key=lambda pace: pace[0])

    def step_cycles(self, depths: Mapping[str, int]) -> int:
        """Return the cycles from the state of the last step but one to that of the last one, where they return."""
        offers = {e.tensor: np.zeros(e.beats, dtype=np.int64) for e in self._edges if e.producer is None}
        events = Events(self._design, self._schedules)
        prediction = events.solve(1, offers=offers, depths={**self._leaving, **depths})
        state = next(node for node in self._loop if node.operator.feedback)
        port, engines = state.operator.feedback[0], self._schedules[state.name].engines
        (engine,) = (engine for engine in engines if port in engine.pops)
        cycles = prediction.fires[state.name, engine.name][engine.once :][np.asarray(engine.pops[port])]
        firsts = cycles.reshape(self.steps, -1)[:, 0]
        return int(firsts[-1] - firsts[-2])
