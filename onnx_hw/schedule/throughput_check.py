"""Whether a design keeps its interval with some depths of FIFOs, asked part by part.

The firing law is linear in the (max, +) algebra: every event is the latest of others, each plus a constant. The pace of
such a system is that of its slowest circle of causes, and a circle lies within a strongly connected part. Data goes
along the streams; credits run against them only where a FIFO is not ample. So cores on both sides of an ample FIFO
belong to one part only if another way leads back; each part keeps the interval or does not whatever the others do, and
a FIFO that is changed concerns the part it lies in, which is small as long as few depths are chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from onnx_hw.ir.design import Design
from onnx_hw.ops.schedule import Schedule
from onnx_hw.schedule.min_fifo_depths import part_of
from onnx_hw.timing.frame_times import Frames

NEAR = 4
"""Cores on either side of one: a circle that is too slow is short more often than not."""


class RateByParts:
    """A design whose input is paced at the interval.

    Args:
        settled, most: frames; see ``horizon``.
        ample: depths of all FIFOs that hold up nobody.
    """

    def __init__(
        self, design: Design, schedules: Mapping[str, Schedule], settled: int, most: int, ample: Mapping[str, int]
    ) -> None:
        self._design, self._schedules = design, schedules
        self._settled, self._most, self._ample = settled, most, ample
        self._ends = {
            edge.tensor: (edge.producer[0], edge.consumer[0] if edge.consumer else edge.producer[0])
            for edge in design.edges()
            if edge.producer
        }
        self._places = {node.name: k for k, node in enumerate(design.network.nodes)}
        self._frames: dict[frozenset[str], Frames] = {}
        self._known: dict[tuple[frozenset[str], int, tuple[tuple[str, int], ...]], bool] = {}

    def keeps(self, interval: int, depths: Mapping[str, int], changed: Collection[str] | None = None) -> bool:
        """Whether frames leave every ``interval`` cycles in the long run; FIFOs without a depth are ample.

        Args:
            changed: those whose depths are new; what has no part in them is known to keep the interval. None for all.
        """
        bounded = {tensor: depth for tensor, depth in depths.items() if depth < self._ample[tensor]}
        if changed is None:
            return self._keeps(interval, bounded, list(self._places))
        return self._keeps(interval, bounded, [self._ends[tensor][0] for tensor in changed])

    def may_keep(self, interval: int, depths: Mapping[str, int], changed: str) -> bool:
        """Whether the cores near one stream keep the interval; if they do not, the whole does not, either."""
        core = self._ends[changed][0]
        near = {tensor: depth for tensor, depth in depths.items() if self._near(tensor, core)}
        bounded = {tensor: depth for tensor, depth in near.items() if depth < self._ample[tensor]}
        return self._keeps(interval, bounded, [core])

    def _near(self, tensor: str, core: str) -> bool:
        return all(abs(self._places[end] - self._places[core]) <= NEAR for end in self._ends[tensor])

    def _keeps(self, interval: int, bounded: Mapping[str, int], cores: Iterable[str]) -> bool:
        """Whether the parts do that some cores lie in; all FIFOs but these are ample."""
        causes, effects = self._neighbours(bounded)
        seen: set[str] = set()
        for core in cores:
            if core not in seen:
                part = _reached(core, causes) & _reached(core, effects)
                seen |= part
                if not self._part_keeps(frozenset(part), interval, bounded):
                    return False
        return True

    def _neighbours(self, bounded: Mapping[str, int]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """By core, the cores that it waits for, and those that wait for it."""
        causes: dict[str, set[str]] = {node.name: set() for node in self._design.network.nodes}
        effects: dict[str, set[str]] = {name: set() for name in causes}
        for tensor, (producer, consumer) in self._ends.items():
            causes[consumer].add(producer)
            effects[producer].add(consumer)
            if tensor in bounded:
                causes[producer].add(consumer)
                effects[consumer].add(producer)
        return causes, effects

    def _part_keeps(self, part: frozenset[str], interval: int, bounded: Mapping[str, int]) -> bool:
        its = tuple((tensor, d) for tensor, d in bounded.items() if part.issuperset(self._ends[tensor]))
        key = part, interval, tuple(sorted(its))
        if key not in self._known:
            depths = {**self._ample, **dict(its)}
            self._known[key] = self._frames_of(part).sustains(interval, self._settled, self._most, depths)
        return self._known[key]

    def _frames_of(self, part: frozenset[str]) -> Frames:
        if part not in self._frames:
            network = self._design.network
            kept = tuple(node for node in network.nodes if node.name in part)
            design = replace(self._design, network=part_of(network, kept))
            self._frames[part] = Frames(design, {node.name: self._schedules[node.name] for node in kept})
        return self._frames[part]


def _reached(core: str, neighbours: Mapping[str, set[str]]) -> set[str]:
    """The cores to which ways lead from one, itself included."""
    found, new = {core}, [core]
    while new:
        further = neighbours[new.pop()] - found
        found |= further
        new += further
    return found
