"""Say why no design fits: by how much, because of which nodes, and which options were tried and found to help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from typing import Protocol

from onnx_hw.ir.design import Design, pins_of
from onnx_hw.ir.network import Network
from onnx_hw.ir.target import DesignTarget
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.messages.text import short
from onnx_hw.ops.operator import Resources
from onnx_hw.ops.stream_order import Order
from onnx_hw.schedule.budget import RESOURCES, Budget, amount
from onnx_hw.schedule.link_bandwidth import most_frames_a_second
from onnx_hw.schedule.search_folding import least_interval
from onnx_hw_boards.linked_board import LinkedBoard

MAX_NAMED_NODES = 3
"""Number of nodes that are named for each resource."""


NOTHING_HELPS = "no board helps: only fewer bits (`--bits`, for a float model), or a smaller model, will fit"
"""Hint where nothing that was tried fits."""


class Fits(Protocol):
    """Search for the design for a budget, frames per second and a target; None where there is no such design.

    The first of several budgets that is large enough counts.
    """

    def __call__(self, budget: Budget, fps: float | None, target: DesignTarget, /, *more: Budget) -> Design | None: ...


@dataclass(frozen=True)
class OtherTarget:
    """Another target for a network: ``comfortable`` use is tried first (None for all of it), then ``most``."""

    most: Budget
    target: DesignTarget
    comfortable: Budget | None = None


OtherTargets = Mapping[str, OtherTarget]
"""Other targets, by the name of the board."""


@dataclass(frozen=True)
class Needs:
    """Resources that a design takes, or that every design takes at least: of the whole, and by part."""

    whole: Resources
    parts: Mapping[str, Resources]

    @classmethod
    def of(cls, design: Design) -> Needs:
        """Return what a design takes with its FIFOs, by node, FIFO, and stream at its ends."""
        parts = {short(node.name): design.resources_of(node) for node in design.network.nodes}
        parts |= {f"the FIFO of {short(tensor)}": cost for tensor, cost in design.fifo_costs().items()}
        parts |= {
            f"the stream {short(edge.tensor)}": Resources(pins=pins_of(edge.order))
            for edge in design.edges()
            if edge.producer is None or edge.consumer is None
        }
        return cls(design.with_fifos(), parts)

    @classmethod
    def sum_of(cls, nodes: Mapping[str, Resources]) -> Needs:
        """Return what nodes take together, by their names."""
        return cls(sum(nodes.values(), Resources()), {short(name): some for name, some in nodes.items()})

    @classmethod
    def narrowest_streams(cls, network: Network) -> Needs:
        """Return the pins of the streams at the ends of a network with an element a beat: no design takes fewer."""
        ends = {**network.entries, **{end.tensor: network.tensors[end.tensor] for end in network.outputs}}
        parts = {f"the stream {short(name)}": Resources(pins=pins_of(Order(end, 1))) for name, end in ends.items()}
        return cls(sum(parts.values(), Resources()), parts)

    def largest(self, field: str) -> str:
        """Say which parts take most of a resource: ``block RAMs: `conv1` 32, `conv2` 16``."""
        amounts = {name: taken for name, cost in self.parts.items() if (taken := amount(cost, field))}
        first = sorted(amounts, key=lambda name: -amounts[name])[:MAX_NAMED_NODES]
        return f"{RESOURCES[field]}: {', '.join(f'{name} {amounts[name]:,}' for name in first)}"


def too_many_frames(network: Network, fps: float, clock_mhz: float) -> UserError:
    """Return the error that no number of lanes makes the model so fast."""
    cycles, node = least_interval(network)
    return user_error(
        "fps-unreachable",
        f"this model can do {spelled(clock_mhz * 1e6 / cycles)} frames a second at {clock_mhz:g} MHz, not {fps:.12g}: "
        f"with every lane and every pixel a beat it can have, one core still takes {cycles:,} cycles a frame",
        where=short(node.name),
        hint="fewer frames a second (--fps), or a faster clock (--clock)",
        stage="schedule",
    )


def loop_too_slow(fastest: Design, fps: float) -> UserError:
    """Return the error that the fastest design that fits does not go round its slowest loop so often."""
    return user_error(
        "fps-unreachable",
        f"this model can do {spelled(fastest.frames_per_second)} frames a second at {fastest.clock_mhz:g} MHz on this "
        f"board, not {fps:.12g}: {fastest.slowest_loop} takes {fastest.interval:,} cycles a frame, since each step "
        f"begins with the state that the one before leaves",
        hint="fewer frames a second (--fps), or a faster clock (--clock)",
        stage="schedule",
    )


def latency_too_long(quickest: Design, cycles: int, latency_us: float) -> UserError:
    """Return the error that the quickest design that fits, of a latency in cycles, takes longer than asked for."""
    microseconds = ceil(cycles / quickest.clock_mhz * 100) / 100
    return user_error(
        "latency-unreachable",
        f"a frame must be done within {latency_us:.12g} µs; the quickest design that fits this board takes "
        f"{microseconds:.12g} µs ({cycles:,} cycles at {quickest.clock_mhz:g} MHz)",
        hint=f"`--latency {microseconds:.12g}`, a faster clock (--clock), or a larger board (--board)",
        stage="schedule",
    )


def folding_too_slow(design: Design, fps: float, interval: int) -> UserError:
    """Return the error that the given folding does not keep the requested rate."""
    slow = [node for node in design.network.nodes if node.operator.cycles(design.folding(node)) > interval]
    listed = (f"{short(node.name)} {node.operator.cycles(design.folding(node)):,}" for node in slow)
    return user_error(
        "folding-too-slow",
        f"with this folding {spelled(design.frames_per_second)} frames a second are possible at "
        f"{design.clock_mhz:g} MHz, not {fps:.12g}: for them every core must take at most {interval:,} cycles a frame",
        where=f"cycles: {', '.join(listed)}",
        hint=f"more lanes there, or `--fps {spelled(design.frames_per_second)}`",
        stage="schedule",
    )


def fifos_too_slow(design: Design, cycles: int, fps: float, interval: int) -> UserError:
    """Return the error that a design takes ``cycles`` for a frame with its FIFO depths, more than ``interval``."""
    shallow = [
        f"`{tensor}` holds {size.depth} tokens, {size.rate_depth} would keep the pace"
        for tensor, size in design.fifos.items()
        if size.depth < size.rate_depth
    ]
    return user_error(
        "fifo-too-slow",
        f"with the FIFO depths that were given a frame takes {cycles:,} cycles; {fps:.12g} frames a second at "
        f"{design.clock_mhz:g} MHz allow {interval:,}",
        where="; ".join(shallow),
        hint="give larger depths, or none: then they are chosen",
        stage="schedule",
    )


def folding_too_big(design: Design, most: Budget) -> UserError:
    """Return the error that the given folding takes more than there is."""
    return _too_big("this folding needs", Needs.of(design), most, "fewer lanes in the folding file")


def far_too_big(least: Needs, most: Budget, fps: float | None, elsewhere: OtherTargets, fits: Fits) -> UserError:
    """Return the error that a lower bound of all designs exceeds ``most``: neither lanes nor a slower rate help here.

    Args:
        least: lower bound of what a design takes.
        fps, elsewhere, fits: as for ``nothing_fits``.
    """
    hint = "; ".join(_other_targets_that_fit(fps, elsewhere, fits)) or NOTHING_HELPS
    return _too_big("even the slowest design needs at least", least, most, hint)


def nothing_fits(cheapest: Design, most: Budget, fps: float | None, elsewhere: OtherTargets, fits: Fits) -> UserError:
    """Return the error that no design fits ``most``.

    Args:
        cheapest: the design that exceeds it by least.
        fps: requested rate.
        elsewhere: other boards, by name.
    """
    what = "even the slowest design" if fps is None else f"{fps:.12g} frames a second at {cheapest.clock_mhz:g} MHz"
    hint = "; ".join(_what_helps(cheapest, most, fps, elsewhere, fits)) or NOTHING_HELPS
    return _too_big(f"{what} needs", Needs.of(cheapest), most, hint)


def _what_helps(
    cheapest: Design, most: Budget, fps: float | None, elsewhere: OtherTargets, fits: Fits
) -> Iterator[str]:
    here, any_fits = cheapest.target, False
    if most.mac_lanes is not None:
        lanes = cheapest.resources().mac_lanes
        other = fits(replace(most, mac_lanes=lanes), fps, here)
        if other:
            any_fits = True
            yield f"`--multipliers {lanes}` fits: {lanes_and_rate(other)}"
    if fps is not None:
        fastest = fits(most, None, here)
        if fastest:
            any_fits = True
            yield f"`--fps {spelled(fastest.frames_per_second)}` fits: {lanes_and_rate(fastest)}"
    if most.mac_lanes is not None and fps is not None and not any_fits:
        fastest = fits(replace(most, mac_lanes=None), None, here)
        if fastest:
            yield f"without --multipliers, `--fps {spelled(fastest.frames_per_second)}` fits: {lanes_and_rate(fastest)}"
    yield from _other_targets_that_fit(fps, elsewhere, fits)


def _other_targets_that_fit(fps: float | None, elsewhere: OtherTargets, fits: Fits) -> Iterator[str]:
    for name, there in elsewhere.items():
        other = fits(there.comfortable or there.most, fps, there.target, there.most)
        if other:
            yield f"`--board {name}` fits: {lanes_and_rate(other)}"


def _too_big(what: str, needs: Needs, most: Budget, hint: str) -> UserError:
    excess = most.excess(needs.whole)
    listed = ", ".join(f"{have:,} {name} of {allowed:,}" for name, (have, allowed) in excess.items())
    where = "; ".join(needs.largest(field) for field, name in RESOURCES.items() if name in excess)
    return user_error(
        "too-big",
        f"{what} {listed}",
        where=f"most {where}",
        hint=hint,
        stage="schedule",
        exit_code=ExitCode.DOES_NOT_FIT,
    )


def lanes_and_rate(design: Design) -> str:
    """Say how many lanes a design has, and how many frames a second it delivers, through the link where it has one."""
    board, rate = design.target.board, design.frames_per_second
    if isinstance(board, LinkedBoard):
        rate = min(rate, most_frames_a_second(design.network, board.link))
    return f"{design.resources().mac_lanes} lanes, {spelled(rate)} frames a second"


def spelled(fps: float) -> str:
    """Write a rate that is surely reached: whole above 100, else three digits, rounded down."""
    step = 10.0 ** min(0, floor(log10(fps)) - 2)
    return f"{floor(fps / step) * step:.12g}"
