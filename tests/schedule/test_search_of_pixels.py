"""The search puts several pixels into a beat where one is what bounds a network, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule import search_folding
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.cost_model import Cost, cost
from onnx_hw.schedule.folding_for_interval import fold_for
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.search_folding import Search
from schedule.test_search_folding import convolutions
from support.design_bench import Bench, assert_proven, no_stall, random_stall
from support.schedule_with import schedule_with


def in_a_line(x: Tensor, *makers) -> Network:  # type: ignore[no-untyped-def]
    """Of operators that are made of what the one before gives."""
    operators: list[Operator] = []
    for make in makers:
        operators.append(make(operators[-1].results()[0] if operators else x))
    tensors = {"t0": x} | {f"t{k + 1}": operator.results()[0] for k, operator in enumerate(operators)}
    nodes = (NetworkNode(f"core{k}", operator, (f"t{k}",), (f"t{k + 1}",)) for k, operator in enumerate(operators))
    ends = (Boundary(t, t, (1, *tensors[t].shape), np.dtype(np.int64), np.arange(tensors[t].size))
            for t in ("t0", f"t{len(operators)}"))  # fmt: skip
    first, last = ends
    return Network("line", tuple(nodes), {"t0": x}, (first,), (last,))


def designed(network: Network, budget: Budget = Budget(), **choices) -> Design:  # type: ignore[no-untyped-def]  # noqa: B008
    return schedule_with(network, budget, 100, **choices)


def rate(cycles: int) -> float:
    """Frames a second at which there are so many cycles for each."""
    return 100e6 / (cycles + 0.5)


def at_one_pixel(network: Network) -> int:
    """Cycles of the slowest node on as many lanes as there are channels."""
    cycles = []
    for node in network.nodes:
        lanes = {name: most for name, most in node.operator.limits().items() if name.endswith("lanes")}
        cycles.append(node.operator.cycles(replace(node.operator.narrowest, **lanes)))
    return max(cycles)


def pixels(design: Design) -> list[int]:
    return [edge.order.pixels for edge in design.edges()]


@pytest.mark.parametrize(("lanes", "interval"), [(36, 64), (72, 32), (150, 16)])
def test_lanes_that_are_free_are_used(lanes: int, interval: int) -> None:
    """9 to 4 channels at 8·8 pixels: 36 lanes do one pixel a cycle."""
    design = designed(convolutions(8, (1, 4)), Budget(mac_lanes=lanes))
    assert design.interval == interval and design.resources().mac_lanes == 36 * 64 // interval
    assert max(pixels(design)) == 64 // interval


def test_one_pixel_where_that_is_no_bound() -> None:
    """Neither beyond a pixel per cycle, nor where a cap of the lanes or a rate asks for less."""
    network = convolutions(8, (3, 4, 5))
    designs = [designed(network, Budget(mac_lanes=lanes)) for lanes in (3, 17, 40)]
    designs += [designed(network, fps=rate(interval)) for interval in (64, 200, 4000)]
    assert {most for design in designs for most in pixels(design)} == {1}


def test_work_is_divided_by_powers_of_two_and_whole_parts_of_a_row() -> None:
    """A row is of twelve pixels; one pixel a beat would be too slow."""
    found = Offers(convolutions(12, (2, 3)), cost).at(100, Budget())
    assert found is not None
    assert {one.input_orders[0].pixels for one in found["conv0"]} == {2, 3, 4, 6, 8, 12}


SHUFFLED = np.random.default_rng(0).permutation(2 * 12)
KERNELS = np.random.default_rng(0).integers(-8, 8, (2, 3, 3))
NETWORKS = [
    convolutions(5, (1, 2)),
    in_a_line(
        Tensor((4, 12, 2), Int(4)),
        lambda x: Depthwise(x, KERNELS, (1, 2), (1, 1, 1, 1)),
        lambda x: Pool(x, "max", (1, 2), (2, 2)),
    ),
    in_a_line(
        Tensor((2, 6, 2), Int(4)),
        lambda x: Rearrange(x, (2, 12, 1), SHUFFLED),
        lambda x: Pool(x, "sum", (2, 3), (1, 1), (1, 1, 0, 1)),
    ),
]


@pytest.mark.parametrize("network", NETWORKS, ids=["convolutions", "strides", "rearranged"])
def test_what_is_found_is_proven(network: Network) -> None:
    """The fastest of all, and two slower ones; neighbours agree or something lies between them."""
    fastest = designed(network)
    one = at_one_pixel(network)
    assert fastest.interval < one // 2
    for cycles in (fastest.interval, one // 2, one - 1):
        design = designed(network, fps=rate(cycles))
        assert design.interval <= cycles and max(pixels(design)) > 1
    run = Bench(fastest).prove(no_stall(fastest, 4), frames=4)
    assert_proven(run)
    assert run.interval_cycles == fastest.interval
    assert_proven(Bench(design).prove(random_stall(design, 2, 0), frames=2))


def test_fewer_cycles_take_more() -> None:
    network = convolutions(8, (1, 4))
    lanes = [designed(network, fps=rate(cycles)).resources().mac_lanes for cycles in (8, 16, 32, 64, 128)]
    assert all(faster > slower for faster, slower in pairwise(lanes))


def test_another_search_will_do() -> None:
    """One that finds the slowest design, whatever is asked for."""

    def slowest(network: Network, budget: Budget, interval: int, cost: Cost):  # type: ignore[no-untyped-def]
        return fold_for(network, longest_interval(network))

    network = convolutions(8, (1, 4))
    design = designed(network, search=Search(slowest, slowest))
    assert design.interval == longest_interval(network) > designed(network).interval


def test_not_tried_where_one_pixel_a_beat_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are so many foldings of several pixels that refusing them would take longest of all."""
    tried: list[int] = []
    original = search_folding.fold

    def fold(offers: Offers, interval: int, budget: Budget) -> object:
        tried.append(interval)
        return original(offers, interval, budget)

    monkeypatch.setattr(search_folding, "fold", fold)
    network = in_a_line(Tensor((12, 12, 1), Int(8)), lambda x: Pool(x, "max", (2, 2), (1, 1), (0, 0, 0, 0)))
    least = Offers(network, cost).least_cycles[1]
    design = designed(network)
    assert min(tried) < least and design.interval < least
    slowest = designed(network, fps=rate(longest_interval(network)))
    tried.clear()
    assert search_folding.choose_folding(network, Budget(lut=slowest.resources().lut * 9 // 10)) is None
    assert tried and all(interval >= least for interval in tried)
