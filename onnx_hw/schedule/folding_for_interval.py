"""The cheapest folding of every node with which a frame takes at most a number of cycles, within a budget.

One resource is scarce and counted exactly: MAC lanes or multipliers. The others have prices, Lagrange multipliers,
which are raised until there is enough of everything. Where at the prices of some resources alone even the cheapest
choice costs more than all there is of them, no choice keeps the budget.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnx_hw.ir.design import pins_of
from onnx_hw.ir.network import Network
from onnx_hw.ops.convert_order import conversion
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Resources
from onnx_hw.ops.stream_order import Order
from onnx_hw.schedule.budget import RESOURCES, WEIGHTS, Budget
from onnx_hw.schedule.candidates import Alternatives, Offers, allowed_by
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.cost_model import cost as own_cost
from onnx_hw.schedule.knapsack import CheapestOfEach, Selection

PRICE_ROUNDS = 12
"""Number of times that prices are raised at most."""

MIN_PRICES = np.array([WEIGHTS[field] or {"mac_lanes": 1, "pins": 100, "ff": 1}[field] for field in RESOURCES])
"""Price that the prices are raised from."""

MAX_PRICE_LUTS = 1e6
"""Price in LUTs that nothing outweighs."""

PRICE_SHARE_OF_ENOUGH = 0.25
"""Price of all there is of a resource, relative to that of a resource of which there is too little."""

LANES, DSP, LUT, PINS = (list(RESOURCES).index(field) for field in ("mac_lanes", "dsp", "lut", "pins"))


def fold(offers: Offers, interval: int, budget: Budget) -> dict[str, Folding] | None:
    """Return cheap foldings with which every core keeps ``interval``, in cycles; None if the budget has none."""
    alternatives = offers.at(interval, budget)
    if alternatives is None:
        return None
    allowed = allowed_by(budget)
    problem = _problem(offers, alternatives, interval, allowed)
    prices = np.array([WEIGHTS[field] for field in RESOURCES], dtype=float)
    if offers.in_logic:
        prices[DSP] = 0  # they are there to be used; what they spare is look-up tables
    exceeded = np.zeros(len(RESOURCES), dtype=bool)
    for _ in range(PRICE_ROUNDS):
        choice = problem.at(prices, prices[LUT])
        if choice is None:
            return None
        over = choice.used > allowed
        if not over.any():
            return _with_multipliers(offers, choice, allowed)
        if (over & ~exceeded).any():
            exceeded |= over
            shares = np.where(exceeded, 1 / np.maximum(allowed, 1), 0)
            all_there_is = float(shares @ np.where(exceeded, allowed, 0)) + 1e-9
            least = problem.at(shares, 0, beyond=all_there_is)
            assert least is not None, "at other prices there was a choice"
            if (least.used <= allowed).all():
                return _with_multipliers(offers, least, allowed)
            if least.exact and least.price > all_there_is:
                return None
        ratio = choice.used / np.maximum(allowed, 1)
        prices = np.where(over, np.maximum(prices, MIN_PRICES) * np.clip(ratio**4, 1.25, 8), prices)
    return None


def impossible(offers: Offers, interval: int, budget: Budget) -> bool:
    """Return whether surely no choice at an interval keeps a budget: each of those offered needs more of one thing than
    there is, or more of what the cheapest has too much of.
    """
    alternatives, allowed = offers.at(interval, budget), allowed_by(budget)
    if alternatives is None:
        return offers.at(interval, Budget()) is not None
    problem = _problem(offers, alternatives, interval, allowed)
    prices = np.array([WEIGHTS[field] for field in RESOURCES], dtype=float)
    choice = problem.at(prices, prices[LUT])
    return choice is not None and _exceeds(problem, choice.used > allowed, allowed)


def _exceeds(problem: CheapestOfEach, over: np.ndarray, allowed: np.ndarray) -> bool:
    """Return whether every choice costs more than all there is, at prices of mostly what the cheapest has too much of.

    A little for everything else rules most of what lies between neighbours out, which need not be priced then.
    """
    if not over.any():
        return False
    worth = np.where(np.isfinite(allowed) & (allowed > 0), allowed, np.inf)
    prices = (over + PRICE_SHARE_OF_ENOUGH * np.array([weight > 0 for weight in WEIGHTS.values()])) / worth
    some = np.isfinite(worth)
    all_there_is = float(prices[some] @ worth[some]) + 1e-9
    least = problem.at(prices, 0, beyond=all_there_is)
    return least is not None and least.exact and least.price > all_there_is


def fold_for(
    network: Network, interval: int, pins: int | None = None, cost: Cost = own_cost
) -> dict[str, Folding] | None:
    """Foldings with which every core finishes a frame in ``interval`` cycles; None if a node cannot, or what lies
    between two of them: neighbours with several pixels a beat must agree where one is too slow.

    Where ``pins`` bounds them, the streams of the outside are as narrow as that, or as they can be.
    """
    offers = Offers(network, cost)
    foldings = fold(offers, interval, Budget(pins=pins))
    if foldings is None and pins is not None:
        alternatives = offers.at(interval, Budget())
        if alternatives is not None:
            prices = np.array([WEIGHTS[field] for field in RESOURCES], dtype=float)
            prices[PINS] = MAX_PRICE_LUTS
            choice = _problem(offers, alternatives, interval, allowed_by(Budget())).at(prices, prices[LUT])
            foldings = None if choice is None else _foldings(choice)
    return foldings


def _problem(offers: Offers, alternatives: Alternatives, interval: int, allowed: np.ndarray) -> CheapestOfEach:
    """Return the problem in which that resource is scarce of which there is least more than must be; multipliers, where
    look-up tables may do their work.
    """
    if offers.in_logic and np.isfinite(allowed[DSP]):
        return CheapestOfEach(offers, alternatives, interval, DSP, float(allowed[DSP]))
    nothing = np.zeros(len(RESOURCES), dtype=np.int64)
    least = sum((np.min([one.used for one in some], axis=0) for some in alternatives.values()), nothing)
    scarce = min((LANES, DSP), key=lambda field: float((allowed - least)[field]))
    return CheapestOfEach(offers, alternatives, interval, scarce, float(allowed[scarce]))


def _with_multipliers(offers: Offers, choice: Selection, allowed: np.ndarray) -> dict[str, Folding]:
    """Return the foldings in which multipliers that are left do the work of look-up tables, most of them first."""
    foldings, left = _foldings(choice), float(allowed[DSP] - choice.used[DSP])
    soft = {name: one for name, one in choice.chosen.items() if one.folding.in_logic}
    offered = {name: offers.in_hardware(name, one) for name, one in soft.items()}
    hard = {name: one for name, one in offered.items() if one is not None}
    spared = {name: int(soft[name].used[LUT] - hard[name].used[LUT]) for name in hard}
    for name in sorted(hard, key=lambda name: -spared[name]):
        if spared[name] > 0 and hard[name].used[DSP] <= left:
            foldings[name] = hard[name].folding
            left -= hard[name].used[DSP]
    return foldings


def _foldings(choice: Selection) -> dict[str, Folding]:
    return {name: one.folding for name, one in choice.chosen.items()}


def between(given: Order, wanted: Order, cost: Cost = own_cost) -> Resources:
    """Return the cost of the converters between neighbours that do not agree."""
    return sum((cost(operator, folding) for operator, folding in conversion(given, wanted)), Resources())


def resources_of(network: Network, foldings: Mapping[str, Folding], cost: Cost = own_cost) -> Resources:
    """Return the estimates of all nodes and of the gearboxes between them, and the pins."""
    total = _ends(network, foldings)
    sent: dict[str, Order] = {}
    for node in network.nodes:
        sent.update(zip(node.outputs, node.operator.output_orders(foldings[node.name]), strict=True))
    for node in network.nodes:
        total += cost(node.operator, foldings[node.name])
        for tensor, wanted in zip(node.inputs, node.operator.input_orders(foldings[node.name]), strict=True):
            if tensor in sent:
                total += between(sent[tensor], wanted, cost)
    return total


def _ends(network: Network, foldings: Mapping[str, Folding]) -> Resources:
    """Return the pins of the streams of the outside."""
    pins = 0
    for boundary in network.inputs:
        readers = network.consumers(boundary.tensor)
        pins += max(pins_of(node.operator.input_orders(foldings[node.name])[k]) for node, k in readers)
    for boundary in network.outputs:
        producer = network.producer(boundary.tensor)
        assert producer is not None
        node, k = producer
        pins += pins_of(node.operator.output_orders(foldings[node.name])[k])
    return Resources(pins=pins)
