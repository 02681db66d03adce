"""The search where many branches are open at once: against all choices of small networks, and within little memory."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Network
from onnx_hw.ops.add import Add
from onnx_hw.ops.concat import CHANNELS, Concat
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule import coordinate_descent, cost_table, knapsack
from onnx_hw.schedule.budget import RESOURCES, WEIGHTS, Budget
from onnx_hw.schedule.candidates import Alternative, Alternatives, Offers
from onnx_hw.schedule.coordinate_descent import TableSize
from onnx_hw.schedule.cost_model import cost
from onnx_hw.schedule.cost_table import CostTable
from onnx_hw.schedule.folding_for_interval import fold_for
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.knapsack import CheapestOfEach
from onnx_hw.schedule.min_cycles import longest_interval
from support.hand_built_designs import Sketch

PRICES = np.array([WEIGHTS[field] for field in RESOURCES], dtype=float)
SEEDS = 12
LANES = list(RESOURCES).index("mac_lanes")


class Drawing(Sketch):
    """A network under construction, of cores as narrow as can be."""

    def core(self, operator: Operator, *inputs: str) -> str:
        (output,) = self.add(f"core{len(self.nodes)}", operator, list(inputs), operator.narrowest, 1)
        return output

    def matmul(self, x: str, outputs: int) -> str:
        tensor = self.tensors[x]
        return self.core(MatMul(tensor, np.arange(outputs * tensor.channels).reshape(outputs, -1) % 15 - 7), x)

    def concat(self, *inputs: str) -> str:
        return self.core(Concat(tuple(self.tensors[x] for x in inputs), CHANNELS), *inputs)


def drawn(random: np.random.Generator) -> Network:
    """Several cores that each read one or two of all tensors before; what is left is joined."""
    sketch = Drawing()
    ends = [sketch.input("x", Tensor((2, 2, 4), Int(8)))]
    open_ends = set(ends)
    for _ in range(int(random.integers(3, 5))):
        x, y = random.choice(ends, 2)
        kind = random.integers(3)
        if kind == 0 and x != y and sketch.tensors[x] == sketch.tensors[y]:
            output = sketch.core(Add(sketch.tensors[x], sketch.tensors[y]), x, y)
            open_ends.discard(y)
        elif kind == 1:
            output = sketch.core(Pool(sketch.tensors[x], "max", (1, 1)), x)
        else:
            output = sketch.matmul(x, 4)
        open_ends.discard(x)
        ends.append(output)
        open_ends.add(output)
    if len(open_ends) > 1:
        sketch.concat(*sorted(open_ends))
    return insert_forks(sketch.design().network)


def dense(layers: int) -> Network:
    """A block in which each layer reads the outputs of all layers before it."""
    sketch = Drawing()
    features = [sketch.input("x", Tensor((4, 4, 4), Int(8)))]
    for _ in range(layers):
        x = sketch.concat(*features) if len(features) > 1 else features[0]
        sums = sketch.matmul(x, 4)
        features.append(sketch.core(Pool(sketch.tensors[sums], "max", (1, 1)), sums))
    sketch.concat(*features)
    return insert_forks(sketch.design().network)


def few_of(alternatives: Alternatives, random: np.random.Generator, most: int) -> Alternatives:
    """At most so many alternatives of each node, the first one among them."""
    return {
        name: [some[0], *(some[k] for k in sorted(random.permutation(np.arange(1, len(some)))[: most - 1]))]
        for name, some in alternatives.items()
    }


def price_of(offers: Offers, chosen: dict[str, Alternative], interval: int) -> float:
    """The price of a choice, of its nodes and of what lies between them."""
    price = sum(float(one.used @ PRICES) + one.fifos for one in chosen.values())
    for node in offers.network.nodes:
        for tensor, taken in zip(node.inputs, chosen[node.name].input_orders, strict=True):
            maker = offers.network.producer(tensor)
            if maker is not None:
                given = chosen[maker[0].name].output_orders[maker[1]]
                if not given.alike(taken):
                    between = offers.between(given, taken)
                    price += float(between.used @ PRICES) + between.fifos
                    price += np.inf if between.cycles > interval else 0
    return price


def cheapest_of_all(offers: Offers, alternatives: Alternatives, interval: int, room: float) -> float:
    """The least price of all choices that leave enough lanes, tried one after the other."""
    choices = (dict(zip(alternatives, choice, strict=True)) for choice in product(*alternatives.values()))
    possible = (chosen for chosen in choices if sum(one.used[LANES] for one in chosen.values()) <= room)
    return min(price_of(offers, chosen, interval) for chosen in possible)


@pytest.mark.parametrize(("rounds", "share_right"), [(None, 1), (0, 0.2), (3, 0.8)], ids=["at once", "cut", "refined"])
def test_choice_is_the_cheapest_of_all(rounds: int | None, share_right: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly where the table is small; else each choice is possible, and most refined ones are the cheapest."""
    if rounds is not None:
        monkeypatch.setattr(coordinate_descent, "MAX_ROUNDS", rounds)
        monkeypatch.setattr(knapsack, "MAX_SIZE", TableSize(0, 0))
        monkeypatch.setattr(coordinate_descent, "BLOCK", TableSize(20, 10_000))
    right = 0
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        network = drawn(random)
        offers, interval = Offers(network, cost), longest_interval(network)
        offered = offers.at(interval // 2, Budget())
        assert offered is not None
        alternatives = few_of(offered, random, 2 if len(network.nodes) > 8 else 3)
        amounts = [[int(one.used[LANES]) for one in some] for some in alternatives.values()]
        room = int(random.integers(sum(map(min, amounts)), sum(map(max, amounts)) + 1))
        choice = CheapestOfEach(offers, alternatives, interval, LANES, room).at(PRICES, 1)
        least = cheapest_of_all(offers, alternatives, interval, room)
        assert choice is not None
        assert choice.used[LANES] <= room
        assert sum(one.used[LANES] for one in choice.chosen.values()) <= room
        assert choice.price >= least - 1e-6
        assert choice.price == pytest.approx(price_of(offers, choice.chosen, interval))
        assert choice.exact == (rounds is None)
        right += choice.price <= least + 1e-6
    assert right >= share_right * SEEDS


def test_a_bound_that_is_kept_is_no_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table with an axis for the scarce resource is made only where the cheapest choice takes too much of it."""
    rooms: list[int] = []
    init = CostTable.__init__

    def recorded(self: CostTable, room: int, *limit: int) -> None:
        rooms.append(room)
        init(self, room, *limit)

    monkeypatch.setattr(CostTable, "__init__", recorded)
    prices, tight = PRICES.copy(), 0
    prices[LANES] = -1000  # else the cheapest choice always takes the fewest
    for seed in range(SEEDS):
        network = drawn(np.random.default_rng(seed))
        offers, interval = Offers(network, cost), longest_interval(network)
        alternatives = offers.at(interval // 2, Budget())
        assert alternatives is not None
        free = CheapestOfEach(offers, alternatives, interval, LANES, np.inf).at(prices, 1)
        assert free is not None
        enough = int(free.used[LANES])
        rooms.clear()
        kept = CheapestOfEach(offers, alternatives, interval, LANES, enough).at(prices, 1)
        assert kept is not None
        assert kept.price == pytest.approx(free.price)
        assert set(rooms) == {0}
        if enough > sum(min(int(one.used[LANES]) for one in some) for some in alternatives.values()) + 1:
            tight += 1
            problem = CheapestOfEach(offers, alternatives, interval, LANES, enough - 1)
            less, beyond = problem.at(prices, 1), problem.at(prices, 1, beyond=free.price - 1)
            assert less is not None
            assert less.used[LANES] < enough
            assert less.price >= free.price
            assert beyond is not None
            assert beyond.price == pytest.approx(free.price)
    assert tight > 0


def test_tables_of_a_dense_block_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not exponential in the branches; and a table that would be too large is not made first and cut then."""
    sizes: list[int] = []
    replace = CostTable._replace

    def recorded(self: CostTable, prices: np.ndarray, axes: list[cost_table.Axis]) -> None:
        sizes.append(prices.size)
        replace(self, prices, axes)

    monkeypatch.setattr(CostTable, "_replace", recorded)
    monkeypatch.setattr(cost_table, "STEP_FACTOR", 1)
    monkeypatch.setattr(knapsack, "MAX_TABLE_ENTRIES", 2_000)
    monkeypatch.setattr(knapsack, "MAX_SIZE", TableSize(4_000, 2_000_000))
    monkeypatch.setattr(coordinate_descent, "BLOCK", TableSize(4_000, 200_000))
    network = dense(14)
    foldings = fold_for(network, longest_interval(network) // 2)
    assert foldings is not None
    assert 400 < max(sizes) <= 2_000
