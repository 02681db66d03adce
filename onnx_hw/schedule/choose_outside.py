"""Choice of the weights that lie outside the chip: those with the least traffic with which the network fits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from onnx_hw.ir.network import Network
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.outside.outside_options import (
    ON_CHIP,
    PlaceOfWeights,
    fewest_blocks,
    least_traffic,
    nodes_with_tiles,
    outside_of,
    places_of_weights,
    saves_memory,
)
from onnx_hw.schedule.schedule_for_board import far_too_large, refuse_what_does_not_fit
from onnx_hw_boards.board import Board


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
    """Return the network with those nodes outside that bring the least traffic with which it fits on a board; the same
    if it fits as it is, or if it fits in no way.

    A choice with fewer block RAMs is taken to fit where another one does: so few of them need to be tried.
    """
    if fits(board, network, request):
        return network
    choices = _choices(places_of_weights(network, Cost.of(board.family)))
    tried = [put_outside(network, tiles) for tiles in choices]
    first = bisect_left(tried, True, key=lambda one: fits(board, one, request))
    return tried[first] if first < len(tried) else network


def _choices(options: Mapping[str, list[PlaceOfWeights]]) -> list[dict[str, int]]:
    """Return the tiles of the best choices, with ever fewer block RAMs, hence ever more traffic."""
    room = sum(next(place.blocks for place in places if place.tile == ON_CHIP) for places in options.values())
    choices: list[dict[str, int]] = []
    while room > fewest_blocks(options):
        choice = least_traffic(options, room - 1)
        assert choice is not None
        choices.append(outside_of(choice))
        room = sum(place.blocks for place in choice.values())
    return choices


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
