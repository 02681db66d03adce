"""Foldings: within the budget, close to the bound, legal everywhere; forks and gearboxes where they belong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Network
from onnx_hw.ops.add import Add
from onnx_hw.ops.folding import ElementFolding, EvenFolding, SlidingFolding
from onnx_hw.ops.gearbox import GearboxFolding
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.cost_model import cost
from onnx_hw.schedule.folding_for_interval import fold, fold_for, resources_of
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.search_folding import choose_folding
from support.design_bench import every_tensor, random_frames
from support.hand_built_designs import Sketch

i8 = Int(8)


def convolutions(size: int, channels: tuple[int, ...]) -> Network:
    """A chain of 3×3 convolutions, without requantizers: the accumulators are fed on."""
    generator = np.random.default_rng(1)
    sketch = Sketch()
    name = sketch.input("x", Tensor((size, size, channels[0]), i8))
    for k, outputs in enumerate(channels[1:]):
        window = Window(sketch.tensors[name], (3, 3), pads=(1, 1, 1, 1))
        (name,) = sketch.add(f"window{k}", window, [name], (1, 1), 1)
        weights = generator.integers(-8, 8, (outputs, sketch.tensors[name].channels))
        (name,) = sketch.add(f"conv{k}", MatMul(sketch.tensors[name], weights), [name], (1, 1), 1)
    return sketch.design().network


@settings(max_examples=15)
@given(st.integers(4, 12), st.lists(st.integers(1, 24), min_size=2, max_size=4), st.integers(6, 150))
def test_the_budget_holds_and_the_interval_is_near_the_bound(size: int, channels: list[int], lanes: int) -> None:
    network = convolutions(size, tuple(channels))
    foldings = choose_folding(network, Budget(mac_lanes=lanes))
    assert foldings is not None
    used = resources_of(network, foldings)
    assert used.mac_lanes <= lanes
    for node in network.nodes:
        assert node.operator.illegal(foldings[node.name]) == ""
    interval = max(node.operator.cycles(foldings[node.name]) for node in network.nodes)
    macs = sum(node.operator.macs for node in network.nodes)
    assert macs <= used.mac_lanes * interval  # no circuit does more than its lanes allow
    # no other folding of the same interval has fewer lanes: each layer takes ceil(MACs / interval) at least
    bound = sum(-(-node.operator.macs // interval) for node in network.nodes if node.operator.macs)
    assert used.mac_lanes <= 2 * bound


def test_a_faster_design_takes_more_lanes() -> None:
    network = convolutions(8, (3, 16, 16))
    lanes = []
    for interval in (20000, 5000, 1000, 400):
        foldings = fold_for(network, interval)
        assert foldings is not None
        assert all(node.operator.cycles(foldings[node.name]) <= interval for node in network.nodes)
        lanes.append(resources_of(network, foldings).mac_lanes)
    assert lanes == sorted(lanes) and lanes[0] < lanes[-1]


@pytest.mark.parametrize(
    ("size", "channels", "interval", "budget"),
    [(4, (1, 7), 192, Budget(lut=339, ff=661)), (4, (6, 8), 384, Budget(ff=1513)), (2, (2, 6), 64, Budget(lut=465))],
)
def test_what_has_least_of_the_scarce_is_taken(
    size: int, channels: tuple[int, ...], interval: int, budget: Budget
) -> None:
    """Prices that are raised step by step come to no design within these budgets; the least at once is one."""
    network = convolutions(size, channels)
    foldings = fold(Offers(network, cost), interval, budget)
    assert foldings is not None and all(n.operator.cycles(foldings[n.name]) <= interval for n in network.nodes)
    assert budget.excess(resources_of(network, foldings)) == {}


@pytest.mark.parametrize(
    ("size", "channels", "interval", "budget"),
    [
        (2, (4, 6), 128, Budget(lut=610, ff=880)),
        (4, (5, 1, 8), 256, Budget(lut=1101, ff=1900)),
        (4, (8, 4, 5), 192, Budget(lut=2721, ff=3950)),
    ],
)
def test_prices_are_raised_until_there_is_enough_of_everything(
    size: int, channels: tuple[int, ...], interval: int, budget: Budget
) -> None:
    """What is cheapest takes too many flip-flops, what has least of these too many look-up tables; between both are
    designs that fit.
    """
    network = convolutions(size, channels)
    offers = Offers(network, cost)
    cheapest = fold(offers, interval, Budget())
    assert cheapest is not None and "flip-flops" in budget.excess(resources_of(network, cheapest))
    foldings = fold(offers, interval, budget)
    assert foldings is not None and budget.excess(resources_of(network, foldings)) == {}


def test_nothing_is_faster_than_a_row_per_cycle() -> None:
    assert fold_for(convolutions(8, (3, 4)), 8) is not None
    assert fold_for(convolutions(8, (3, 4)), 7) is None


def residual() -> Network:
    """``x`` feeds two operators and leaves the network too."""
    sketch = Sketch()
    x = sketch.input("x", Tensor((2, 2, 4), i8))
    (y,) = sketch.add("double", Add(sketch.tensors[x], sketch.tensors[x]), [x, x], (2, 2), 1)
    sketch.add("most", Reduce(sketch.tensors[y], "max"), [y], (3, 3), 1)
    return sketch.design().network


def test_forks_give_every_tensor_one_consumer() -> None:
    network = insert_forks(residual())
    for tensor in network.tensors:
        assert len(network.consumers(tensor)) + sum(b.tensor == tensor for b in network.outputs) <= 1
    frames = {"x": np.arange(16).reshape(1, 2, 2, 4)}
    plain, forked = every_tensor(residual(), frames), every_tensor(network, frames)
    assert np.array_equal(plain["most.o"], forked["most.o"])


def test_gearboxes_stand_where_lanes_differ() -> None:
    network = insert_forks(residual())
    foldings = {node.name: ElementFolding(2) for node in network.nodes} | {"most": EvenFolding(3)}
    widened, all_foldings = insert_gearboxes(network, foldings)
    new = [node for node in widened.nodes if node.name not in foldings]
    assert [all_foldings[node.name] for node in new] == [GearboxFolding(2, 3)]
    assert widened.producer(new[0].inputs[0])[0].name == "double"  # type: ignore[index]
    frames = random_frames(Sketch(inputs=["x"], tensors={"x": Tensor((2, 2, 4), i8)}).design(), 1, 0)
    assert np.array_equal(every_tensor(widened, frames)["most.o"], every_tensor(network, frames)["most.o"])


@pytest.mark.parametrize("what", ["mac_lanes", "dsp", "lut", "bram"])
def test_excess_is_told(what: str) -> None:
    used = resources_of(convolutions(8, (3, 16)), {"window0": SlidingFolding(3, 27), "conv0": MatMulFolding(27, 16)})
    assert Budget(**{what: 10_000_000}).excess(used) == {}
    assert (len(Budget(**{what: 0}).excess(used)) == 1) == (getattr(used, what) > 0)
