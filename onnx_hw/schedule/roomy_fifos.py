"""FIFOs that fit a budget, found sooner than the least ones: for the question whether there is a design at all.

Where no core ever waits for room, a FIFO needs as many places as tokens wait in it: one solution of the firing law says
that of all FIFOs. ``size_fifos`` finds shallower ones, since a core may as well wait a while, but asks for each depth
anew. Here only as many FIFOs are made shallower, those together that save most, as the budget asks for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.schedule import Schedule
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.min_fifo_depths import horizon, least_fifo_depths
from onnx_hw.schedule.size_fifos import affordable
from onnx_hw.timing.constraints import Precedences
from onnx_hw.timing.frame_times import Frames, paced_offers
from onnx_hw.timing.prediction import DEEPEST_IN_LUTRAM, Events
from onnx_hw.timing.row_solver import Name

MAX_EVENTS = 80_000_000
"""Events of all frames that are solved: a few seconds, and up to a gigabyte."""

MAX_TRIALS = 40
"""Greatest number of groups of FIFOs that are made shallower."""


def size_fifos_within(design: Design, room: Budget) -> Design | None:
    """Return the design with FIFOs that keep its interval, made shallower until they fit a budget; None where that is
    not found quickly. If they do not fit, this does not say that there are none.
    """
    if design.network.loops:
        return None
    schedules = design.schedules()
    edges, interval = {edge.tensor: edge for edge in design.edges() if edge.producer}, design.interval
    alone = {tensor: least_fifo_depths(design, edge, interval, schedules, {}) for tensor, edge in edges.items()}
    shallow = {tensor: affordable(rate, edges[tensor].deepest_at_once) for tensor, (_, rate) in alone.items()}
    frames, (settled, most) = Frames(design, schedules), horizon(design, interval)

    def sized(depths: Mapping[str, int]) -> Design:
        return replace(design, fifos={t: FifoSize(depths[t], *alone[t]) for t in edges})

    def fits(depths: Mapping[str, int]) -> bool:
        return not room.excess(sized(depths).with_fifos())

    if not fits(shallow) or frames.sustains(interval, settled, most, shallow):
        return sized(shallow)
    roomy = _waiting_tokens(design, schedules)
    if roomy is None:
        return None
    depths = {
        tensor: max(shallow[tensor], affordable(roomy[tensor], edges[tensor].deepest_at_once)) for tensor in edges
    }
    if not frames.sustains(interval, settled, most, depths):
        return None
    saved = {tensor: edges[tensor].bits * (depths[tensor] - shallow[tensor]) for tensor in edges}
    groups: list[Sequence[str]] = [sorted((t for t in edges if saved[t]), key=lambda t: -saved[t])]
    for _ in range(MAX_TRIALS):
        left = {tensor: shallow[tensor] for group in groups for tensor in group}
        if fits(depths) or not fits({**depths, **left}):
            break
        group = groups.pop(0)
        fewer = {**depths, **{tensor: shallow[tensor] for tensor in group}}
        if frames.sustains(interval, settled, most, fewer):
            depths = fewer
        elif len(group) > 1:
            groups = [group[: len(group) // 2], group[len(group) // 2 :], *groups]
    return sized(depths)


def _waiting_tokens(design: Design, schedules: Mapping[str, Schedule]) -> dict[str, int] | None:
    """Return how many tokens of each edge are without credit at most, where no FIFO holds anybody up; None where there
    are too many events to look at.
    """
    links, interval = Precedences(design, schedules), design.interval
    _, frames = horizon(design, interval)
    if sum(len(link.at) + len(link.after) for link in links.all) * frames > MAX_EVENTS:
        return None
    edges = {edge.tensor: edge for edge in design.edges() if edge.producer}
    ample = {tensor: frames * edge.beats + DEEPEST_IN_LUTRAM for tensor, edge in edges.items()}
    offers = {e.tensor: paced_offers(e.order, interval, frames) for e in design.edges() if e.producer is None}
    (solved,) = deque(Events(design, links=links).solutions(frames, offers=offers, depths=ample), maxlen=1)
    times, waiting = {track.name: times for track, times in solved.items()}, {}

    def cycles(name: Name, numbers: AffineSequence) -> np.ndarray:
        """Return the cycles of certain operations of each frame, frames end to end."""
        every = times[name].every[times[name].track.once :].reshape(frames, -1)
        return every[:, np.asarray(numbers)].reshape(-1)

    for tensor, edge in edges.items():
        credits = links.credits(tensor)
        pushes, pops = cycles(credits.here, credits.at), cycles(credits.there, credits.after)
        back = np.searchsorted(pops + edge.credit_return, pushes, side="right")
        waiting[tensor] = int(np.max(np.arange(1, len(pushes) + 1) - back, initial=1))
    return waiting
