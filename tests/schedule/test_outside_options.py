"""Options of where weights lie, and the choice among them against every choice there is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_hw_boards
from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Network
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.reduce import Reduce, ReduceFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.choose_outside import all_outside, put_outside
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.outside.outside_options import (
    ON_CHIP,
    PlaceOfWeights,
    fewest_blocks,
    least_traffic,
    outside_of,
    places_of_weights,
    put_back_in_order,
)
from support.hand_built_designs import Sketch

COST = Cost.of(onnx_hw_boards.board("ulx3s").family)


def chain(pixels: int, *channels: int) -> Network:
    """Products one after the other, over the pixels of a square image."""
    sketch, tensor = Sketch(), Tensor((pixels, pixels, channels[0]), Int(8))
    x = sketch.input("x", tensor)
    for k, outputs in enumerate(channels[1:]):
        weights = np.random.default_rng(k).integers(-1, 2, (outputs, tensor.channels))
        operator = MatMul(tensor, weights)
        (x,) = sketch.add(f"product{k}", operator, [x], MatMulFolding(1, 1), 2)
        (tensor,) = operator.results()
    return sketch.design().network


@st.composite
def drawn_options(draw: st.DrawFn) -> dict[str, list[PlaceOfWeights]]:
    options = {}
    for k in range(draw(st.integers(1, 5))):
        blocks = draw(st.integers(0, 12))
        outside = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 40)), max_size=3))
        options[f"n{k}"] = [
            PlaceOfWeights(ON_CHIP, blocks, 0),
            *(PlaceOfWeights(t + 1, *o) for t, o in enumerate(outside)),
        ]
    return options


@settings(max_examples=200)
@given(drawn_options(), st.integers(0, 40))
def test_no_choice_has_less_traffic(options: dict[str, list[PlaceOfWeights]], room: int) -> None:
    within = [
        (sum(place.traffic for place in places), sum(place.blocks for place in places))
        for places in product(*options.values())
        if sum(place.blocks for place in places) <= room
    ]
    choice = least_traffic(options, room)
    assert (choice is None) == (not within) == (room < fewest_blocks(options))
    if choice is not None:
        assert (sum(p.traffic for p in choice.values()), sum(p.blocks for p in choice.values())) == min(within)
        assert all(choice[name] in options[name] for name in options)


@pytest.mark.parametrize("seed", range(50))
def test_no_choice_for_a_network_has_less_traffic(seed: int) -> None:
    """The options are those of a small network; traffic is counted on the operators themselves."""
    random = np.random.default_rng(seed)
    network = chain(int(random.integers(1, 4)), *random.integers(8, 200, int(random.integers(2, 5))).tolist())
    options = places_of_weights(network, COST)
    every = list(product(*options.values()))
    room = int(random.integers(fewest_blocks(options), 1 + max(sum(p.blocks for p in some) for some in every)))
    choice = least_traffic(options, room)
    assert choice is not None
    outside = put_outside(network, outside_of(choice))
    traffic = sum(-(-node.operator.taped_bits // 8) for node in outside.nodes)
    assert traffic == min(sum(p.traffic for p in some) for some in every if sum(p.blocks for p in some) <= room)


def test_a_tile_of_the_whole_image_brings_each_weight_once() -> None:
    network = chain(2, 256, 256)
    (places,) = places_of_weights(network, COST).values()
    assert [place.tile for place in places][:2] == [ON_CHIP, 4]
    assert places[1].traffic == -(-network.nodes[0].operator.taped_size // 8)
    assert all(a.blocks > b.blocks and a.traffic < b.traffic for a, b in pairwise(places))


def test_all_outside_leaves_what_would_need_more_memory() -> None:
    """A large image of few channels stays; a dense layer, however small, does not."""
    assert all_outside(chain(2, 64, 96)) == {"product0": 4}
    assert all_outside(chain(16, 16, 32)) == {}
    assert all_outside(chain(1, 4, 3)) == {"product0": 1}


@pytest.mark.parametrize("reduced", [False, True])
def test_a_reader_that_takes_tiles_spares_the_way_back(reduced: bool) -> None:
    """A sum over the frame takes each channel for all pixels, so nothing puts the results back in order."""
    sketch, tensor = Sketch(), Tensor((4, 4, 64), Int(8))
    operator = MatMul(tensor, np.random.default_rng(0).integers(-8, 8, (512, 64)))
    (y,) = sketch.add("product", operator, [sketch.input("x", tensor)], MatMulFolding(1, 1), 2)
    if reduced:
        sketch.add("sum", Reduce(operator.results()[0], "sum"), [y], ReduceFolding(1), 2)
    network = sketch.design().network
    (node, *_) = network.nodes
    assert (put_back_in_order(network, node, 16) is None) == reduced
    assert put_back_in_order(network, node, 4) == operator.results()[0]
    (places,) = places_of_weights(network, COST).values()
    assert any(place.tile == 16 and place.blocks <= 4 for place in places) == reduced


def test_weights_that_are_loaded_or_come_stay() -> None:
    network = chain(1, 8, 4)
    (node,) = network.nodes
    for operator in (node.operator.loadable(), node.operator.on_tape()):
        assert operator is not None
        assert places_of_weights(replace(network, nodes=(replace(node, operator=operator),)), COST) == {}
