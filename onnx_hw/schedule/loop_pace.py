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
    return tuple(_paced(design, schedules, loop)[0] for loop in design.network.loops)


def ample_on_loops(design: Design, schedules: Mapping[str, Schedule]) -> dict[str, int]:
    """Return depths with which no core on a loop waits for room, by tensor, for the streams between those cores.

    All tokens of the steps that can be under way fit; where that takes a deep FIFO, whose tokens are visible later, a
    shallow one may be faster.
    """
    depths: dict[str, int] = {}
    for loop in design.network.loops:
        depths |= _paced(design, schedules, loop)[1]
    return depths


def _paced(design: Design, schedules: Mapping[str, Schedule], loop: Loop) -> tuple[LoopPace, dict[str, int]]:
    """Return the pace of a loop, and the depths with which it has that pace."""
    part = replace(design, network=part_of(design.network, loop), loops=())
    its_own = {node.name: schedules[node.name] for node in loop}
    frames, steps = Frames(part, its_own), design.network.tensors[loop[0].outputs[0]].shape[0]
    settled, most = horizon(part, 1)
    under_way = 1 + sum(bool(node.operator.feedback) for node in loop)
    leaving = {edge.tensor: most * edge.beats for edge in part.edges() if edge.consumer is None}
    inner = [edge for edge in part.edges() if edge.producer and edge.consumer]
    deep = {edge.tensor: under_way * edge.beats // steps for edge in inner}
    shallow = {edge.tensor: min(deep[edge.tensor], edge.deepest_at_once) for edge in inner}
    paces: list[tuple[int, dict[str, int]]] = []
    for depths in (deep, shallow):
        times = frames.times(most, 0, {**leaving, **depths})
        if times.live:
            paces.append((-(-times.elapsed(settled, most) // (most - settled)), depths))
    cycles, depths = min(paces, key=lambda pace: pace[0])
    step_cycles = _step_cycles(part, its_own, loop, {**leaving, **depths}) if steps > 1 else cycles
    return LoopPace(tuple(node.name for node in loop), steps, step_cycles, cycles), depths


def _step_cycles(part: Design, schedules: Mapping[str, Schedule], loop: Loop, depths: Mapping[str, int]) -> int:
    """Return the cycles from the state of the last step but one to that of the last one, where they are fed back."""
    offers = {e.tensor: np.zeros(e.beats, dtype=np.int64) for e in part.edges() if e.producer is None}
    prediction = Events(part, schedules).solve(1, offers=offers, depths=depths)
    state = next(node for node in loop if node.operator.feedback)
    port, engines = state.operator.feedback[0], schedules[state.name].engines
    (engine,) = (engine for engine in engines if port in engine.pops)
    steps = prediction.fires[state.name, engine.name][engine.once :][np.asarray(engine.pops[port])]
    firsts = steps.reshape(state.operator.operands()[0].shape[0], -1)[:, 0]
    return int(firsts[-1] - firsts[-2])
