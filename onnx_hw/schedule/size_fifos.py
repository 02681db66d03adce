"""Size the FIFO of every edge by arithmetic: from the firing law, not from simulation.

Depths that are each enough when the others are ample may fall short together: where every core is busy in every cycle,
a frame must wait *somewhere* between two of them. So the depths of the circuit are chosen one after the other, the
widest stream first, each as small as the whole design allows: what must wait does so where a place costs least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnx_hw.ir.design import Design, Edge, FifoSize
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.schedule import Schedule
from onnx_hw.schedule.bisect import least
from onnx_hw.schedule.check_fifo_depths import check_fifo_depths, too_shallow
from onnx_hw.schedule.min_fifo_depths import horizon, least_fifo_depths
from onnx_hw.schedule.throughput_check import RateByParts
from onnx_hw.timing.frame_times import Frames, FrameTimes
from onnx_hw.timing.prediction import DEEPEST_IN_LUTRAM


def size_fifos(design: Design, given: Mapping[str, int] | None = None, *, force: bool = False) -> Design:
    """The design with ``live_depth``, ``rate_depth`` and ``depth`` of every edge that has a producer.

    Args:
        given: depths of some edges, by tensor. The others are chosen beside them, for the interval that they allow.
        force: take them even though the network comes to a stop. Its simulation tells who waits for whom.

    Raises:
        UserError: every given depth that is of no edge or no depth, or with which the network comes to a stop.
    """
    given = given or {}
    schedules = design.schedules()
    interval = design.interval
    edges = {edge.tensor: edge for edge in design.edges() if edge.producer}
    check_fifo_depths(given, edges)
    alone = {tensor: least_fifo_depths(design, edge, interval, schedules) for tensor, edge in edges.items()}
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
    """Cycles from one frame to the next with the FIFOs of a design, which may be too shallow for the busiest core."""
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
        self._rate = RateByParts(design, schedules, self._settled, self._most, self.ample)

    def is_live(self, depths: Mapping[str, int]) -> bool:
        return not depths or self._times(depths).live

    def keeps_rate(self, depths: Mapping[str, int], changed: Sequence[str] | None = None) -> bool:
        """Near cores are asked first: they mostly know why not, and sooner."""
        near = all(self.may_keep_rate(depths, tensor) for tensor in changed or ())
        return near and self._rate.keeps(self.interval, depths, changed)

    def may_keep_rate(self, depths: Mapping[str, int], changed: str) -> bool:
        return self._rate.may_keep(self.interval, depths, changed)

    def slow_down(self, depths: Mapping[str, int]) -> None:
        """To the interval that these depths allow."""
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
    """Depths that keep the interval together."""
    depths = dict(given)
    whole.slow_down(given)
    likely = 0  # neighbours wait for the same frames: what one edge takes the next one often takes, too

    def choose(tensors: Sequence[str], enough: bool | None = None) -> bool:
        """Choose the depths of some edges, one after the other; whether each of them gets the least it may have.

        ``enough`` is that answer, where it is known; several edges are tried at once, since most of them do.
        """
        wanted = {tensor: affordable(rates[tensor], edges[tensor].deepest_at_once) for tensor in tensors}
        if enough is None:
            enough = whole.keeps_rate(depths | wanted, tensors)
        if enough:
            depths.update(wanted)
        elif len(tensors) == 1:
            (tensor,) = tensors
            steps = _steps(wanted[tensor], whole.ample[tensor], edges[tensor].deepest_at_once)
            nonlocal likely
            keeps = lambda step: whole.keeps_rate(depths | {tensor: steps[step]}, tensors)  # noqa: E731
            likely = least(keeps, 0, len(steps) - 1, likely)
            depths[tensor] = steps[likely]
        else:
            half = len(tensors) // 2
            first = choose(tensors[:half])
            choose(tensors[half:], enough=False if first else None)
        return enough

    free = sorted((tensor for tensor in edges if tensor not in given), key=lambda tensor: -edges[tensor].bits)
    guessed = _guessed(whole, edges, rates, given, free)
    if whole.keeps_rate(guessed, free):
        return guessed
    choose(free)
    return depths


def _guessed(
    whole: _Whole, edges: Mapping[str, Edge], rates: Mapping[str, int], given: Mapping[str, int], free: Sequence[str]
) -> dict[str, int]:
    """Depths chosen one after the other that keep the interval as far as near cores tell.

    None can be less. So if all together keep it, they are what would be chosen by asking the whole design each time.
    """
    depths = dict(given)
    for tensor in free:
        least_at_all = affordable(rates[tensor], edges[tensor].deepest_at_once)
        steps = [least_at_all, *_steps(least_at_all, whole.ample[tensor], edges[tensor].deepest_at_once)]

        def may_keep(step: int, tensor: str = tensor, steps: Sequence[int] = steps) -> bool:
            return whole.may_keep_rate(depths | {tensor: steps[step]}, tensor)

        depths[tensor] = steps[least(may_keep, 0, len(steps) - 1)]
    return depths


def affordable(depth: int, deepest_at_once: int = DEEPEST_IN_LUTRAM) -> int:
    """The depth that costs no more: memories have a power of two of words, and a few tokens are in a register."""
    if depth <= 2:
        return depth
    if depth <= deepest_at_once:
        return (1 << (depth - 2).bit_length()) + 1
    return 1 << (depth - 1).bit_length()


def _steps(bad: int, good: int, deepest_at_once: int) -> list[int]:
    """The affordable depths between two."""
    steps = []
    while (bad := affordable(bad + 1, deepest_at_once)) < good:
        steps.append(bad)
    return [*steps, good]
