"""Products of look-up tables in the search: where multipliers are too few, there alone, and no more than must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.folding import MultiplierKind
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import WIDEST_FACTOR, Multiply
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.folding_for_interval import resources_of
from onnx_hw.schedule.search_folding import choose_folding
from support.design_bench import assert_proven, prove
from support.hand_built_designs import Sketch
from support.schedule_with import schedule_with


def network(channels: tuple[int, ...], seed: int = 0) -> Network:
    """Products of one pixel's channels, a depthwise convolution between them; of two tensors unless they are wide."""
    generator = np.random.default_rng(seed)
    sketch = Sketch()
    x = sketch.input("x", Tensor((4, 4, channels[0]), Int(8)))
    for k, outputs in enumerate(channels[1:]):
        weights = generator.integers(-8, 8, (outputs, sketch.tensors[x].channels))
        (x,) = sketch.add(f"conv{k}", MatMul(sketch.tensors[x], weights), [x], (1, 1), 1)
        if k == 0:
            kernels = generator.integers(-8, 8, (outputs, 2, 2))
            (x,) = sketch.add("depthwise", Depthwise(sketch.tensors[x], kernels), [x], (1, 1), 1)
    if sketch.tensors[x].dtype.bits <= WIDEST_FACTOR:
        other = sketch.input("other", Tensor(sketch.tensors[x].shape, Int(4)))
        sketch.add("multiply", Multiply(sketch.tensors[x], sketch.tensors[other]), [x, other], (1, 1), 1)
    return sketch.design().network


def soft(design: Design) -> list[NetworkNode]:
    return [node for node in design.network.nodes if design.folding(node).in_logic]


def designed(network: Network, budget: Budget, **choices: object) -> Design:
    return schedule_with(network, budget, 80, **choices)


@settings(max_examples=7, deadline=None)
@given(st.lists(st.integers(2, 12), min_size=2, max_size=4), st.integers(0, 60), st.integers(20, 90))
@example([9, 2, 8, 7], 10, 53)  # some are left when every core has got its folding
@example([9, 6], 31, 41)
def test_multipliers_are_used_first(channels: list[int], dsp: int, lanes: int) -> None:
    """Lanes of look-up tables stand where no multipliers are left for them; more multipliers make nothing slower."""
    drawn = network(tuple(channels))
    budget = Budget(mac_lanes=lanes, dsp=dsp, in_logic=True)
    foldings = choose_folding(drawn, budget)
    assert foldings is not None
    used = resources_of(drawn, foldings)
    assert not budget.excess(used)
    in_logic = [node for node in drawn.nodes if foldings[node.name].in_logic]
    for node in in_logic:
        hard = replace(foldings[node.name], multiplier=MultiplierKind.HARDWARE)  # type: ignore[call-arg]
        if node.operator.illegal(hard):
            continue  # operands too wide for multipliers
        mine, other = (node.operator.resources(folding) for folding in (foldings[node.name], hard))
        assert used.dsp + other.dsp > dsp or mine.lut <= other.lut, "multipliers would have done as well"

    def interval(budget: Budget) -> int | None:
        found = choose_folding(drawn, budget)
        return found and max(node.operator.cycles(found[node.name]) for node in drawn.nodes)  # type: ignore[return-value]

    without, ample = interval(replace(budget, in_logic=False)), interval(replace(budget, dsp=None))
    found = interval(budget)
    assert found is not None and ample is not None
    assert found <= (without or found) and ample <= found * 401 // 400 + 1
    assert in_logic or without == found


def test_enough_multipliers_are_all_that_is_used() -> None:
    drawn, budget = network((6, 8, 4)), Budget(mac_lanes=30, dsp=100)
    assert repr(designed(drawn, replace(budget, in_logic=True))) == repr(designed(drawn, budget))


def test_a_chip_without_multipliers_has_look_up_tables() -> None:
    """Without being asked for: nothing else fits."""
    design = designed(network((4, 6, 3)), Budget(dsp=0, lut=20_000))
    assert design.resources().dsp == 0 < design.resources().mac_lanes
    assert {type(node.operator) for node in soft(design)} == {MatMul, Depthwise, Multiply}
    assert_proven(prove(design, frames=2))


def test_a_rate_that_multipliers_do_not_reach() -> None:
    """Look-up tables help those that there are; a rate that they do reach takes none."""
    drawn, budget = network((4, 6, 3)), Budget(dsp=8, lut=20_000)
    fast = designed(drawn, budget).interval
    assert not soft(designed(drawn, budget, fps=79e6 / fast))
    faster = designed(drawn, budget, fps=79e6 / (fast // 2))
    assert soft(faster) and faster.interval <= fast // 2 and 0 < faster.resources().dsp <= 8


def test_too_few_look_up_tables_are_refused() -> None:
    with pytest.raises(UserError, match="too-big"):
        designed(network((4, 6, 3)), Budget(dsp=0, lut=600))


@pytest.mark.parametrize("dsp", [0, 3, 9])
def test_tight_budgets_of_look_up_tables_are_kept(dsp: int) -> None:
    """From far too few to plenty."""
    drawn, found = network((4, 6, 3)), []
    for lut in range(300, 6000, 400):
        budget = Budget(mac_lanes=20, dsp=dsp, lut=lut, in_logic=True)
        foldings = choose_folding(drawn, budget)
        found.append(foldings is not None)
        assert foldings is None or not budget.excess(resources_of(drawn, foldings))
    assert not found[0] and found[-1]
