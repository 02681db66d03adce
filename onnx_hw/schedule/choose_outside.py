"""Choice of the weights that lie outside the chip: layers that use each weight once a frame, the largest ones first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.schedule_for_board import far_too_large, refuse_what_does_not_fit
from onnx_hw_boards.board import Board


def candidates_outside(network: Network) -> list[NetworkNode]:
    """Return the nodes whose constants may lie outside, that with the most bits first; none of those on loops."""
    on_loops = {node.name for loop in network.loops for node in loop}
    taped = [
        (outside.taped_bits, node)
        for node in network.nodes
        if node.name not in on_loops and (outside := node.operator.on_tape()) is not None
    ]
    return [node for _, node in sorted(taped, key=lambda pair: -pair[0])]


def put_outside(network: Network, names: Collection[str]) -> Network:
    """Return the network with the constants of some nodes outside the chip."""
    nodes = []
    for node in network.nodes:
        operator = node.operator.on_tape() if node.name in names else None
        nodes.append(node if operator is None else replace(node, operator=operator))
    return verify_network(replace(network, nodes=tuple(nodes)), "put_outside")


def put_outside_what_does_not_fit(board: Board, network: Network, request: ScheduleRequest) -> Network:
    """Return the network with the fewest nodes outside with which it fits on a board; the same if it fits as it is, or
    if it fits in no way.
    """
    names = [node.name for node in candidates_outside(network)]
    for count in range(len(names) + 1):
        tried = put_outside(network, names[:count])
        if not far_too_large(board, tried, request) and _fits(board, tried, request):
            return tried
    return network


def _fits(board: Board, network: Network, request: ScheduleRequest) -> bool:
    try:
        refuse_what_does_not_fit(board, network, request)
    except UserError as error:
        if error.exit_code is not ExitCode.DOES_NOT_FIT:
            raise
        return False
    return True
