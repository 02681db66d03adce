"""Choice of the weights that lie outside the chip: those with the least traffic with which the network fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_hw.ir.network import Network
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.outside.outside_options import (
    fewest_blocks,
    least_traffic,
    nodes_with_tiles,
    outside_of,
    places_of_weights,
    saves_memory,
)
from onnx_hw.schedule.schedule_for_board import (
    blocks_left,
    far_too_large,
    refuse_what_does_not_fit,
    slowest_fits,
    unbounded,
)
from onnx_hw_boards.board import Board

EIGHTHS_TRIED = (7, 4, 2, 0)
"""Eighths of the block RAMs that are left which the layers may get, in the order in which they are tried."""


def all_outside(network: Network) -> dict[str, int]:
    """Return the tiles of all layers whose weights may come once a frame at no more memory than they take on the chip,
    by name.
    """
    whole = {node.name: node.operator.tape_tiles()[-1] for node in nodes_with_tiles(network)}
    return {name: tile for name, tile in whole.items() if saves_memory(network, network.node(name), tile)}


def put_outside(network: Network, tiles: Mapping[str, int]) -> Network:
    """Return the network with the constants of some nodes outside the chip.

    Args:
        tiles: pixels for which each constant comes once, by name of the node.
    """
    nodes = []
    for node in network.nodes:
        operator = node.operator.on_tape(tiles[node.name]) if node.name in tiles else None
        nodes.append(node if operator is None else replace(node, operator=operator))
    return verify_network(replace(network, nodes=tuple(nodes)), "put_outside")


def put_outside_what_does_not_fit(board: Board, network: Network, request: ScheduleRequest) -> Network:
    """Return the network with those nodes outside that bring little traffic and with which it fits on a board; the same
    if it fits as it is, or if it fits in no way.

    Where the layers take as few block RAMs as they can, some are left. A part of these is given back to the layers, for
    the least traffic; the others are for FIFOs. So few foldings are searched: one to know what is left, and one for
    each part that is tried, the largest first.
    """
    if fits(board, network, request):
        return network
    options = places_of_weights(network, Cost.of(board.family))
    least = fewest_blocks(options)

    def within(spare: int) -> Network:
        choice = least_traffic(options, least + spare)
        assert choice is not None
        return put_outside(network, outside_of(choice))

    smallest = within(0)
    if far_too_large(board, smallest, request):
        return network
    left = blocks_left(board, smallest, request)
    parts = dict.fromkeys(left * eighths // 8 for eighths in EIGHTHS_TRIED)
    choices = (within(spare) for spare in parts)
    return next((one for one in choices if fits_at_once(board, one, request)), network)


def fits_at_once(board: Board, network: Network, request: ScheduleRequest) -> bool:
    """Return whether a network has a design on a board, which need not be searched for long: the slowest one where
    nothing bounds the time of a frame.
    """
    if network.loops or not unbounded(request):
        return fits(board, network, request)
    return slowest_fits(board, network, request)


def fits(board: Board, network: Network, request: ScheduleRequest) -> bool:
    """Return whether a network has a design on a board."""
    if far_too_large(board, network, request):
        return False
    try:
        refuse_what_does_not_fit(board, network, request)
    except UserError as error:
        if error.exit_code is not ExitCode.DOES_NOT_FIT:
            raise
        return False
    return True
