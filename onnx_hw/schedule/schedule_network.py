"""Network to Design: every choice made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.ir.target import DesignTarget
from onnx_hw.ir.verify_design import faults_of_foldings, faults_of_repetition, verify_design
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.invariants import refuse
from onnx_hw.ops.folding import Folding
from onnx_hw.runtime.gc_pause import garbage_collection_paused
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.converters import as_resources
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.cut_products import cut_products, cuts_for, cuts_in, longest_with_cuts, worth_it
from onnx_hw.schedule.explain_no_fit import (
    Needs,
    OtherTargets,
    far_too_big,
    fifos_too_slow,
    folding_too_big,
    folding_too_slow,
    latency_too_long,
    loop_too_slow,
    nothing_fits,
    too_many_frames,
)
from onnx_hw.schedule.fold_loops import fold_loops
from onnx_hw.schedule.folding_for_interval import fold_for, resources_of
from onnx_hw.schedule.insert_forks import FORK_NAME, insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.roomy_fifos import size_fifos_within
from onnx_hw.schedule.search_folding import Search, far_too_little, far_too_much, hopeless
from onnx_hw.schedule.search_latency import LEAST, cycles_of_frame_alone, deepen_fifos, fold_for_latency
from onnx_hw.schedule.size_fifos import kept_interval, size_fifos

MIN_TRIALS = 8
"""Number of designs at least that are tried between one whose FIFOs do not fit and one whose FIFOs do."""

TRIED_NODES = 400
"""Number of nodes of all these designs together, where that is more: those of a small network are all tried."""

FINE_DIVISION = 16
"""Divisor of an interval: designs between two that differ by this part, a 16th, are tried one after the other."""

Fitting = tuple[Design, dict[str, Folding]]
"""Design that fits, and the foldings of its nodes but the gearboxes."""


@garbage_collection_paused()
def schedule_network(
    network: Network,
    budget: Budget,
    request: ScheduleRequest = ScheduleRequest(),  # noqa: B008
    *,
    target: DesignTarget,
    most: Budget | None = None,
    elsewhere: OtherTargets | None = None,
    search: Search = Search(),  # noqa: B008
) -> tuple[Design, dict[str, Folding]]:
    """Choose forks, foldings, gearboxes and FIFO depths.

    The fastest design within ``budget``; with ``request.fps`` or ``request.latency_us``, the cheapest that reaches it.
    Where the budget is too small, as little of ``most`` is added as helps; where that does not, look-up tables do the
    work of multipliers. FIFOs count against ``most``: the margin is for them, too.

    Args:
        request: rate, or the foldings of every node (after ``insert_forks``), which must keep ``most`` and the rate,
            and depths of some FIFOs; see ``size_fifos``. Its clock and lanes are in the other arguments.
        target: board, whose chip says what cores and FIFOs cost, and clock.
        most: None for no more than ``budget``.
        elsewhere: other boards by name, to be named where nothing fits here.
        search: what finds the foldings.
        cost: what cores and FIFOs cost on the chip.

    Returns:
        the design, and the foldings that were chosen: those of its nodes but the gearboxes.

    Raises:
        UserError: nothing fits; says by how much, which nodes are largest, and which options would help. Foldings that
            are given and cannot be built.
    """
    fps, foldings, depths = request.fps, request.foldings, request.depths
    network = verify_network(insert_forks(cut_products(network, cuts_in(network, foldings or ()))), "insert_forks")
    most, cost = most or budget, Cost.of(target.board.family)
    interval = None if fps is None else interval_of(fps, target.clock_mhz)
    if foldings is not None:
        refuse("folding", faults_of_foldings(network, foldings))
        design = size_fifos(_unsized(network, foldings, target), depths)
        if fps is not None and interval is not None:
            if design.interval > interval:
                raise folding_too_slow(design, fps, interval)
            if depths and (cycles := kept_interval(design)) > interval:
                raise fifos_too_slow(design, cycles, fps, interval)
        if most.excess(design.with_fifos()):
            raise folding_too_big(design, most)
        return design, dict(foldings)
    if depths:
        raise user_error(
            "fifo-depths",
            "depths of FIFOs must come with the foldings of all nodes, which decide what FIFOs there are",
            hint="foldings=..., as in the design that the depths are from",
            stage="schedule",
        )
    latency = latency_cycles(request, target.clock_mhz)
    designs = Designs(network, search, latency)
    fitting = designs.within(budget, most, target, interval)
    if latency is None:
        easily = most.easily_placed()
        room = most if fitting is None or easily.excess(fitting[0].with_fifos()) else easily
        fitting = _with_cuts(network, budget, room, target, search, interval, fitting)
    if fitting is not None:
        return fitting
    quickest = Designs(network, search, LEAST).within(budget, most, target, None) if latency else None
    if quickest is not None and request.latency_us is not None:
        raise latency_too_long(quickest[0], cycles_of_frame_alone(quickest[0]), request.latency_us)
    fastest = designs.within(budget, most, target, None) if network.loops and interval is not None else None
    if fps is not None and fastest is not None and fastest[0].slowest_loop is not None:
        raise loop_too_slow(fastest[0], fps)
    least = designs.far_beyond(most, cost)
    if least is not None:
        raise far_too_big(least, without_lanes(most), fps, elsewhere or {}, designs.fits)
    cheapest = designs.cheapest(interval, most.pins, cost)
    if cheapest is None:
        if fps is not None and fold_for(network, longest_interval(network)) is not None:
            raise too_many_frames(network, fps, target.clock_mhz)
        raise _scheduled_before(network)
    smallest = _unsized(network, cheapest, target)
    if not most.excess(smallest.resources()):
        smallest = size_fifos(smallest)
    raise nothing_fits(smallest, most, fps, elsewhere or {}, designs.fits)


@garbage_collection_paused()
def design_at_rate(
    network: Network,
    budget: Budget,
    fps: float,
    *,
    target: DesignTarget,
    most: Budget,
    search: Search = Search(),  # noqa: B008
) -> tuple[Design, dict[str, Folding]] | None:
    """Return the cheapest design of a rate, as ``schedule_network`` does; None if it would raise an error, which is
    not worked out.
    """
    network = verify_network(insert_forks(network), "insert_forks")
    return Designs(network, search).within(budget, most, target, interval_of(fps, target.clock_mhz))


@garbage_collection_paused()
def has_slow_design(network: Network, most: Budget, *, target: DesignTarget, search: Search = Search()) -> bool:  # noqa: B008
    """Return whether the cheapest design of all fits, at the longest interval; a faster one may fit where it does not.

    Arguments as for ``schedule_network``.
    """
    network = verify_network(insert_forks(network), "insert_forks")
    return Designs(network, search).slowest(most, target) is not None


def _with_cuts(
    network: Network,
    budget: Budget,
    most: Budget,
    target: DesignTarget,
    search: Search,
    interval: int | None,
    whole: tuple[Design, dict[str, Folding]] | None,
) -> tuple[Design, dict[str, Folding]] | None:
    """Return the design with some products in two cuts, where it is clearly faster than that of whole products, or the
    only one that is fast enough; else ``whole``.

    Arguments as for ``Designs.within``, whose result ``whole`` is.
    """
    offers = Offers(network, Cost.of(target.board.family), in_logic=budget.in_logic)
    longest = longest_with_cuts(offers, budget, interval, None if whole is None else whole[0].interval)
    for cuts in [] if longest is None else cuts_for(offers, budget, longest):
        in_two = insert_forks(cut_products(network, cuts))
        fitting = Designs(in_two, search).within(budget, most, target, interval)
        if fitting is not None and worth_it(fitting[0], whole and whole[0]):
            return fitting
    return whole


class Designs:
    """The designs of a network with its forks. What is known of them is kept: budgets and targets are many.

    Args:
        latency: cycles of a frame alone at most, for the cheapest design; ``LEAST`` for the least latency; None where
            the interval counts.
    """

    def __init__(self, network: Network, search: Search = Search(), latency: int | None = None) -> None:  # noqa: B008
        self._network, self._search, self._latency = network, search, latency
        self._longest = longest_interval(network)
        self._offers: dict[Cost, Offers] = {}
        self._cheapest: dict[tuple[int, int | None, Cost], dict[str, Folding] | None] = {}

    def within(
        self, budget: Budget, most: Budget, target: DesignTarget, interval: int | None
    ) -> tuple[Design, dict[str, Folding]] | None:
        """Return the design within a budget, or, where it is too small, within as little of ``most`` beside it as
        helps; None if no design fits.

        Args:
            interval: cycles from frame to frame at most, for the cheapest design; None for the fastest one.
        """
        rooms = dict.fromkeys((most.easily_placed(), most))
        return next(filter(None, (self._within(budget, room, target, interval) for room in rooms)), None)

    def _within(
        self, budget: Budget, most: Budget, target: DesignTarget, interval: int | None
    ) -> tuple[Design, dict[str, Folding]] | None:
        cost = Cost.of(target.board.family)
        if self._is_far_beyond(most, cost):
            return None
        fitting = self._fitting(budget, most, target, interval)
        cheapest = None if fitting is not None else self.cheapest(interval, most.pins, cost)
        if cheapest is None or self._hopeless(most, cost):
            return fitting
        stretched = budget.stretched(resources_of(self._network, cheapest, cost), most)
        _, *more = self._search.rooms(budget, stretched, most)
        return next(filter(None, (self._fitting(room, most, target, interval) for room in more)), None)

    def slowest(self, most: Budget, target: DesignTarget) -> tuple[Design, dict[str, Folding]] | None:
        """Return the cheapest design of the longest interval; None if it does not fit."""
        if self._is_far_beyond(most, Cost.of(target.board.family)):
            return None
        return self._fitting(most, most, target, self._longest)

    def fits(self, budget: Budget, fps: float | None, target: DesignTarget, /, *more: Budget) -> Design | None:
        """Return the design within the first budget that is large enough; see ``Fits``."""
        interval = None if fps is None else interval_of(fps, target.clock_mhz)
        largest = more[-1] if more else budget
        if self._hopeless(largest, Cost.of(target.board.family)):
            return None
        for room in self._search.rooms(budget, *more):
            fitting = self._fitting(room, largest, target, interval)
            if fitting is not None:
                return fitting[0]
        return None

    def far_beyond(self, room: Budget, cost: Cost) -> Needs | None:
        """Return what every design takes at least, if that is surely more than there is, lanes aside."""
        if self._needs_more_pins(room):
            return Needs.narrowest_streams(self._network)
        least = far_too_much(self._offers_at(cost), without_lanes(room))
        if least is None:
            return None
        return Needs.sum_of({name.removeprefix(FORK_NAME): as_resources(used) for name, used in least.items()})

    def _is_far_beyond(self, room: Budget, cost: Cost) -> bool:
        """Return whether ``far_beyond`` is more than there is."""
        return self._needs_more_pins(room) or far_too_little(self._offers_at(cost), without_lanes(room))

    def _needs_more_pins(self, room: Budget) -> bool:
        """Return whether the streams outside are too wide even with an element a beat."""
        return room.pins is not None and Needs.narrowest_streams(self._network).whole.pins > room.pins

    def cheapest(self, interval: int | None, pins: int | None, cost: Cost) -> dict[str, Folding] | None:
        """Return the cheapest folding of this interval (None for the longest one), or of a shorter one where neighbours
        do not come together.
        """
        least = self._longest if interval is None else interval
        key = least, pins, cost
        if key not in self._cheapest:
            shorter = (least * sixteenths // 16 for sixteenths in range(16, 7, -1))
            folded = (fold_for(self._network, cycles, pins, cost) for cycles in shorter if cycles)
            self._cheapest[key] = next((foldings for foldings in folded if foldings is not None), None)
        return self._cheapest[key]

    def _hopeless(self, room: Budget, cost: Cost) -> bool:
        """Return whether no design fits, with any number of multipliers, whose work look-up tables might do."""
        return hopeless(self._offers_at(cost), replace(room, dsp=None))

    def _fitting(
        self, room: Budget, most: Budget, target: DesignTarget, interval: int | None
    ) -> tuple[Design, dict[str, Folding]] | None:
        """Return the design whose nodes take no more than ``room``, and with its FIFOs no more than ``most``; None if
        no design does.

        FIFOs can be sized only after folding: where they do not fit, a design is tried whose nodes leave them the block
        RAMs and logic cells that they lack; then a slower one, whose streams are narrower, and then those between.
        """
        quickly = not self._search.least_fifos and self._latency is None
        fitting, surely = self._first_that_fits(room, most, target, interval, quickly)
        if surely or not self._search.thorough:
            return fitting
        return self._first_that_fits(room, most, target, interval, quickly=False)[0]

    def _first_that_fits(
        self, room: Budget, most: Budget, target: DesignTarget, interval: int | None, quickly: bool
    ) -> tuple[tuple[Design, dict[str, Folding]] | None, bool]:
        """Return what ``_fitting`` returns, and whether that is sure.

        Args:
            quickly: whether FIFOs need not be the least ones; see ``Search.least_fifos``.
        """
        cost, latency, surely = Cost.of(target.board.family), self._latency, True
        whole, slower, last, tries, first = room, 0, 0, 0, 0
        while True:
            if interval is None:
                chosen = self._search.fastest(self._network, room, slower, cost)
            else:
                chosen = self._search.cheapest(self._network, room, interval, cost)
            if chosen is not None and self._network.loops and self._search.for_loops:
                chosen = fold_loops(self._network, chosen, room, target, cost, interval=interval, slower=slower)
            if chosen is not None and latency is not None:
                chosen = fold_for_latency(self._network, chosen, room, target, cost, latency=latency)
            if chosen is not None:
                unsized = _unsized(self._network, chosen, target)
                roomy = size_fifos_within(unsized, most) if quickly else None
                design = roomy or size_fifos(unsized, room=most)
                if latency is not None:
                    design = deepen_fifos(design)
                late = cycles_of_frame_alone(design) - self._latency if self._latency else 0
                if late > 0 and latency is not None:  # FIFOs as deep as the interval needs may cost a few cycles
                    latency -= late
                    if latency > 0:
                        continue
                    return None, surely
                if not most.excess(design.with_fifos()):
                    fitting = design, chosen
                    return self._faster(fitting, first, whole, most) if interval is None else fitting, True
                surely &= roomy is None
                last = design.interval
                first = first or last
                tighter = _leaving_for_fifos(room, design, most) if tries < self._search.tighter_rooms else None
                if tighter is not None:
                    room, tries = tighter, tries + 1
                    continue
            if interval is not None or slower == self._longest or (chosen is None and room == whole):
                return None, surely
            slower = max(slower, last)
            slower += max(slower // 2 if self._search.thorough else 3 * slower, 1)
            slower, room, tries = min(slower, self._longest), whole, 0

    def _faster(self, fitting: Fitting, first: int, room: Budget, most: Budget) -> Fitting:
        """Return the fastest of some designs of more than ``first`` cycles that fit with their FIFOs, if it is faster
        than one that fits; else that one.

        FIFOs do not grow evenly with the rate: that of ``first`` cycles does not fit, one that is a little slower may,
        and one between it and ``fitting`` may not. A small network has few designs between, which are all tried.

        Args:
            first: cycles of the fastest design whose cores fit; 0 where its FIFOs fit, too.
            room, most: as in ``_fitting``.
        """
        if not first or self._latency is not None or self._network.loops or not self._search.least_fifos:
            return fitting
        left, low, high = max(MIN_TRIALS, TRIED_NODES // len(self._network.nodes)), first, fitting[0].interval - 1
        while left > 0 and high - low > high // FINE_DIVISION:
            middle = (low + high) // 2
            faster, _, trials = self._beside_fifos(room, most, fitting[0].target, middle, first)
            left -= trials
            if faster is None:
                low = middle
            else:
                fitting, high = faster, faster[0].interval - 1
        longest = fitting[0].interval - 1
        while left > 0 and longest > first:
            faster, cycles, trials = self._beside_fifos(room, most, fitting[0].target, longest, first)
            fitting, left, longest = faster or fitting, left - trials, min(longest, cycles) - 1
        return fitting

    def _beside_fifos(
        self, room: Budget, most: Budget, target: DesignTarget, longest: int, first: int
    ) -> tuple[Fitting | None, int, int]:
        """Return the cheapest design of at most ``longest`` and more than ``first`` cycles, if it fits with its FIFOs,
        or one with smaller cores; the least cycles of those tried; and their number.
        """
        cost, cycles = Cost.of(target.board.family), longest
        for trial in range(1, 2 + self._search.tighter_rooms):
            chosen = self._search.cheapest(self._network, room, longest, cost)
            unsized = chosen and _unsized(self._network, chosen, target)
            if chosen is None or not unsized or unsized.interval <= first:
                return None, cycles if trial > 1 else first, trial
            cycles = min(cycles, unsized.interval)
            design = size_fifos(unsized, room=most)
            if not most.excess(design.with_fifos()):
                return (design, chosen), cycles, trial
            tighter = _leaving_for_fifos(room, design, most)
            if tighter is None:
                break
            room = tighter
        return None, cycles, trial

    def _offers_at(self, cost: Cost) -> Offers:
        if cost not in self._offers:
            self._offers[cost] = Offers(self._network, cost)
        return self._offers[cost]


def without_lanes(room: Budget) -> Budget:
    """Return a budget without bounds of multipliers and lanes: look-up tables might do the work of multipliers, and
    another number of lanes might be asked for.
    """
    return replace(room, dsp=None, mac_lanes=None)


def interval_of(fps: float, clock_mhz: float) -> int:
    """Return the most cycles from one frame to the next for a rate, which must be positive (else ``UserError``)."""
    if not (math.isfinite(fps) and fps > 0):
        raise user_error("fps", f"the frames per second must be a positive number, not {fps:g}", stage="arguments")
    return math.floor(Fraction(str(clock_mhz)) * 1_000_000 / Fraction(str(fps)))


def latency_cycles(request: ScheduleRequest, clock_mhz: float) -> int | None:
    """Return the most cycles of a frame alone; ``LEAST`` for as few as possible, None for any number."""
    if request.latency_us is None:
        return LEAST if request.wants_latency else None
    return math.floor(Fraction(str(clock_mhz)) * Fraction(str(request.latency_us)))


def _scheduled_before(network: Network) -> UserError:
    """Return the error of a node without an interval, whose folding follows from those of its neighbours."""
    longest = longest_interval(network)
    (node, *_) = (node for node in network.nodes if next(node.operator.foldings(longest), None) is None)
    return user_error(
        "network-scheduled",
        "a network that is to be scheduled must not have been scheduled before: this node joins streams of widths that "
        "were chosen",
        where=f"node `{node.name}`",
        hint="take the network that the design was made of",
        stage="schedule",
    )


def _leaving_for_fifos(room: Budget, design: Design, most: Budget) -> Budget | None:
    """Return the budget for smaller cores; None where no other cores would help: see ``Budget.leaving_for_fifos``."""
    return room.leaving_for_fifos(design.resources(), design.with_fifos(), most)


def _unsized(network: Network, foldings: Mapping[str, Folding], target: DesignTarget) -> Design:
    """Return the design without FIFOs."""
    refuse("folding", faults_of_repetition(network, foldings))
    with_gearboxes, all_foldings = insert_gearboxes(network, foldings)
    design = Design(with_gearboxes, all_foldings, target=target)
    return verify_design(design, "insert_gearboxes", sized=False)
