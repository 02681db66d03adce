"""Where the terms of a product cancel, floats are off by more than a step, and golden is not."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.onnx.graph.model import Node
from onnx_hw.prove.model.compare import compare
from onnx_hw.prove.model.sum_error_bound import sum_error
from support.qdq_models import Sketch

BIAS = np.array([0.7, -1.9, 3.3, 0.0], dtype=np.float32)
PAIRS, STEP = 6, 0.0831


def pairs_that_cancel(path: Path, scale: float, seed: int) -> tuple[Path, np.ndarray]:
    """A convolution of pairs w · v and v · −w, equal as integers and hardly ever as floats; and the frame of them."""
    random = np.random.default_rng(seed)
    one, other, times = (random.integers(1, 12, (4, PAIRS)) for _ in range(3))
    x = np.zeros((1, 4 * 2 * PAIRS, 1, 1), dtype=np.float32)
    weights = np.zeros((4, 4 * 2 * PAIRS, 1, 1), dtype=np.int8)
    for output in range(4):
        at = 2 * PAIRS * output + random.permutation(2 * PAIRS)
        data = np.concatenate([one[output] * times[output], other[output] * times[output]])
        x[0, at, 0, 0] = data * np.float32(scale)
        weights[output, at, 0, 0] = np.concatenate([other[output], -one[output]])
    sketch = Sketch()
    data = sketch.through_integers("x", scale, 5)  # type: ignore[assignment]
    weight = sketch.dequantized(weights, np.float32(random.uniform(0.004, 0.02)))
    y = sketch.through_integers(sketch.node("Conv", data, weight, sketch.constant(BIAS)), STEP, 9)
    return sketch.write(path / f"{seed}.onnx", x.shape, y), x


@pytest.mark.parametrize("scale", [1e13, 1e18, 1e30])
def test_what_is_left_is_the_bias(tmp_path: Path, scale: float) -> None:
    """Golden is right, and the proof sees that the model's floats could not tell; also where nothing cancels."""
    apart = 0
    for seed in range(4):
        path, x = pairs_that_cancel(tmp_path, scale, seed)
        model = flow.read(path)
        network = flow.quantize(model)
        frames = {"x": np.stack([x, np.roll(x, 1, axis=1)])}
        (found,) = golden.run(network, frames).values()
        assert np.abs(found[0].reshape(-1) - BIAS).max() <= STEP / 2 * 1.001
        agreement = compare(model, network, frames).agreement
        apart += agreement.values_compared - agreement.equal
    assert apart


def test_the_bound_is_one_and_is_small() -> None:
    """Against exact sums of what is multiplied; where nothing cancels, it is far below the last bits of a float32."""
    random = np.random.default_rng(0)
    a, b, c = (
        random.normal(0, 1, shape) * 10.0 ** random.integers(-9, 9, shape) for shape in ((30, 70), (70, 20), (20,))
    )
    node = Node("node", "Gemm", "", 13, ("a", "b", "c"), ("y",), {"alpha": -0.5, "beta": 3.0})
    exact = np.array([
        [
            sum(Fraction(p) * Fraction(q) for p, q in zip(row, column, strict=True)) / -2 + 3 * Fraction(float(d))
            for column, d in zip(b.T, c, strict=True)
        ]
        for row in a
    ])  # fmt: skip
    found, bound = -0.5 * (a @ b) + 3 * c, sum_error(node, [a, b, c])
    off = np.array(
        [
            [abs(float(Fraction(float(f)) - e)) for f, e in zip(*rows, strict=True)]
            for rows in zip(found, exact, strict=True)
        ]
    )
    assert bound.shape == found.shape and (off <= bound).all() and off.max() > 0
    assert (bound <= 1e-14 * (0.5 * np.abs(a) @ np.abs(b) + 3 * np.abs(c))).all()
