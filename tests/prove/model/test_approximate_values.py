"""What the network says is approximate is so, by no more than it says; other floats are judged to their last bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.onnx.graph.model import Model
from onnx_hw.prove.model.compare import compare
from onnx_hw.prove.model.segments import evaluate_in_double
from support.qdq_models import Sketch

SHAPE = [1, 3, 4, 4]
FRAMES = np.random.default_rng(0).uniform(-2, 2, (4, *SHAPE)).astype(np.float32)

CHAINS: dict[str, Callable[[Sketch, str], str]] = {
    "mean": lambda s, x: s.node("GlobalAveragePool", s.node("Sigmoid", x)),
    "window": lambda s, x: s.node("AveragePool", s.node("Sin", x), kernel_shape=[2, 2], strides=[2, 2]),
    "sum": lambda s, x: s.node("ReduceSum", s.node("Tanh", x), s.constant(np.array([2, 3]))),
    "factors": lambda s, x: s.node(
        "Mul",
        s.node("GlobalAveragePool", s.node("Exp", x)),
        s.constant(np.array([7, 0.3, 2], dtype=np.float32).reshape(3, 1, 1)),
    ),
}


def built(chain: Callable[[Sketch, str], str], folder: Path) -> tuple[Model, Network, str]:
    sketch = Sketch()
    y = chain(sketch, sketch.through_integers("x", 0.0217, 9))
    model = flow.read(sketch.write(folder / "m.onnx", SHAPE, y))
    return model, flow.quantize(model), y


@pytest.mark.parametrize("name", CHAINS)
def test_averages_of_tables_are_as_near_as_they_say(tmp_path: Path, name: str) -> None:
    """Against double precision, in which the model is run from the same integers."""
    model, network, y = built(CHAINS[name], tmp_path)
    assert list(network.approximate) == [y]
    given = golden.run(network, {"x": FRAMES})[y]
    real = np.stack([evaluate_in_double(model, {"x": frame})[y] for frame in FRAMES])
    off, last_bit = network.approximate[y], np.finfo(np.float32).eps * np.abs(real).max()
    assert 0 < np.abs(given - real).max() <= off + last_bit
    assert off < 1e-5 * max(1, np.abs(real).max())
    assert compare(model, network, {"x": FRAMES}).agreement.frames == 4


def product(sketch: Sketch, x: str) -> str:
    weights = np.random.default_rng(1).integers(-90, 90, (5, 3, 2, 2)).astype(np.int8)
    return sketch.node("Conv", x, sketch.dequantized(weights, np.float32(0.013)))


def scaled(network: Network, factor: float) -> Network:
    """With another slope on the host."""
    tail = network.tail
    assert tail is not None
    (slope,) = (name for name in tail.graph.constants if name.endswith("/slope"))
    constants = {**tail.graph.constants, slope: tail.graph.constants[slope] * factor}
    return replace(network, tail=replace(tail, graph=replace(tail.graph, constants=constants)))


def test_sums_that_leave_as_floats_are_exact(tmp_path: Path) -> None:
    """A slope that is wrong by a millionth is seen; where tables are added up, one that is wrong by a thousandth is."""
    model, network, _ = built(product, tmp_path)
    assert not network.approximate and compare(model, network, {"x": FRAMES}).agreement.frames == 4
    with pytest.raises(UserError, match="as the model says") as refused:
        compare(model, scaled(network, 1 + 2**-19), {"x": FRAMES})
    assert refused.value.exit_code is ExitCode.MISMATCH
    model, network, _ = built(CHAINS["mean"], tmp_path)
    with pytest.raises(UserError, match="as the model says"):
        compare(model, scaled(network, 1.001), {"x": FRAMES})
