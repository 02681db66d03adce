"""Products of operands of one or two bits: look-up tables, without being asked for; each bipolar value is one bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.exact.integers import Int
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from support.random_qonnx_models import Qonnx

RANDOM = np.random.default_rng(0)


def cores(bits: int, weights: int) -> list[Operator]:
    data, top = Tensor((4, 4, 6), Int(bits, signed=False)), 1 << (weights - 1)
    drawn = RANDOM.integers(-top, top, (6, 6)), RANDOM.integers(-top, top, (6, 2, 3))
    return [MatMul(data, drawn[0]), Depthwise(data, drawn[1]), Multiply(data, Tensor(data.shape, Int(weights)))]


@pytest.mark.parametrize(("bits", "weights"), [(1, 2), (2, 8), (8, 2), (3, 3), (8, 8)])
def test_who_needs_no_multiplier_offers_none(bits: int, weights: int) -> None:
    for operator in cores(bits, weights):
        offered = list(operator.foldings(96))
        assert offered and {folding.in_logic for folding in offered} == {min(bits, weights) <= 2}
        for folding in offered:
            assert (operator.resources(folding).dsp == 0) == folding.in_logic


def test_a_binary_network_has_no_multipliers(tmp_path: Path) -> None:
    """On a chip that has some left; lanes asked for or not."""
    s = Qonnx(3)
    y = s.bipolar("x")
    for inputs, outputs in (40, 24), (24, 12), (12, 5):
        y = s.node("MatMul", y, s.bipolar(s.floats(s.draw.normal(0, 1, (inputs, outputs)))))
        y = s.bipolar(s.normalized(y, outputs)) if outputs > 5 else y
    network = flow.quantize(flow.read(s.written(tmp_path / "m.onnx", [1, 40], y)))
    for lanes in None, 20:
        design = flow.schedule(network, multipliers=lanes)
        products = [node for node in design.network.nodes if isinstance(node.operator, MatMul)]
        assert len(products) == 3
        for node in products:
            assert node.operator.operand.dtype.bits == 1
            assert node.operator.resources(design.folding(node)).dsp == 0
