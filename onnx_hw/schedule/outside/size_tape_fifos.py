"""Size the FIFOs of a design whose weights come from a tape, so that the tape never waits for a core.

All weights of a frame come before those of the next one. So while a frame goes from one core on the tape to the next
one, no words are wanted; the FIFO in front of the later core takes its words meanwhile, and the tape goes on. The other
FIFOs were sized for words that are always there; where a core must work in a shorter time than the others, the frames
wait for it, and need room.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from onnx_hw.ir.design import Design, Edge
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.ops.tape import TAPE, weights_edge
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.min_fifo_depths import horizon, least
from onnx_hw.schedule.size_fifos import affordable
from onnx_hw.timing.frame_times import Frames

MAX_QUESTIONS = 60
"""Number of times at most that the whole design is asked whether it keeps its interval."""

FRAMES_AHEAD = 2
"""Frames of tokens in a FIFO that is deep enough for every need."""


def size_tape_fifos(design: Design, room: Budget, kept: Collection[str] = ()) -> Design:
    """Return the design with the least depths, one after the other, with which it keeps its interval; where there is no
    room for them, with as much of what they add as there is room for.

    Args:
        design: with a tape.
        room: what the whole design may use.
        kept: tensors whose FIFOs stay as they are.
    """
    interval, frames = design.interval, Frames(design)
    settled, most = horizon(design, interval)
    given = {tensor: size.depth for tensor, size in design.fifos.items()}

    def keeps(depths: dict[str, int]) -> bool:
        return frames.sustains(interval, settled, most, given | depths)

    assert design.tape is not None
    edges = {edge.tensor: edge for edge in design.edges() if edge.producer and edge.tensor not in (*kept, TAPE)}
    weights = [weights_edge(port.node) for port in design.tape.ports]
    now = {tensor: design.fifos[tensor].depth for tensor in edges}
    if keeps(now):
        return design
    ample = {tensor: max(now[tensor], affordable(FRAMES_AHEAD * edge.beats)) for tensor, edge in edges.items()}
    deep = now | {tensor: ample[tensor] for tensor in weights}
    if not keeps(deep):
        deep = dict(ample)
        if not keeps(deep):
            return design  # something else slows it down
    depths = least_together(deep, now, edges, keeps)
    for shift in range(max(depths.values()).bit_length() + 1):
        some = {tensor: max(now[tensor], depth >> shift) for tensor, depth in depths.items()}
        sized = _with_depths(design, some)
        if not room.excess(sized.with_fifos()):
            return sized
    return design


def least_together(
    deep: Mapping[str, int],
    now: Mapping[str, int],
    edges: Mapping[str, Edge],
    keeps: Callable[[dict[str, int]], bool],
) -> dict[str, int]:
    """Return depths that keep the interval, chosen one after the other, that of the widest stream first.

    Most FIFOs may stay as they are, so those are asked for together: as many as may stay; the next one is looked for.
    After ``MAX_QUESTIONS`` the others stay deep.
    """
    depths, asked = dict(deep), 0

    def holds(fewer: Mapping[str, int]) -> bool:
        nonlocal asked
        asked += 1
        return asked <= MAX_QUESTIONS and keeps(depths | dict(fewer))

    def fails(some: int) -> bool:
        return not holds({tensor: now[tensor] for tensor in free[:some]})

    def has_room(step: int) -> bool:
        return holds({free[stay]: steps[step]})

    free = sorted((t for t in deep if deep[t] > now[t]), key=lambda t: -edges[t].bits)
    while free and asked < MAX_QUESTIONS:
        stay = bisect_left(range(1, len(free)), True, key=fails) if fails(len(free)) else len(free)
        depths.update({tensor: now[tensor] for tensor in free[:stay]})
        if stay < len(free):
            steps, edge = [now[free[stay]]], edges[free[stay]]
            while steps[-1] < deep[free[stay]]:
                steps.append(min(deep[free[stay]], affordable(steps[-1] + 1, edge.deepest_at_once)))
            depths[free[stay]] = steps[least(has_room, 1, len(steps) - 1)]
        free = free[stay + 1 :]
    return depths


def _with_depths(design: Design, depths: Mapping[str, int]) -> Design:
    fifos = {
        tensor: replace(size, depth=depths.get(tensor, size.depth), rate_depth=depths.get(tensor, size.rate_depth))
        for tensor, size in design.fifos.items()
    }
    return verify_design(replace(design, fifos=fifos), "size_tape_fifos")
