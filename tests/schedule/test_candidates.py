"""What the search asks of what lies between neighbours, and remembers for all that are alike."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ops.convert_order import conversion
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.converters import as_array
from onnx_hw.schedule.cost_model import Cost, cost
from onnx_hw.schedule.folding_for_interval import LUT, between
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.families.gowin.recipes import GOWIN
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from schedule.test_search_folding import convolutions
from support.random_cores import drawn_in_turn


def test_what_is_remembered_is_what_stands_there() -> None:
    """Of tensors of few and of many rows, of one type or another: the cores' own estimates, and the cycles of those
    that may be slower than both neighbours.
    """
    rng = np.random.default_rng(0)
    offers = Offers(convolutions(2, (3, 4, 4)), cost)
    slower = tight = 0
    for rows, bits in product((1, 3, 8), (5, 8)):
        tensor = Tensor((rows, 12, 7), Int(bits), 0, 3)
        for _ in range(12):
            before, after = (Order(tensor, *map(int, rng.integers(1, 8, 2))) for _ in range(2))
            if rng.random() < 0.2:
                after = Order(tensor, after.lanes, tile=12)
            found, cores = offers.between(before, after), list(conversion(before, after))
            assert found.used.tolist() == as_array(between(before, after)).tolist()
            least = offers.between_at_least(before, after)
            assert (least.used <= found.used).all() and least.fifos == found.fifos
            tight += least.used[LUT] > found.used[LUT] / 3
            cycles = max((operator.cycles(folding) for operator, folding in cores), default=0)
            if found.cycles:
                slower += 1
                assert found.cycles == cycles
            else:
                assert cycles <= max(before.beats, after.beats)
    assert slower > 10
    assert tight > 10


@pytest.mark.parametrize("family", [ECP5, ICE40_UP, GOWIN], ids=lambda family: family.name)
def test_a_bound_is_no_more_than_the_cost(family: Family) -> None:
    rng, its = np.random.default_rng(1), Cost.of(family)
    for _ in range(60):
        channels, pixels = int(rng.integers(2, 40)), int(rng.integers(1, 4))
        gearbox = Gearbox(Tensor((1, pixels, channels), Int(int(rng.integers(1, 17)))))
        folding = GearboxFolding(*map(int, rng.integers(1, channels + 1, 2)), pixels)  # type: ignore[call-arg]
        assert (as_array(its.at_least(gearbox, folding)) <= as_array(its(gearbox, folding))).all()


@pytest.mark.parametrize("family", [ECP5, ICE40_UP, GOWIN], ids=lambda family: family.name)
def test_a_bound_knows_the_multipliers_of_products(family: Family) -> None:
    """Of drawn cores of all operators no more than what they take; of those with constant weights all multipliers."""
    its, multiplying = Cost.of(family), 0
    for core in drawn_in_turn(3, 80):
        least, found = its.at_least(core.operator, core.folding), its(core.operator, core.folding)
        assert least.dsp <= found.dsp
        assert least.bram <= found.bram
        if core.name in ("matmul", "depthwise"):
            assert least.dsp == found.dsp
            multiplying += least.dsp > 0
    assert multiplying > 3
