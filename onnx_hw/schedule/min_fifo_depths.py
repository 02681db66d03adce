"""How many tokens the FIFO of one edge must hold at least, all others being ample.

Then the only causes that run against the direction of the data are this edge's credits and the shared buffers inside
cores. So every circle of causes through this edge lies among the nodes *between* its producer and its consumer: the two
alone on a plain chain, all branches of a fork that a join closes. That part, fed and drained without delay, decides
alone

* ``live_depth``: the least depth at which it does not come to a stop;
* ``rate_depth``: the least depth at which it keeps the interval of the design.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from onnx_hw.ir.design import Design, Edge
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.ops.schedule import Schedule
from onnx_hw.timing.frame_times import Frames

SETTLED, FRAMES = 4, 8
"""The first frames fill the buffers; the mean interval of the others counts, since single ones may swing around it."""


NO_ORDER = np.zeros(0, dtype=np.int64)
"""Order of the elements at the ends of a part, which meets no array of a host: only its events are looked at."""


def horizon(design: Design, interval: int) -> tuple[int, int]:
    """Return (frames that settle, frames looked at): more where streams are so long that whole frames travel on them.

    The frames that travel settle in addition, and twice their number is looked at in addition: a bubble comes once
    for all the tokens that travel.
    """
    travel = sum(delays.visible_after + delays.credit_return for delays in design.delays.values()) // interval
    return SETTLED + travel, FRAMES + 2 * travel


def least_fifo_depths(
    design: Design, edge: Edge, interval: int, schedules: Mapping[str, Schedule], enough: Mapping[str, int]
) -> tuple[int, int]:
    """Return (live_depth, rate_depth) of one edge for an interval.

    Args:
        enough: ample depths of the edges on loops.
    """
    part = _between(design, edge)
    frames = Frames(part, {node.name: schedules[node.name] for node in part.network.nodes})
    settled, most = horizon(part, interval)
    ample = {e.tensor: most * e.beats for e in part.edges()} | dict(enough)

    @cache
    def at(depth: int) -> tuple[bool, bool]:
        """Return whether the part is live at a depth, and whether it keeps the interval on average."""
        result = frames.times(most, 0, {**ample, edge.tensor: depth})
        return result.live, result.live and result.elapsed(settled, most) <= interval * (most - settled)

    # Nothing but this edge between two cores: who waits for a credit there has given the other one its next token.
    alone = len(part.network.nodes) <= 2 and not part.network.loops
    live = 1 if alone else least(lambda depth: at(depth)[0], 1, ample[edge.tensor])
    guess = _tokens_under_way(edge, interval, schedules)
    return live, least(lambda depth: at(depth)[1], live, ample[edge.tensor], guess)


def _tokens_under_way(edge: Edge, interval: int, schedules: Mapping[str, Schedule]) -> int:
    """Return how many tokens a credit's way around the edge takes, if they come evenly: mostly ``rate_depth``."""
    assert edge.producer is not None
    node, port = edge.producer
    (latency,) = (engine.latency for engine in schedules[node].engines if port in engine.pushes)
    return -(-(latency + edge.visible_after(1) + edge.credit_return) * edge.beats // interval)


def _between(design: Design, edge: Edge) -> Design:
    """Return the nodes on any path from an edge's producer to its consumer, as a design of their own."""
    network = design.network
    assert edge.producer is not None
    first, last = edge.producer[0], edge.consumer[0] if edge.consumer else None
    names = {first} if last is None else network.behind(first) & network.before(last)
    kept = tuple(node for node in network.nodes if node.name in names)
    return replace(design, network=part_of(network, kept))


def part_of(network: Network, nodes: tuple[NetworkNode, ...]) -> Network:
    """Return some nodes with the streams between them; all others come from outside, or leave."""
    produced = {tensor for node in nodes for tensor in node.outputs}
    read = {tensor for node in nodes for tensor in node.inputs}

    def boundary(tensor: str) -> Boundary:
        return Boundary(tensor, tensor, network.tensors[tensor].shape, np.dtype(np.int64), NO_ORDER)

    return Network(
        network.name,
        nodes,
        {tensor: network.tensors[tensor] for tensor in read - produced},
        tuple(boundary(tensor) for tensor in sorted(read - produced)),
        tuple(boundary(tensor) for tensor in sorted(produced - read)),
    )


def least(holds: Callable[[int], bool], first: int, last: int, guess: int | None = None) -> int:
    """Return the least number of first..last that holds; every later one does, and ``last``, which is not asked.

    From a guess on (without one, from ``first``) in strides that double, then by halves: a good guess costs two
    questions.
    """
    fails, good = first - 1, last
    guess = first if guess is None else min(max(first, guess), last)
    stride = 1
    if guess == last or holds(guess):
        good = guess
        while good > first:
            number = max(good - stride, first)
            if not holds(number):
                fails = number
                break
            good, stride = number, 2 * stride
    else:
        fails = guess
        while (number := fails + stride) < last:
            if holds(number):
                good = number
                break
            fails, stride = number, 2 * stride
    return fails + 1 + bisect_left(range(fails + 1, good), True, key=holds)
