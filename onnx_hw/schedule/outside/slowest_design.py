"""The cheapest design of the longest interval, looked at once: what it takes, and whether it fits."""

from __future__ import annotations

from onnx_hw.ir.network import Network
from onnx_hw.ir.target import DesignTarget
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.ops.operator import Resources
from onnx_hw.runtime.gc_pause import garbage_collection_paused
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.folding_for_interval import fold, resources_of
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.roomy_fifos import size_fifos_within
from onnx_hw.schedule.schedule_network import unsized_design
from onnx_hw.schedule.size_fifos import size_fifos


@garbage_collection_paused()
def slowest_fits_at_once(network: Network, most: Budget, *, target: DesignTarget) -> bool:
    """Return whether the cheapest design of the longest interval fits with FIFOs that are found quickly, or with the
    least ones where none are. Nothing is made smaller for the sake of FIFOs, nor are other intervals tried.
    """
    network = verify_network(insert_forks(network), "insert_forks")
    offers = Offers(network, Cost.of(target.board.family))
    foldings = fold(offers, longest_interval(network), most)
    if foldings is None:
        return False
    design = unsized_design(network, foldings, target)
    design = size_fifos_within(design, most) or size_fifos(design, room=most)
    return not most.excess(design.with_fifos())


@garbage_collection_paused()
def least_used(network: Network, *, target: DesignTarget) -> Resources | None:
    """Return what the cores of the cheapest design of the longest interval take; None where no design is that slow."""
    network, cost = verify_network(insert_forks(network), "insert_forks"), Cost.of(target.board.family)
    foldings = fold(Offers(network, cost), longest_interval(network), Budget())
    return None if foldings is None else resources_of(network, foldings, cost)
