"""Network to Design: every choice made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from onnx_hw.design import Design
from onnx_hw.errors import ExitCode, user_error
from onnx_hw.network import Network
from onnx_hw.ops.operator import Folding
from onnx_hw.passes.choose_folding import Budget, choose_folding, fold_for, resources_of
from onnx_hw.passes.insert_forks import insert_forks
from onnx_hw.passes.insert_gearboxes import insert_gearboxes
from onnx_hw.passes.size_fifos import size_fifos

DSP_SHARE, LUT_SHARE, BRAM_SHARE = 0.6, 0.7, 0.95
"""How full a chip is planned unless a number of lanes is asked for: with 85 of 156 multipliers a network is routed in
two minutes, with 130 in five to eight."""


class Chip(Protocol):
    """What there is on a chip."""

    @property
    def lut(self) -> int: ...
    @property
    def dsp(self) -> int: ...
    @property
    def bram(self) -> int: ...


def budget_of(chip: Chip, multipliers: int | None) -> Budget:
    """What a design may use of a chip: a comfortable share; all multipliers where a number of lanes is asked for."""
    dsp = int(DSP_SHARE * chip.dsp) if multipliers is None else chip.dsp
    return Budget(multipliers, dsp, int(LUT_SHARE * chip.lut), int(BRAM_SHARE * chip.bram))


def schedule_network(
    network: Network, budget: Budget, *, clock_mhz: float, foldings: Mapping[str, Folding] | None = None
) -> tuple[Design, dict[str, Folding]]:
    """Forks, foldings, gearboxes and FIFO depths.

    Args:
        foldings: of every node (after ``insert_forks``), instead of a search.

    Returns:
        the design, and the foldings that were chosen: those of its nodes but the gearboxes.

    Raises:
        UserError: nothing fits the budget; says by how much the smallest design misses it and which nodes are largest.
    """
    network = insert_forks(network)
    chosen = dict(foldings) if foldings is not None else choose_folding(network, budget)
    if chosen is None:
        raise _does_not_fit(network, budget)
    with_gearboxes, all_foldings = insert_gearboxes(network, chosen)
    return size_fifos(Design(with_gearboxes, all_foldings, {}, clock_mhz)), chosen


def _does_not_fit(network: Network, budget: Budget) -> Exception:
    longest = max(node.operator.cycles(Folding(1, 1)) for node in network.nodes)
    smallest = fold_for(network, longest)
    assert smallest is not None, "every node runs on one lane"
    used = resources_of(network, smallest)
    excess = ", ".join(f"{have} {what} of {most}" for what, (have, most) in budget.excess(used).items())
    costs = {node.name: node.operator.resources(smallest[node.name]) for node in network.nodes}
    largest = sorted(costs, key=lambda name: -(costs[name].bram * 400 + costs[name].lut))[:3]
    where = ", ".join(f"`{name}` {costs[name].lut} LUTs and {costs[name].bram} block RAMs" for name in largest)
    return user_error(
        "too-big",
        f"even the slowest design needs {excess}",
        where=f"largest: {where}",
        hint="a smaller model, or a larger board (`onnx-hw boards` lists them)",
        stage="schedule",
        exit_code=ExitCode.DOES_NOT_FIT,
    )
