"""Networks in which tensors are multiplied with each other, scheduled as users' models are and simulated whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ir.golden import random_integers
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit import prove as simulation
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.design_bench import Bench, assert_proven, no_stall, random_stall
from support.hand_built_designs import alone
from support.products import of_heads, of_two_inputs, of_what_it_makes
from support.targets import ecp5_at


def scheduled(network: Network, lanes: int) -> Design:
    return schedule_network(network, Budget(mac_lanes=lanes), target=ecp5_at(100))[0]


@pytest.mark.parametrize("network", [of_two_inputs(), of_two_inputs(2), of_what_it_makes()])
@pytest.mark.parametrize("lanes", [6, 20])
def test_full_rate_and_as_predicted_under_stalls(network: Network, lanes: int) -> None:
    design = scheduled(network, lanes)
    bench = Bench(design)
    run = bench.prove(no_stall(design, 4), frames=4)
    assert_proven(run)
    assert run.interval_cycles == design.interval
    assert_proven(bench.prove(random_stall(design, 3, lanes), frames=3, seed=lanes))


def test_the_compiled_netlist(tmp_path: Path) -> None:
    """Where a word that is read while it is written would be anything."""
    design = alone(MatMul(Tensor((1, 4, 5), Int(4)), Tensor((1, 7, 5), Int(3)), capacity=1), (2, 3), 8)
    simulator, names = simulation.compile_simulator(design, tmp_path)
    plan = simulation.plan_runs(design, random_integers(design.network), simulator.name)
    assert simulation.prove(design, simulator, names, plan).agrees


def test_what_a_node_makes_comes_once() -> None:
    """A buffer of one group, and weights that cannot be sent again for the next vector."""
    network = of_what_it_makes()
    nodes = [
        replace(node, operator=replace(node.operator, capacity=1)) if isinstance(node.operator, MatMul)
        and len(node.inputs) == 2 else node for node in network.nodes
    ]  # fmt: skip
    with pytest.raises(UserError, match="must be taken once a frame, not 5 times: its buffer must hold all of it"):
        scheduled(replace(network, nodes=tuple(nodes)), 3)


@pytest.mark.parametrize(("lanes", "tokens"), [(1, 12), (4, 13), (4, 64), (16, 17), (16, 24), (16, 33)])
@pytest.mark.parametrize("weighted", [False, True])
def test_heads_keep_multipliers_busy(lanes: int, tokens: int, weighted: bool) -> None:
    """Useful products of at least 9 in 10 cycles and lanes, the matrices of a stack one after the other."""
    design = scheduled(of_heads(2, tokens, 8, weighted=weighted), lanes)
    (product,) = (node for node in design.network.nodes if isinstance(node.operator, MatMul))
    used = product.operator.lanes(design.folding(product))
    assert used <= lanes
    assert product.operator.macs == 2 * tokens * tokens * 8
    assert product.operator.macs / (used * design.interval) >= 0.9


def test_heads_run_at_the_predicted_interval() -> None:
    design = scheduled(of_heads(2, 12, 8, weighted=False), 16)
    run = Bench(design).prove(no_stall(design, 3), frames=3)
    assert_proven(run)
    assert run.interval_cycles == design.interval == 144
