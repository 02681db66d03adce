"""Size the FIFO of every edge by arithmetic: from the firing law, not from simulation.

Depths that are each enough when the others are ample may fall short together: where every core is busy in every cycle,
a frame must wait *somewhere* between two of them. So the depths of the circuit are chosen one after the other, the
widest stream first, each as small as the whole design allows: what must wait does so where a place costs least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from onnx_hw.ir.design import Design, Edge, FifoSize
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.schedule import Schedule
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.check_fifo_depths import check_fifo_depths, too_shallow
from onnx_hw.schedule.loop_pace import ample_on_loops, loop_paces
from onnx_hw.schedule.min_fifo_depths import horizon, least, least_fifo_depths, part_of
from onnx_hw.timing.frame_times import Frames, FrameTimes
from onnx_hw.timing.prediction import DEEPEST_IN_LUTRAM

NEAR_CORES = 4
"""Number of cores on either side of one that are asked first: most circles that are too slow are short."""

MIN_GUESSES = 8
"""Number of depths that are guessed at least before the whole design is asked."""


def size_fifos(
    design: Design, given: Mapping[str, int] | None = None, *, force: bool = False, room: Budget | None = None
) -> Design:
    """Return the design with ``live_depth``, ``rate_depth`` and ``depth`` of every edge that has a producer.

    Args:
        given: depths of some edges, by tensor. The others are chosen to go with them, for the interval that they allow.
        force: take them even though the network comes to a stop. Its simulation shows which core waits for which.
        room: what there is. Where every FIFO at the least depth that it needs by itself takes more already, the design
            has these depths, since those that are enough together do not fit either.

    Raises:
        UserError: every given depth that is of no edge or no depth, or with which the network comes to a stop.
    """
    given = given or {}
    schedules = design.schedules()
    design = replace(design, loops=loop_paces(design, schedules))
    interval = design.interval
    edges = {edge.tensor: edge for edge in design.edges() if edge.producer}
    check_fifo_depths(given, edges)
    enough = ample_on_loops(design, schedules)
    alone = {tensor: least_fifo_depths(design, edge, interval, schedules, enough) for tensor, edge in edges.items()}
    if room is not None and not given:
        least_of_all = {
            tensor: FifoSize(affordable(rate, edges[tensor].deepest_at_once), live, rate)
            for tensor, (live, rate) in alone.items()
        }
        if room.excess((least_design := replace(design, fifos=least_of_all)).with_fifos()):
            return verify_design(least_design, "size_fifos")
    whole = _Whole(design, schedules, interval)
    beside = given
    if not whole.is_live(given):
        if not force:
            lives = {tensor: live for tensor, (live, _) in alone.items()}
            raise UserError(*too_shallow(given, edges, lives, whole.ample, whole.is_live))
        beside = {}
    depths = {**_joint_depths(whole, edges, {t: rate for t, (_, rate) in alone.items()}, beside), **given}
    fifos = {tensor: FifoSize(depths[tensor], live, rate) for tensor, (live, rate) in alone.items()}
    return verify_design(replace(design, fifos=fifos), "size_fifos")


def kept_interval(design: Design) -> int:
    """Return the cycles from frame to frame with a design's FIFOs, perhaps too shallow for the busiest core."""
    whole = _Whole(design, design.schedules(), design.interval)
    whole.slow_down({tensor: size.depth for tensor, size in design.fifos.items()})
    return whole.interval


class _Whole:
    """The whole design with some depths, all others ample, its input paced at the interval."""

    def __init__(self, design: Design, schedules: Mapping[str, Schedule], interval: int) -> None:
        self.interval = interval
        self._frames = Frames(design, schedules)
        self._settled, self._most = horizon(design, interval)
        self.ample = {e.tensor: self._most * e.beats + DEEPEST_IN_LUTRAM for e in design.edges() if e.producer}
        self.ample |= ample_on_loops(design, schedules)
        self._rate = RateByParts(design, schedules, self._settled, self._most, self.ample)

    def is_live(self, depths: Mapping[str, int]) -> bool:
        return not depths or self._times(depths).live

    def keeps_rate(self, depths: Mapping[str, int], changed: Sequence[str] | None = None) -> bool:
        """Return whether the depths keep the interval; None where any may be new."""
        return self._rate.keeps(self.interval, depths, changed)

    def may_keep_rate(self, depths: Mapping[str, int], changed: str) -> bool:
        return self._rate.may_keep(self.interval, depths, changed)

    def slow_down(self, depths: Mapping[str, int]) -> None:
        """Lengthen the interval to the one that these depths allow."""
        if not self.keeps_rate(depths):
            result = self._times(depths)
            assert result.live, "cores are live by themselves"
            counted = self._most - self._settled
            self.interval = max(self.interval, -(-result.elapsed(self._settled, self._most) // counted))

    def _times(self, depths: Mapping[str, int]) -> FrameTimes:
        return self._frames.times(self._most, self.interval, {**self.ample, **depths})


def _joint_depths(
    whole: _Whole, edges: Mapping[str, Edge], rates: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """Return depths that keep the interval together: each is the least one beside those that are chosen before it.

    What cores around a stream tell is a guess that is never too large where all depths before it are right. So as far
    as the whole design keeps the interval with the guesses, they are the depths; the next one alone is looked for.
    """
    depths = dict(given)
    whole.slow_down(given)
    free = sorted((tensor for tensor in edges if tensor not in given), key=lambda tensor: -edges[tensor].bits)
    first, at_once = 0, len(free)
    while first < len(free):
        some = free[first : first + at_once]
        guesses = _guessed(whole, edges, rates, depths, some)
        right = _right(whole, depths, guesses, some)
        depths.update({tensor: guesses[tensor] for tensor in some[:right]})
        if right < len(some):
            tensor = some[right]
            steps = _steps(guesses[tensor], whole.ample[tensor], edges[tensor].deepest_at_once)
            keeps = lambda step, t=tensor, steps=steps: whole.keeps_rate(depths | {t: steps[step]}, [t])  # noqa: E731
            depths[tensor] = steps[least(keeps, 0, len(steps) - 1)]
            right += 1
        first, at_once = first + right, max(MIN_GUESSES, 2 * right)
    return depths


def _right(whole: _Whole, depths: Mapping[str, int], guesses: Mapping[str, int], tensors: Sequence[str]) -> int:
    """Return how many of the guesses, from the first on, the whole design keeps the interval with."""

    def fails(some: int) -> bool:
        return not whole.keeps_rate({**depths, **{t: guesses[t] for t in tensors[:some]}}, tensors[:some])

    return least(fails, 1, len(tensors) + 1, len(tensors)) - 1


def _guessed(
    whole: _Whole, edges: Mapping[str, Edge], rates: Mapping[str, int], given: Mapping[str, int], free: Sequence[str]
) -> dict[str, int]:
    """Return depths chosen one after the other that keep the interval as far as the cores around each stream tell."""
    depths, likely = dict(given), 0  # neighbours wait for the same frames: what one edge takes the next one often takes
    for tensor in free:
        least_at_all = affordable(rates[tensor], edges[tensor].deepest_at_once)
        steps = [least_at_all, *_steps(least_at_all, whole.ample[tensor], edges[tensor].deepest_at_once)]

        def may_keep(step: int, tensor: str = tensor, steps: Sequence[int] = steps) -> bool:
            return whole.may_keep_rate(depths | {tensor: steps[step]}, tensor)

        step = 0 if may_keep(0) else least(may_keep, 1, len(steps) - 1, likely)
        likely = step or likely
        depths[tensor] = steps[step]
    return depths


def affordable(depth: int, deepest_at_once: int = DEEPEST_IN_LUTRAM) -> int:
    """Return the depth that costs no more: memories have a power of two of words, a few tokens a register."""
    if depth <= 2:
        return depth
    if depth <= deepest_at_once:
        return (1 << (depth - 2).bit_length()) + 1
    return 1 << (depth - 1).bit_length()


def _steps(bad: int, good: int, deepest_at_once: int) -> list[int]:
    """Return the affordable depths between two."""
    steps = []
    while (bad := affordable(bad + 1, deepest_at_once)) < good:
        steps.append(bad)
    return [*steps, good]


class RateByParts:
    """A design whose input is paced at the interval: whether it keeps it with some depths, asked part by part.

    The firing law is linear in the (max, +) algebra: every event is the latest of others, each plus a constant. The
    pace of such a system is that of its slowest circle of causes, and a circle lies within a strongly connected part.
    Data goes along the streams; credits run against them only where a FIFO is not ample. So cores on both sides of an
    ample FIFO belong to one part only if another way leads back; each part keeps the interval or does not, whatever
    the others do, and a FIFO that is changed concerns the part it lies in, which is small while few depths are chosen.

    Args:
        settled, most: frames; see ``horizon``.
        ample: depths of all FIFOs with which no core waits for room.
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
        self._causes: dict[str, set[str]] = {name: set() for name in self._places}
        self._effects: dict[str, set[str]] = {name: set() for name in self._places}
        for producer, consumer in self._ends.values():
            self._causes[consumer].add(producer)
            self._effects[producer].add(consumer)
        self._streams_around: dict[str, list[str]] = {}
        self._frames: dict[frozenset[str], Frames] = {}
        self._known: dict[tuple[frozenset[str], int, tuple[tuple[str, int], ...]], bool] = {}

    def keeps(self, interval: int, depths: Mapping[str, int], changed: Collection[str] | None = None) -> bool:
        """Return whether frames leave every ``interval`` cycles in the long run; FIFOs without a depth are ample.

        Args:
            changed: those whose depths are new; what has no part in them is known to keep the interval. None for all.
        """
        bounded = {tensor: depth for tensor, depth in depths.items() if depth < self._ample[tensor]}
        if changed is None:
            return self._keeps(interval, bounded, list(self._places))
        return self._keeps(interval, bounded, [self._ends[tensor][0] for tensor in changed])

    def may_keep(self, interval: int, depths: Mapping[str, int], changed: str) -> bool:
        """Return whether the cores around one stream keep the interval; if they do not, the whole does not, either."""
        around = {tensor: depths[tensor] for tensor in self._around(changed) if tensor in depths}
        bounded = {tensor: depth for tensor, depth in around.items() if depth < self._ample[tensor]}
        return self._keeps(interval, bounded, [self._ends[changed][0]])

    def _around(self, tensor: str) -> list[str]:
        """Return the streams between near cores; and, where two ways lead from one core to the stream's reader, those
        on all ways from the last such core on.
        """
        if tensor not in self._streams_around:
            (producer, consumer), places = self._ends[tensor], self._places
            cores = {core for core in places if abs(places[core] - places[producer]) <= NEAR_CORES}
            ways_before = _reached(producer, self._causes)
            others = {start for t, (start, end) in self._ends.items() if end == consumer != start and t != tensor}
            ways_beside = set[str]().union(*(_reached(start, self._causes) for start in others))
            if both := ways_before & ways_beside:
                begin = max(both, key=lambda core: places[core])
                cores |= _reached(begin, self._effects) & _reached(consumer, self._causes)
            self._streams_around[tensor] = [t for t, ends in self._ends.items() if cores.issuperset(ends)]
        return self._streams_around[tensor]

    def _keeps(self, interval: int, bounded: Mapping[str, int], cores: Iterable[str]) -> bool:
        """Return whether the parts in which some cores lie keep the interval; all FIFOs but these are ample."""
        credited: dict[str, set[str]] = {}
        crediting: dict[str, set[str]] = {}
        for tensor in bounded:
            producer, consumer = self._ends[tensor]
            credited.setdefault(producer, set()).add(consumer)
            crediting.setdefault(consumer, set()).add(producer)
        covered: set[str] = set()
        for core in cores:
            if core not in covered:
                part = _reached(core, self._causes, credited) & _reached(core, self._effects, crediting)
                covered |= part
                if not self._part_keeps(frozenset(part), interval, bounded):
                    return False
        return True

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


def _reached(
    core: str, neighbours: Mapping[str, set[str]], more: Mapping[str, set[str]] = MappingProxyType({})
) -> set[str]:
    """Return the cores to which ways lead from one, itself included, by neighbours of two kinds."""
    reached, new = {core}, [core]
    while new:
        at = new.pop()
        further = neighbours[at] - reached
        if at in more:
            further |= more[at] - reached
        reached |= further
        new += further
    return reached
