"""Size the FIFO of every edge by arithmetic: from the firing law, not from simulation.

With all other FIFOs ample, the only causes that run against the direction of the data are this edge's credits and the
shared buffers inside cores. So every circle of causes through this edge lies among the nodes *between* its producer and
its consumer: the two alone on a plain chain, all branches of a fork that a join closes. That part, fed and drained
without delay, decides alone

* ``live_depth``: the least depth at which it does not come to a stop;
* ``rate_depth``: the least depth at which it keeps the interval of the design.

Depths that are each enough when the others are ample may fall short together: where every core is busy in every cycle,
a frame must wait *somewhere* between two of them. So the depths of the circuit are chosen one after the other, the
widest stream first, each as small as the whole design allows: what must wait does so where a place costs least.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from onnx_hw.design import Design, Edge, FifoSize
from onnx_hw.network import Boundary, Network, Node
from onnx_hw.ops.schedule import Schedule
from onnx_hw.timing import DEEPEST_IN_LUTRAM, Events

SETTLED, FRAMES = 4, 8
"""The first frames fill the buffers; the mean interval of the others counts, since single ones may swing around it."""


def size_fifos(design: Design) -> Design:
    """The design with ``live_depth``, ``rate_depth`` and ``depth`` of every edge that has a producer."""
    schedules = {n.name: n.operator.schedule(design.folding(n)) for n in design.network.nodes}
    interval = max(schedule.interval for schedule in schedules.values())
    edges = [edge for edge in design.edges() if edge.producer]
    least = {edge.tensor: depths_of(design, edge, interval, schedules) for edge in edges}
    depths = _joint_depths(design, edges, interval, schedules, {t: rate for t, (_, rate) in least.items()})
    return replace(design, fifos={t: FifoSize(depths[t], live, rate) for t, (live, rate) in least.items()})


def _joint_depths(
    design: Design, edges: list[Edge], interval: int, schedules: Mapping[str, Schedule], rates: Mapping[str, int]
) -> dict[str, int]:
    """Depths that keep the interval together."""
    events = Events(design, schedules)
    offers = {
        edge.tensor: np.arange(FRAMES * edge.beats) * interval // edge.beats
        for edge in design.edges()
        if edge.producer is None
    }
    depths = {edge.tensor: FRAMES * edge.beats + DEEPEST_IN_LUTRAM for edge in edges}

    def keeps_rate(changed: Mapping[str, int]) -> bool:
        return events.sustains(interval, SETTLED, FRAMES, offers=offers, depths={**depths, **changed})

    def choose(tensors: Sequence[str], enough: bool | None = None) -> bool:
        """Choose the depths of some edges, one after the other; whether each of them gets the least it may have.

        ``enough`` is that answer, where it is known; several edges are tried at once, since most of them do.
        """
        least = {tensor: affordable(rates[tensor]) for tensor in tensors}
        if enough is None:
            enough = keeps_rate(least)
        if enough:
            depths.update(least)
        elif len(tensors) == 1:
            (tensor,) = tensors
            steps = _steps(least[tensor], depths[tensor])
            least_step = bisect_left(steps, True, hi=len(steps) - 1, key=lambda depth: keeps_rate({tensor: depth}))
            depths[tensor] = steps[least_step]
        else:
            half = len(tensors) // 2
            first = choose(tensors[:half])
            choose(tensors[half:], enough=False if first else None)
        return enough

    choose([edge.tensor for edge in sorted(edges, key=lambda edge: -edge.lanes * edge.type.dtype.bits)])
    return depths


def depths_of(design: Design, edge: Edge, interval: int, schedules: Mapping[str, Schedule]) -> tuple[int, int]:
    """(live_depth, rate_depth) of one edge for a wanted interval."""
    part = _between(design, edge)
    events = Events(part, {node.name: schedules[node.name] for node in part.network.nodes})
    ample = {e.tensor: FRAMES * e.beats for e in part.edges()}
    offers = {e.tensor: np.zeros(FRAMES * e.beats, dtype=np.int64) for e in part.edges() if e.producer is None}

    @cache
    def at(depth: int) -> tuple[bool, bool]:
        """Whether the part is live at a depth, and keeps the interval on average."""
        result = events.solve(FRAMES, offers=offers, depths={**ample, edge.tensor: depth})
        live = not result.waits
        return live, live and result.elapsed(SETTLED, FRAMES) <= interval * (FRAMES - SETTLED)

    most = ample[edge.tensor]
    live = _least(lambda depth: at(depth)[0], most)
    rate = _least(lambda depth: at(depth)[1], most, live)
    return live, rate


def _least(good: Callable[[int], bool], most: int, start: int = 1) -> int:
    """The least number from ``start`` to ``most`` that is good, where more is never worse and ``most`` is good."""
    bad, number = start - 1, start
    while number < most and not good(number):
        bad, number = number, min(2 * number, most)
    while number - bad > 1:
        middle = (bad + number) // 2
        if good(middle):
            number = middle
        else:
            bad = middle
    return number


def _between(design: Design, edge: Edge) -> Design:
    """The nodes on any path from an edge's producer to its consumer, as a design of their own."""
    network = design.network
    assert edge.producer is not None
    first, last = edge.producer[0], edge.consumer[0] if edge.consumer else None
    after: set[str] = {first}
    for node in network.nodes:
        if any((p := network.producer(tensor)) and p[0].name in after for tensor in node.inputs):
            after.add(node.name)
    before: set[str] = {last} if last else set()
    for node in reversed(network.nodes):
        if any(c.name in before for tensor in node.outputs for c, _ in network.consumers(tensor)):
            before.add(node.name)
    kept = tuple(node for node in network.nodes if node.name in ({first} | before if last else {first}) & after)
    return replace(design, network=_part(network, kept))


def _part(network: Network, nodes: tuple[Node, ...]) -> Network:
    made = {tensor for node in nodes for tensor in node.outputs}
    read = {tensor for node in nodes for tensor in node.inputs}

    def boundary(tensor: str) -> Boundary:
        kind = network.tensors[tensor]
        return Boundary(tensor, tensor, kind.shape, np.dtype(np.int64), np.arange(kind.size))

    return Network(
        network.name,
        nodes,
        {tensor: network.tensors[tensor] for tensor in made | read},
        tuple(boundary(tensor) for tensor in sorted(read - made)),
        tuple(boundary(tensor) for tensor in sorted(made - read)),
    )


def affordable(depth: int) -> int:
    """The depth that costs no more: memories have a power of two of words, and a few tokens are in a register."""
    if depth <= 2:
        return depth
    if depth <= DEEPEST_IN_LUTRAM:
        return (1 << (depth - 2).bit_length()) + 1
    return 1 << (depth - 1).bit_length()


def _steps(bad: int, good: int) -> list[int]:
    """The affordable depths between two."""
    steps = []
    while (bad := affordable(bad + 1)) < good:
        steps.append(bad)
    return [*steps, good]
