"""Choice among places of weights: on the chip, or outside with a tile, for least traffic within some block RAMs.

An option of a layer is a number of block RAMs and the bytes of its weights that come in a frame. The block RAMs of an
option outside are those of the core, of a second tile of what it takes, and of the core that puts its results back in
the order of pixels. A layer has one option on the chip, and one for each tile. The choice is a multiple-choice
knapsack, solved exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ops.convert_order import conversion
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.cost_model import Cost

ON_CHIP = 0
"""Tile of weights that are on the chip."""


@dataclass(frozen=True)
class PlaceOfWeights:
    """Option of a layer.

    Attributes:
        tile: pixels for which a weight comes once; ``ON_CHIP`` for weights that do not come.
        blocks: block RAMs.
        traffic: bytes that come in a frame.
    """

    tile: int
    blocks: int
    traffic: int


def places_of_weights(network: Network, cost: Cost) -> dict[str, list[PlaceOfWeights]]:
    """Return the options of each node whose weights may lie outside, that on the chip first; none of those on loops.

    An option that takes no fewer block RAMs than another of no more traffic is left out.
    """
    options = {}
    for node in nodes_with_tiles(network):
        places = [PlaceOfWeights(ON_CHIP, cost(node.operator, node.operator.narrowest).bram, 0)]
        for tile in reversed(node.operator.tape_tiles()):
            if not saves_memory(network, node, tile):
                continue
            operator = node.operator.on_tape(tile)
            assert operator is not None
            blocks = blocks_outside(network, node, operator, tile, cost)
            if blocks < min(place.blocks for place in places):
                places.append(PlaceOfWeights(tile, blocks, -(-operator.taped_bits // 8)))
        options[node.name] = places
    return options


def nodes_with_tiles(network: Network) -> list[NetworkNode]:
    """Return the nodes whose weights may lie outside; none of those on loops."""
    on_loops = {node.name for loop in network.loops for node in loop}
    return [node for node in network.nodes if node.name not in on_loops and node.operator.tape_tiles()]


def saves_memory(network: Network, node: NetworkNode, tile: int) -> bool:
    """Return whether the vectors of a tile, and its results on their way back into the order of pixels, have fewer bits
    than the weights.
    """
    if tile == 1:
        return True
    operand, result = node.operator.operands()[0], put_back_in_order(network, node, tile)
    bits = operand.channels * operand.dtype.bits + (result.channels * result.dtype.bits if result else 0)
    return tile * bits < node.operator.taped_size


def blocks_outside(network: Network, node: NetworkNode, operator: Operator[Any], tile: int, cost: Cost) -> int:
    """Return the block RAMs of an operator that takes its weights from outside, and of what it needs around it."""
    blocks = cost(operator, operator.narrowest).bram
    if tile == 1:
        return blocks
    operand, result = operator.operands()[0], put_back_in_order(network, node, tile)
    blocks += cost.of_fifo(operand.dtype.bits, tile * operand.channels).bram
    if result is None:
        return blocks
    back = conversion(Order(result, 1, 1, tile), Order(result, 1))
    return blocks + sum(cost(core, folding).bram for core, folding in back)


def put_back_in_order(network: Network, node: NetworkNode, tile: int) -> Tensor | None:
    """Return the tensor of fewest bits that carries the results in tiles until they are put back in the order of
    pixels: that of the node, or of one behind it that follows any order. None where what reads it takes such tiles.
    """
    (narrowest,) = node.operator.results()
    readers = network.consumers(node.outputs[0])
    while len(readers) == 1:
        reader = readers[0][0].operator
        if not reader.macs and _takes_tiles(reader, tile):
            return None
        if "tile" not in reader.folding_type.names() or reader.macs or len(readers[0][0].outputs) > 1:
            break
        (result,) = reader.results()
        narrowest = min(narrowest, result, key=lambda tensor: tensor.dtype.bits)
        readers = network.consumers(readers[0][0].outputs[0])
    return narrowest


def _takes_tiles(operator: Operator[Any], tile: int) -> bool:
    """Return whether tiles end at an operator: it takes them, and what it gives has fewer pixels."""
    operand = operator.operands()[0]
    if operand.pixels % tile or all(result.pixels == operand.pixels for result in operator.results()):
        return False
    comes = Order(operand, 1, 1, tile)
    offered = operator.foldings(operator.cycles(operator.narrowest), comes)
    return any(operator.input_orders(folding)[0].tile == tile for folding in offered)


def least_traffic(options: Mapping[str, Sequence[PlaceOfWeights]], room: int) -> dict[str, PlaceOfWeights] | None:
    """Return one option of each layer with the least traffic of all within some block RAMs; None where none fits.

    Of choices with equal traffic, that with the fewest block RAMs.
    """
    least = {name: min(place.blocks for place in places) for name, places in options.items()}
    spare = room - sum(least.values())
    if spare < 0:
        return None
    price = np.zeros(spare + 1)  # by what may be taken beyond the least
    chosen: list[np.ndarray] = []
    for name, places in options.items():
        prices = np.full((len(places), spare + 1), np.inf)
        for k, place in enumerate(places):
            more = place.blocks - least[name]
            if more <= spare:
                prices[k, more:] = price[: spare + 1 - more] + place.traffic
        chosen.append(prices.argmin(axis=0))
        price = prices.min(axis=0)
    left, choice = int(np.flatnonzero(price == price[-1])[0]), {}
    for (name, places), best in zip(reversed(list(options.items())), reversed(chosen), strict=True):
        choice[name] = places[int(best[left])]
        left -= choice[name].blocks - least[name]
    return choice


def outside_of(choice: Mapping[str, PlaceOfWeights]) -> dict[str, int]:
    """Return the tiles of the layers outside, by name."""
    return {name: place.tile for name, place in choice.items() if place.tile != ON_CHIP}


def fewest_blocks(options: Mapping[str, Collection[PlaceOfWeights]]) -> int:
    """Return the block RAMs that the layers take at least."""
    return sum(min(place.blocks for place in places) for places in options.values())
