"""The search for the least latency, against all legal foldings of small networks, and against the simulated circuit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.schedule_request import ScheduleRequest, SpeedGoal
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.cost_model import cost
from onnx_hw.schedule.folding_for_interval import fold_for, resources_of
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.search_latency import cycles_of_frame_alone, fold_for_latency, frame_alone
from support.hand_built_designs import Sketch
from support.legal_foldings import legal
from support.targets import ecp5_at


def drawn(random: np.random.Generator) -> Network:
    """Return two or three products in a chain, one of them perhaps before a pool."""
    sketch = Sketch()
    rows, columns = int(random.choice((1, 2, 4))), 1
    x = sketch.input("x", Tensor((rows, columns, int(random.integers(2, 7))), Int(8)))

    def add(operator: Operator) -> str:
        (made,) = sketch.add(f"core{len(sketch.nodes)}", operator, [x], operator.narrowest, 1)
        return made

    for _ in range(int(random.integers(2, 4))):
        tensor = sketch.tensors[x]
        x = add(MatMul(tensor, random.integers(-8, 8, (int(random.integers(2, 5)), tensor.channels))))
    if rows == 4:
        x = add(Pool(sketch.tensors[x], "max", (2, 1)))
    return insert_forks(sketch.design().network)


def least_latency(network: Network, budget: Budget) -> int:
    """Return the least latency of all legal foldings within a budget, tried one after the other."""
    least = 1 << 62
    for foldings in product(*(list(legal(node.operator)) for node in network.nodes)):
        named = {node.name: folding for node, folding in zip(network.nodes, foldings, strict=True)}
        lanes = sum(node.operator.lanes(named[node.name]) for node in network.nodes)
        if lanes <= (budget.mac_lanes or lanes) and not budget.excess(resources_of(network, named)):
            least = min(least, frame_alone(Design(*insert_gearboxes(network, named), target=ecp5_at(100))).cycles)
    return least


def chosen_and_least(random: np.random.Generator) -> tuple[int, int]:
    """Return the latency of a drawn network as the search chooses it, and the least of all legal foldings."""
    network = drawn(random)
    budget = Budget(mac_lanes=int(random.integers(3, 9)))
    start = fold_for(network, longest_interval(network))
    assert start is not None
    chosen = fold_for_latency(network, start, budget, ecp5_at(100), cost)
    assert chosen is not None
    assert not budget.excess(resources_of(network, chosen))
    found = frame_alone(Design(*insert_gearboxes(network, chosen), target=ecp5_at(100))).cycles
    return found, least_latency(network, budget)


@pytest.mark.parametrize("seed", range(4))
def test_latency_is_that_of_all_foldings(seed: int) -> None:
    """``benchmarks/latency.py`` compares more of them."""
    found, least = chosen_and_least(np.random.default_rng(seed))
    assert found == least


def test_asked_latency_is_kept_and_cheaper() -> None:
    """The latency counts with the FIFOs that the interval needs; the error names one that can be reached."""
    random = np.random.default_rng(5)
    sketch = Sketch()
    x = sketch.input("x", Tensor((1, 1, 24), Int(8)))
    for channels in (64, 4, 40):
        operator = MatMul(sketch.tensors[x], random.integers(-8, 8, (channels, sketch.tensors[x].channels)))
        (x,) = sketch.add(f"core{len(sketch.nodes)}", operator, [x], operator.narrowest, 1)
    network, budget, target = sketch.design().network, Budget(mac_lanes=60), ecp5_at(100)
    quickest, _ = schedule_network(network, budget, ScheduleRequest(fastest=SpeedGoal.LATENCY), target=target)
    pipeline, _ = schedule_network(network, budget, target=target)
    least = cycles_of_frame_alone(quickest)
    assert least < cycles_of_frame_alone(pipeline)
    lanes = quickest.resources().mac_lanes
    for times in (2, 4):
        request = ScheduleRequest(latency_us=least * times / 100)
        design, _ = schedule_network(network, budget, request, target=target)
        assert cycles_of_frame_alone(design) <= least * times
        assert design.resources().mac_lanes < lanes
        lanes = design.resources().mac_lanes
    with pytest.raises(UserError, match=f"takes {least / 100:g} µs") as caught:
        schedule_network(network, budget, ScheduleRequest(latency_us=least / 200), target=target)
    assert f"--latency {least / 100:g}" in str(caught.value)


def test_one_goal_at_a_time() -> None:
    with pytest.raises(UserError, match="one goal must be chosen for the search, not --fps and --latency"):
        ScheduleRequest(fps=10, latency_us=10)
    with pytest.raises(UserError, match="must come without foldings"):
        ScheduleRequest(
            fastest=SpeedGoal.LATENCY, foldings={"core": MatMul(Tensor((1, 1, 1), Int(8)), np.ones((1, 1))).narrowest}
        )
    assert list(ScheduleRequest(fastest=SpeedGoal.LATENCY).arguments()) == ["--fastest", "latency"]
