"""Models that are quantized in part: what they lack is completed from samples, their own integers stay."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lower.test_qonnx_networks import assert_golden_is_the_reference
from onnx_hw import flow
from onnx_hw.commands.check import check_hardware
from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.ops.matmul import MatMul
from onnx_hw.prove.model.compare import compare
from onnx_hw.quantization.ranges.calibrate import STEPS, SampleRanges, common_steps
from onnx_hw.runtime.options import BuildOptions
from support.random_qonnx_models import Qonnx

SHAPE = [1, 3, 5, 4]


def samples(step: Fraction | None, count: int = 6) -> np.ndarray:
    """Of an input: multiples of a step, divided as float32 does; or anything."""
    draw = np.random.default_rng(0)
    if step is None:
        return draw.normal(0, 1, (count, *SHAPE)).astype(np.float32)
    low = 0 if step == Fraction(1, 255) else -40
    return (draw.integers(low, 256 + low, (count, *SHAPE)).astype(np.float32) / np.float32(1 / step)).astype(np.float32)


def by_reference(path: Path, frames: np.ndarray) -> np.ndarray:
    model = flow.read(path)
    return np.stack([next(iter(reference.run(model, {"x": frame}).values())) for frame in frames])


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 255), Fraction(1, 16), None])
def test_an_input_without_a_quantizer(tmp_path: Path, step: Fraction | None) -> None:
    """On the grid of its samples nothing is lost: golden is the reference of the model as it was given."""
    s = Qonnx(3)
    y = s.quant(s.normalized(s.node("Conv", "x", s.weights((4, 3, 3, 3), 0), pads=[1, 1, 1, 1]), 4), 0.15, 5)
    path = s.written(tmp_path / "m.onnx", SHAPE, s.node("Conv", y, s.weights((2, 4, 1, 1), 0)))
    model, frames = flow.read(path), samples(step)
    with pytest.raises(UserError, match="--calibration"):
        flow.quantize(model)
    assert check_hardware(BuildOptions(model=path)) is None
    made = flow.quantized(model, SampleRanges({"x": frames}))
    (entry,) = made.network.entries.values()
    assert entry.dtype == (Int(8, signed=False) if step == Fraction(1, 255) else Int(16))
    (told,) = made.chosen.values()
    assert told == (f"{entry.dtype.bits} bits, " + ("calibrated" if step is None else f"steps of {step}, which all"
                    " samples are multiples of"))  # fmt: skip
    compared = compare(made.model, made.network, {"x": frames}, made.floats)
    assert compared.agreement.tensors_compared >= 3
    if step is not None:
        assert_golden_is_the_reference(model, made.network, frames)
    else:
        (found,) = golden.run(made.network, {"x": frames}).values()
        np.testing.assert_allclose(found, by_reference(path, frames), atol=0.5)


def _first_only(s: Qonnx) -> str:
    y = s.quant(s.node("Conv", s.quant("x", 0.02, 8), s.weights((4, 3, 3, 3), 0)), 0.1, 6)
    return s.node("Conv", s.node("Relu", y), s.floats(s.draw.normal(0, 0.4, (2, 4, 1, 1))))


def _last_only(s: Qonnx) -> str:
    y = s.node("Relu", s.node("Conv", "x", s.floats(s.draw.normal(0, 0.4, (4, 3, 3, 3)))))
    return s.node("Conv", s.quant(y, 0.05, 6, signed=0), s.weights((2, 4, 1, 1), 0))


def _data_only(s: Qonnx) -> str:
    y = s.quant("x", 0.02, 8)
    for shape in ((4, 3, 3, 3), (2, 4, 1, 1)):
        y = s.node("Conv", y, s.floats(s.draw.normal(0, 0.4, shape)))
        y = s.quant(y, 0.05, 8)
    return y


def _in_between(s: Qonnx) -> str:
    y = s.node("HardSwish", s.node("Conv", s.quant("x", 0.02, 8), s.weights((4, 3, 3, 3), 0)))
    return s.quant(s.node("Conv", y, s.weights((2, 4, 1, 1), 0)), 0.05, 8)


def _a_sum_with_the_input(s: Qonnx) -> str:
    y = s.quant(s.node("Conv", s.quant("x", 0.02, 8), s.weights((3, 3, 1, 1), 0)), 0.05, 7)
    return s.node("Conv", s.quant(s.node("Add", y, "x"), 0.05, 8), s.weights((2, 3, 1, 1), 0))


def _weights_only(s: Qonnx) -> str:
    y = "x"
    for shape in ((4, 3, 3, 3), (2, 4, 1, 1)):
        w = s.quant(s.floats(s.draw.normal(0, 0.4, shape)), 0.01, 8)
        y = s.node("Relu", s.node("Conv", y, w))
    return y


PARTS: list[Callable[[Qonnx], str]] = [
    _first_only, _last_only, _data_only, _in_between, _a_sum_with_the_input, _weights_only,
]  # fmt: skip


@pytest.mark.parametrize("build", PARTS)
def test_parts_are_completed(tmp_path: Path, build: Callable[[Qonnx], str]) -> None:
    s = Qonnx(11)
    path = s.written(tmp_path / "m.onnx", SHAPE, build(s))
    model, frames = flow.read(path), samples(None, 12)
    assert check_hardware(BuildOptions(model=path)) is None
    made = flow.quantized(model, SampleRanges({"x": frames}))
    compare(made.model, made.network, {"x": frames}, made.floats)
    (found,) = golden.run(made.network, {"x": frames}).values()
    wanted = by_reference(path, frames)
    noise = ((found - wanted) ** 2).sum() / (wanted**2).sum()
    assert noise < 1e-2


def test_weights_of_the_model_keep_their_integers(tmp_path: Path) -> None:
    s = Qonnx(12)
    stored = s.draw.integers(-3, 4, (3, 2))
    y = s.node("MatMul", "x", s.quant(s.floats(stored * np.float32(0.3)), 0.3, 3))
    y = s.node("MatMul", s.bipolar(y), s.floats([[1.0], [-2.0]]))
    network = flow.quantize(flow.read(s.written(tmp_path / "m.onnx", [1, 3], y)), {"x": samples(None)[:, :, :, 0, 0]})
    weights = [node.operator.weights for node in network.nodes if isinstance(node.operator, MatMul)]
    assert np.array_equal(weights[0], stored.T) and np.array_equal(weights[1], [[1, -2]])


@given(st.sampled_from(STEPS), st.lists(st.integers(-32767, 32767), min_size=1, max_size=300), st.booleans())
def test_common_steps(step: Fraction, multiples: list[int], divided: bool) -> None:
    """Whether a pixel was divided by 255 or multiplied by 1/255; one number beside the grid is noticed."""
    counted = np.array(multiples, dtype=np.float32)
    numbers = counted / np.float32(1 / step) if divided else counted * np.float32(float(step))
    assert step in common_steps(numbers)
    assert not common_steps(np.append(numbers, np.float32(0.7390851)))
