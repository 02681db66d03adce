"""Quant, BipolarQuant, Trunc and MultiThreshold where they are delicate: ties, zeros, narrow and extreme grids."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import numpy as np
import pytest

from lower.test_qonnx_networks import assert_golden_is_the_reference
from onnx_hw import flow
from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.prove.model.compare import compare
from support.onnx_oracle import assert_circuit_agrees
from support.random_qonnx_models import MODES, Qonnx

WIDE = 40
"""Integers of the data on either side of 0."""


def built(s: Qonnx, path: Path, shape: list[int], output: str) -> Network:
    return flow.quantize(flow.read(s.written(path / "m.onnx", shape, output)))


def outputs(network: Network, frames: np.ndarray) -> np.ndarray:
    (found,) = golden.run(network, {"x": frames.astype(np.float32)}).values()
    return found


def sums(s: Qonnx, step: float) -> str:
    """A product whose results are all multiples of a step up to ``WIDE``: the data itself."""
    x = s.quant("x", 1.0, 8)
    return s.node("MatMul", x, s.quant(s.floats(np.full((1, 1), step)), step, 4))


def numbers() -> np.ndarray:
    return np.arange(-WIDE, WIDE + 1).reshape(-1, 1, 1)


def by_hand(position: Fraction, mode: str) -> int:
    """QONNX's text: UP is away from 0 and DOWN towards it; halves likewise, or to the even integer."""
    sign, size = (-1 if position < 0 else 1), abs(position)
    nearest = floor(size + Fraction(1, 2))
    if size - floor(size) == Fraction(1, 2):
        nearest = {"HALF_UP": ceil(size), "HALF_DOWN": floor(size)}.get(mode, 2 * round(size / 2))
    plain = {"CEIL": ceil(position), "FLOOR": floor(position), "UP": sign * ceil(size), "DOWN": sign * floor(size)}
    return plain.get(mode, sign * nearest)


@pytest.mark.parametrize(("zero", "sign"), [(0, 1), (3, 1), (3, -1)])
@pytest.mark.parametrize("narrow", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_on_ties(tmp_path: Path, mode: str, narrow: int, zero: int, sign: int) -> None:
    """Also of a negative scale, whose integers fall."""
    s = Qonnx(1)
    y = s.quant(sums(s, 0.25), sign * 0.5, 4, zero, narrow=narrow, rounding_mode=mode)
    network = built(s, tmp_path, [1, 1], s.node("MatMul", y, s.floats([[1.0]])))
    wanted = [
        Fraction(sign, 2) * (min(max(by_hand(Fraction(sign * k, 2) + zero, mode), -8 + narrow), 7) - zero)
        for k in range(-WIDE, WIDE + 1)
    ]
    assert outputs(network, numbers()).reshape(-1).tolist() == [float(number) for number in wanted]


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("op_type", ["BipolarQuant", "MultiThreshold", "Quant"])
def test_zero_is_positive(tmp_path: Path, op_type: str, signed: int) -> None:
    """Whether hardware takes the sign, or the host; one bit is carried."""
    s = Qonnx(2)
    y = sums(s, 1.0) if signed else "x"
    if op_type == "BipolarQuant":
        y = s.bipolar(y, 0.7)
    elif op_type == "MultiThreshold":
        y = s.thresholds(y, np.zeros((1, 1)), out_scale=1.4, out_bias=-0.7)
    else:
        y = s.quant(y, 0.7, 1)
    network = built(s, tmp_path, [1, 1], s.node("MatMul", y, s.floats([[1.0]])))
    wanted = np.where(numbers() >= 0, np.float32(0.7), np.float32(-0.7))
    np.testing.assert_allclose(outputs(network, numbers()), wanted, rtol=1e-6)
    assert Int(1, signed=False) in {tensor.dtype for tensor in network.tensors.values()}


@pytest.mark.parametrize("place", ["host", "sums", "function", "maximum"])
def test_steps_that_lead_down(tmp_path: Path, place: str) -> None:
    """A negative out_scale, with thresholds that are met exactly, behind whatever the integers are of."""
    s = Qonnx(4)
    y = "x" if place == "host" else sums(s, 1.0)
    if place == "function":
        y = s.node("Relu", y)
    if place == "maximum":
        y = s.node("Reshape", y, s.constant(np.array([1, 1, 1, 1])))
        y = s.node("MaxPool", y, kernel_shape=[1, 1])
        y = s.node("Reshape", y, s.constant(np.array([1, 1])))
    y = s.thresholds(y, np.array([[-3, 0, 0, 5]]), out_scale=-0.5, out_bias=1.25)
    network = built(s, tmp_path, [1, 1], s.node("MatMul", y, s.floats([[3.0]])))
    reached = np.maximum(numbers(), 0 if place == "function" else -WIDE) >= np.array([-3, 0, 0, 5])
    np.testing.assert_array_equal(outputs(network, numbers()), 3 * (1.25 - reached.sum(-1, keepdims=True) / 2))


@pytest.mark.parametrize("step", [0.5, -0.5])
@pytest.mark.parametrize("pad", [np.inf, -np.inf, 0.3, 500.0])
def test_numbers_around(tmp_path: Path, pad: float, step: float) -> None:
    """Pads become as many steps as they reach; all or none where they are infinite, whichever way the steps lead."""
    s = Qonnx(6)
    y = s.node("Pad", sums(s, 1.0), s.constant(np.array([0, 1, 0, 1])), s.floats(pad))
    y = s.thresholds(y, np.array([[-3, 0, 5]]), out_scale=step, out_bias=1.25)
    network = built(s, tmp_path, [1, 1], s.node("MatMul", y, s.floats(np.eye(3))))
    padded = np.pad(numbers().astype(np.float64), ((0, 0), (0, 0), (1, 1)), constant_values=pad)
    wanted = (padded[..., None] >= np.array([-3, 0, 5])).sum(-1)
    np.testing.assert_array_equal(outputs(network, numbers()), 1.25 + step * wanted)


@pytest.mark.parametrize("bits", [2, 3, 8, 16])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
def test_widths(tmp_path: Path, bits: int, signed: int, narrow: int) -> None:
    """Of data and of weights; the ends of the range are met."""
    s = Qonnx(bits)
    scale = float(np.float32(0.013))
    y = s.quant("x", scale, bits, signed=signed, narrow=narrow)
    w = s.quant(s.floats([[1e6, -1e6, 0.1]]), 0.01, bits, signed=signed, narrow=narrow)
    network = built(s, tmp_path, [1, 1], s.node("MatMul", y, w))
    frames = np.array([-1e6, -1, 0, 0.5, 1e6], dtype=np.float32).reshape(-1, 1, 1)
    assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames)
    assert {tensor.dtype for tensor in network.entries.values()} == {Int(bits, signed=bool(signed))}


@pytest.mark.parametrize("weights", [[[0.5]], [[0.5, 0.25]]])
def test_more_bits_than_hardware_quantizes_to(tmp_path: Path, weights: list[list[float]]) -> None:
    """Nothing is rounded where all numbers are integers of that grid already; else it is refused."""
    for step, refused in ((0.125, False), (0.375, True)):
        s = Qonnx(7)
        y = s.node("MatMul", s.quant("x", 1.0, 8), s.quant(s.floats(weights), weights, 4))
        y = s.node("MatMul", s.quant(y, step, 24), s.floats(np.eye(len(weights[0]))))
        path = s.written(tmp_path / "m.onnx", [1, 1], y)
        if refused:
            with pytest.raises(UserError, match="16 bits at most"):
                flow.quantize(flow.read(path))
        else:
            np.testing.assert_array_equal(outputs(flow.quantize(flow.read(path)), numbers()), numbers() * weights)


def test_dead_channels(tmp_path: Path) -> None:
    """Scales of 1e-10 and of 1e10, beside ordinary ones."""
    s = Qonnx(5)
    x = s.quant("x", 0.05, 6)
    w = s.quant(s.floats(s.draw.normal(0, 1, (4, 5)) * [1e-10, 1, 1e10, 1, 0]), [[1e-10, 0.1, 1e10, 0.1, 1e-10]], 4)
    y = s.node("Add", s.node("MatMul", x, w), s.floats([0.3, 0.1, 0, -0.2, 0.4]))
    y = s.quant(y, 0.25, 5)
    network = built(s, tmp_path, [1, 4], s.node("MatMul", y, s.weights((5, 2), 1)))
    frames = s.draw.normal(0, 1, (8, 1, 4)).astype(np.float32)
    assert assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames) == 2
    s = Qonnx(6)
    tiny = s.quant(s.node("MatMul", s.quant("x", 1e-10, 6), s.weights((4, 5), 1)), 3e-11, 7)
    network = built(s, tmp_path, [1, 4], s.node("MatMul", tiny, s.weights((5, 2), 1)))
    assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames * np.float32(1e-10))


POSITIONS: dict[str, Callable[[Qonnx, str], str]] = {
    "behind a factor": lambda s, y: s.normalized(s.node("Mul", y, s.floats(0.3)), 4),
    "behind a negative factor": lambda s, y: s.normalized(s.node("Div", y, s.floats(-0.3)), 4),
    "twice": lambda s, y: s.normalized(s.normalized(y, 4), 4),
    "behind a bound": lambda s, y: s.normalized(s.node("Relu", y), 4),
    "before a bound": lambda s, y: s.node("Relu", s.normalized(y, 4)),
    "behind a maximum": lambda s, y: s.normalized(s.node("MaxPool", y, kernel_shape=[2, 2]), 4),
    "before a maximum": lambda s, y: s.node("MaxPool", s.normalized(y, 4), kernel_shape=[2, 2]),
    "behind an average": lambda s, y: s.normalized(s.node("AveragePool", y, kernel_shape=[2, 2]), 4),
    "before an average": lambda s, y: s.node("AveragePool", s.normalized(y, 4), kernel_shape=[2, 2]),
    "behind other places": lambda s, y: s.normalized(s.node("Transpose", y, perm=[0, 1, 3, 2]), 4),
}


PRODUCTS = [(kind, position) for kind in ("Conv", "depthwise") for position in POSITIONS]
PRODUCTS += [("ConvTranspose", position) for position in POSITIONS if not position.endswith(("average", "maximum"))]


@pytest.mark.parametrize(("product", "position"), PRODUCTS)
def test_negative_factors_everywhere(tmp_path: Path, product: str, position: str) -> None:
    s = Qonnx(len(position), dyadic=False)
    x = s.quant("x", 0.04, 8)
    if product == "ConvTranspose":
        y = s.node(product, x, s.weights((4, 4, 3, 3), 1), strides=[2, 2])
    else:
        groups = 4 if product == "depthwise" else 1
        y = s.node("Conv", x, s.weights((4, 4 // groups, 3, 3), 0), group=groups)
    network = built(s, tmp_path, [1, 4, 6, 5], s.quant(POSITIONS[position](s, y), 0.05, 6, rounding_mode="FLOOR"))
    frames = s.draw.normal(0, 1.5, (2, 1, 4, 6, 5)).astype(np.float32)
    assert assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames) == 2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("mode", ["FLOOR", "ROUND", "CEIL"])
def test_trunc_behind_a_sum(tmp_path: Path, mode: str, version: int) -> None:
    """What Brevitas makes of an average: the sum, without its last bits."""
    s = Qonnx(version)
    s.domain = "qonnx.custom_op.general"
    x = s.quant("x", 0.25, 6)
    y = s.node("Mul", s.node("AveragePool", x, kernel_shape=[2, 2]), s.floats(4.0))
    last = [0.25, 0.0, 8.0, 6.0] if version == 1 else [0.25, 0.0, 8.0, 1.0, 6.0]
    attributes = {"rounding_mode": mode} if version == 1 else {"rounding_mode": mode, "narrow": 0, "signed": 1}
    y = s.node("Trunc", y, *map(s.floats, last), domain=s.domain, **attributes)
    s.versions[s.domain] = version
    network = built(s, tmp_path, [1, 2, 4, 4], s.node("Conv", y, s.weights((2, 2, 1, 1), 0)))
    frames = s.draw.normal(0, 8, (3, 1, 2, 4, 4)).astype(np.float32)
    assert assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames) == 2


@pytest.mark.parametrize("before", [False, True])
def test_padded_bipolar_data(tmp_path: Path, before: bool) -> None:
    """0, which no bipolar integer stands for, lies around the image, by a Pad or by the product itself."""
    s = Qonnx(7)
    y = s.bipolar("x", 0.5)
    y = s.node("Pad", y, s.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))) if before else y
    y = s.node("Conv", y, s.weights((3, 2, 3, 3), 0), pads=[int(not before)] * 4)
    network = built(s, tmp_path, [1, 2, 4, 4], s.bipolar(y))
    frames = s.draw.normal(0, 1, (4, 1, 2, 4, 4)).astype(np.float32)
    assert assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames) == 2
    assert_circuit_agrees(network)


def test_a_wrong_threshold_is_seen(tmp_path: Path) -> None:
    """The comparison of golden with the model ends its pieces at these quantizers, too."""
    models = []
    for shift in (0.0, 0.01):
        s = Qonnx(8)
        y = s.quant(s.node("MatMul", s.quant("x", 0.1, 6), s.weights((6, 5), 1)), 0.2 + shift, 5)
        y = s.thresholds(s.node("MatMul", y, s.weights((5, 4), 1)), np.array([[-1.0, 0.0, 0.5]]))
        models.append(flow.read(s.written(tmp_path / f"{shift}.onnx", [1, 6], y)))
    frames = {"x": np.random.default_rng(0).normal(0, 2, (4, 1, 6)).astype(np.float32)}
    right, wrong = (flow.quantize(model) for model in models)
    assert compare(models[0], right, frames).agreement.tensors_compared >= 3
    with pytest.raises(UserError, match="golden-differs"):
        compare(models[0], wrong, frames)


def _unsorted(s: Qonnx, y: str) -> str:
    return s.thresholds(y, np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))


REFUSED: dict[str, tuple[str, Callable[[Qonnx, str], str]]] = {
    "thresholds that fall": ("thresholds-not-sorted", _unsorted),
    "a flat staircase": ("scale", lambda s, y: s.thresholds(y, np.array([[0.0, 1.0]]), out_scale=0.0)),
    "a negative scale of one bit": ("scale", lambda s, y: s.quant(y, -0.5, 1)),
    "many bits": ("bit-width", lambda s, y: s.quant(y, 1e-6, 24)),
    "half a bit": ("bit-width", lambda s, y: s.quant(y, 0.1, 3.5)),
    "a mode that nobody knows": ("rounding", lambda s, y: s.quant(y, 0.1, 4, rounding_mode="SIDEWAYS")),
    "a scale that is data": ("scale-not-constant", lambda s, y: s.node(
        "BipolarQuant", y, s.node("ReduceSum", y, keepdims=0), domain=s.domain)),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_name_the_quantizer(tmp_path: Path, what: str) -> None:
    code, build = REFUSED[what]
    s = Qonnx(9)
    y = build(s, s.node("MatMul", s.quant("x", 0.1, 6), s.weights((4, 3), 1)))
    with pytest.raises(UserError) as caught:
        built(s, tmp_path, [1, 4], s.node("MatMul", y, s.weights((3, 2), 1)))
    assert code in [problem.code for problem in caught.value.problems]


def test_the_reference_itself_has_the_ties(tmp_path: Path) -> None:
    """What the hardware is compared with elsewhere, by hand."""
    s = Qonnx(1)
    y = s.quant(sums(s, 0.25), 0.5, 4, rounding_mode="HALF_DOWN")
    model = flow.read(s.written(tmp_path / "m.onnx", [1, 1], s.node("MatMul", y, s.floats([[1.0]]))))
    (found,) = reference.run(model, {"x": np.array([[3.0]], dtype=np.float32)}).values()
    assert found.item() == 0.5


def _scaled_sum(s: Qonnx, a: str, b: str) -> str:
    return s.quant(s.normalized(s.node("Add", a, b), 3), 0.2, 6, rounding_mode="FLOOR")


WAITING: dict[str, Callable[[Qonnx, str, str], str]] = {
    "a factor behind a sum": _scaled_sum,
    "a product of a sum": lambda s, a, b: s.node("Conv", s.node("Sub", a, b), s.weights((3, 3, 1, 1), 0)),
    "an average of a sum": lambda s, a, b: s.node("GlobalAveragePool", s.node("Add", a, b)),
    "a function of a sum": lambda s, a, b: s.quant(s.node("LeakyRelu", s.node("Add", a, b)), 0.3, 5),
    "thresholds of a sum": lambda s, a, b: s.thresholds(s.node("Add", a, b), np.array([[-1.0, 0.2, 3]] * 3)),
    "thresholds of a product": lambda s, a, b: s.thresholds(s.node("Mul", a, b), np.array([[-1.0, 0.2, 3]] * 3)),
    "thresholds of a function": lambda s, a, b: s.thresholds(
        s.node("LeakyRelu", s.node("Add", a, b)), np.array([[-1.0, 0.2, 3], [-0.01, 0, 1], [0.5, 1, 2]])),
    "a product of joined data": lambda s, a, b: s.node(
        "Conv", s.node("Concat", a, b, axis=1), s.weights((3, 6, 3, 3), 0)),
    "padded joined data": lambda s, a, b: s.node(
        "Conv", s.node("Concat", a, b, axis=1), s.weights((3, 6, 3, 3), 0), pads=[1, 1, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize("what", WAITING)
def test_what_waits_for_no_quantizer(tmp_path: Path, what: str) -> None:
    """Two tensors whose steps have a simple ratio, one of them bipolar."""
    s = Qonnx(len(what))
    x = s.quant("x", 0.25, 7)
    a = s.quant(s.node("Conv", x, s.weights((3, 3, 1, 1), 0)), 0.375, 5)
    b = s.quant(x, 0.25, 5) if what.endswith("product") else s.bipolar(x, 0.75)
    network = built(s, tmp_path, [1, 3, 5, 4], s.quant(WAITING[what](s, a, b), 0.3, 6))
    frames = s.draw.normal(0, 3, (3, 1, 3, 5, 4)).astype(np.float32)
    assert assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames) >= 4


def test_scales_of_fewer_axes_than_the_weights(tmp_path: Path) -> None:
    """They are those of the last one, as numpy has it."""
    s = Qonnx(3)
    w = s.quant(s.floats(s.draw.normal(0, 0.5, (4, 5))), s.scale(0.1, (5,)), 4)
    network = built(s, tmp_path, [1, 4], s.quant(s.node("MatMul", s.quant("x", 0.1, 6), w), 0.2, 6))
    frames = s.draw.normal(0, 1, (4, 1, 4)).astype(np.float32)
    assert assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames) == 2


@pytest.mark.parametrize("operator", ["Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (3, 1, 1, 1), (1,)])
def test_scaled_weights(tmp_path: Path, operator: str, shape: tuple[int, ...]) -> None:
    """Factors behind the quantizer of weights, of either sign, stay out of their integers."""
    s = Qonnx(len(shape))
    w = s.quant(s.floats(s.draw.normal(0, 0.5, (3, 2, 3, 3))), s.scale(0.1, (3, 1, 1, 1)), 4)
    factors = s.floats(s.draw.uniform(0.5, 2, shape) * s.draw.choice([-1, 1], shape))
    y = s.node("Conv", s.quant("x", 0.1, 6), s.node(operator, w, factors))
    network = built(s, tmp_path, [1, 2, 5, 4], s.quant(y, 0.2, 6))
    frames = s.draw.normal(0, 1, (4, 1, 2, 5, 4)).astype(np.float32)
    assert assert_golden_is_the_reference(flow.read(tmp_path / "m.onnx"), network, frames) == 2
