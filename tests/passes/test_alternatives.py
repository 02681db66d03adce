"""What the search asks of what lies between neighbours, and remembers for all that are alike."""

from __future__ import annotations

from itertools import product

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.conversion import conversion
from onnx_hw.order import Order
from onnx_hw.passes.alternatives import Offers, as_array
from onnx_hw.passes.cost import cost
from onnx_hw.passes.fold_for_interval import between
from onnx_hw.tensor import Tensor
from passes.test_choose_folding import convolutions


def test_what_is_remembered_is_what_stands_there() -> None:
    """Of tensors of few and of many rows, of one type or another: the cores' own estimates, and the cycles of those
    that may be slower than both neighbours.
    """
    rng = np.random.default_rng(0)
    offers = Offers(convolutions(2, (3, 4, 4)), cost)
    slower = 0
    for rows, bits in product((1, 3, 8), (5, 8)):
        tensor = Tensor((rows, 12, 7), Int(bits), 0, 3)
        for _ in range(12):
            before, after = (Order(tensor, *map(int, rng.integers(1, 8, 2))) for _ in range(2))
            if rng.random() < 0.2:
                after = Order(tensor, after.lanes, tile=12)
            found, cores = offers.between(before, after), list(conversion(before, after))
            assert found.used.tolist() == as_array(between(before, after)).tolist()
            cycles = max((operator.cycles(folding) for operator, folding in cores), default=0)
            if found.cycles:
                slower += 1
                assert found.cycles == cycles
            else:
                assert cycles <= max(before.beats, after.beats)
    assert slower > 10
