"""Networks that are far too large: what is said of them is a lower bound, and is known after few questions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.candidates import Alternative, Offers
from onnx_hw.schedule.cost_model import cost
from onnx_hw.schedule.folding_for_interval import fold_for, resources_of
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.search_folding import choose_folding, far_too_little, far_too_much
from schedule.test_search_is_exact import drawn
from support.hand_built_designs import Sketch


def listed(network: Network, budget: Budget) -> bool:
    """Whether the list of what all nodes take at least says that it is too much."""
    return far_too_much(Offers(network, cost), budget) is not None


@settings(max_examples=25)
@given(st.integers(0, 400), st.floats(0.05, 1.2), st.sampled_from(["lut", "dsp", "bram", "mac_lanes", "ff", "pins"]))
def test_the_short_answer_is_that_of_the_list(seed: int, share: float, field: str) -> None:
    network = drawn(np.random.default_rng(seed))
    cheapest = fold_for(network, longest_interval(network))
    assert cheapest is not None
    amount = int(getattr(resources_of(network, cheapest), field) * share)
    budget = replace(Budget(), **{field: amount})
    short = far_too_little(Offers(network, cost), budget)
    assert short == listed(network, budget)
    if short:
        assert choose_folding(network, budget) is None
    assert not short or share < 1  # what fits is never said to be too large


def test_the_largest_products_are_asked_first_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch, random = Sketch(), np.random.default_rng(0)
    name = sketch.input("x", Tensor((1, 1, 8), Int(8)))
    for k, outputs in enumerate((900, 12, 900, 8)):
        product = MatMul(sketch.tensors[name], random.integers(-8, 8, (outputs, sketch.tensors[name].channels)))
        (name,) = sketch.add(f"core{k}", product, [name], product.narrowest, 1)
    network = sketch.design().network
    priced: list[str] = []
    asked = Offers._by_itself

    def counted(offers: Offers, node: NetworkNode, interval: int) -> list[Alternative]:
        priced.append(node.name)
        return asked(offers, node, interval)

    monkeypatch.setattr(Offers, "_by_itself", counted)
    assert far_too_little(Offers(network, cost), Budget(bram=2))
    assert len(priced) == 1 and priced[0] in ("core1", "core2")  # 900 × 12 weights, or 12 × 900
    assert listed(network, Budget(bram=2))
    assert {"core0", "core1", "core2", "core3"} <= set(priced)
