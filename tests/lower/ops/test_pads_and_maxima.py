"""Pads and maxima of whatever is yet to be quantized, averages of what is bounded: drawn, against exact rationals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx
from lower.test_lowering_exactness import check, fresh_file_each_time
from onnx_hw import flow
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.rearrange import Rearrange
from quantization.test_float_models import Floats, quantized
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, random_frames, write
from support.qdq_models import Sketch
from support.random_qdq_models import ELEMENTS, Drawing

SHAPE = [1, 3, 5, 6]


class Padding(Drawing):
    """Layers with numbers that no integer of the data stands for; every choice is as likely as the others."""

    def pick(self, *choices: Any) -> Any:
        return choices[self.generator.integers(len(choices))]

    def number(self, low: int, high: int) -> int:
        return int(self.generator.integers(low, high + 1))

    def bend(self, kind: str) -> None:
        """Perhaps a function whose values rational numbers hold, or bounds on the data's own integers."""
        if kind == "Clip":
            low, high = sorted(self.number(-60, 60) * np.float32(self.step) for _ in range(2))
            self.value = self.sketch.node("Clip", self.value, self.sketch.constant(low), self.sketch.constant(high))
        elif kind == "Add":
            self.value = self.sketch.node("Add", self.value, self.value)
        elif kind != "none":
            self.value = self.sketch.node(kind, self.value)

    def fill(self) -> str:
        """The constant of a Pad: none, an integer of the data, any number, one that is stored as an integer."""
        about = 60 * self.step
        match self.pick("none", "integer", "integer", "any", "stored", "infinite"):
            case "none":
                return ""
            case "integer":
                return self.sketch.constant(
                    np.float32(self.step * self.pick(self.number(-255, 255), self.number(-2, 3)))
                )
            case "any":
                return self.sketch.constant(np.float32(self.generator.normal(0, about)))
            case "stored":
                dtype = self.pick(np.int8, np.uint8)
                stored = self.sketch.constant(self.integers((), dtype))
                how = self.sketch.constant(self.scale(about / 100)), self.sketch.constant(dtype(self.zero(dtype)))
                return self.sketch.node("DequantizeLinear", stored, *how)
        return self.sketch.constant(np.float32(self.pick(-np.inf, -np.inf, np.inf)))

    def pad(self) -> None:
        before, behind = ([0, self.pick(0, 0, 1), *[self.number(0, 2) for _ in self.shape[2:]]] for _ in range(2))
        given = [self.sketch.constant(np.array([*before, *behind], dtype=np.int64)), self.fill()]
        self.value = self.sketch.node("Pad", self.value, *filter(None, given))
        self.shape = tuple(n + b + e for n, b, e in zip(self.shape, before, behind, strict=True))

    def maximum(self) -> None:
        if self.pick(False, True):
            self.value = self.sketch.node("GlobalMaxPool", self.value)
            self.shape = (*self.shape[:2], *[1] * (len(self.shape) - 2))
            return
        kernel = [self.number(1, min(3, n)) for n in self.shape[2:]]
        how = {"strides": [self.number(1, 2) for _ in kernel]}
        self.value = self.sketch.node("MaxPool", self.value, kernel_shape=kernel, **how)
        self.shape = (*self.shape[:2], *self.after(kernel, self.shape[2:], how))

    def average(self) -> None:
        self.value = self.sketch.node("GlobalAveragePool", self.value)
        self.shape = (*self.shape[:2], *[1] * (len(self.shape) - 2))


BENDS = ("none", "Abs", "Neg", "Relu", "Clip", "Add")
LAYERS = ("pad", "maximum", "both", "average")


@st.composite
def padded_models(draw: st.DrawFn, layer: str, bend: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """(model from integers ``x`` to integers, two frames); its first layer is given."""
    made = Padding(draw, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
    dtype = made.pick(np.int8, np.uint8)
    given = made.shape = (1, made.number(1, 3), *[made.number(2, 4) for _ in range(made.number(1, 2))])
    made.dequantize(made.scale(0.05), made.zero(dtype), dtype)
    for kind, bent in ((layer, bend), (made.pick(*LAYERS), made.pick(*BENDS))):
        if kind == "average":
            far = [made.sketch.constant(np.float32(bound)) for bound in (0, 1e6)]
            operator = made.pick("Relu", "Clip")
            made.value = made.sketch.node(operator, made.value, *(far if operator == "Clip" else ()))
            made.average()
        else:
            made.bend(bent)
        if kind in ("pad", "both"):
            made.pad()
        if kind == "both":
            made.bound(50 * made.step)
        if kind in ("maximum", "both"):
            made.maximum()
        if made.pick(False, True):
            made.bound(50 * made.step)
        made.quantize(100 * made.step)
    return made.sketch.model(given, ELEMENTS[dtype], made.stored, len(made.shape)), made.integers((2, *given), dtype)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("bend", BENDS)
def test_the_network_means_what_the_model_says(tmp_path: Path, layer: str, bend: str) -> None:
    @settings(max_examples=10, derandomize=True, suppress_health_check=fresh_file_each_time, deadline=None)
    @given(padded_models(layer, bend))
    def tried(drawn: tuple[onnx.ModelProto, np.ndarray]) -> None:
        check(tmp_path / "model.onnx", *drawn)

    tried()


def test_a_pad_that_also_crops_is_no_pad_of_a_window(tmp_path: Path) -> None:
    """What remains of the image follows on itself, but the window must not see the rest."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, -5)
    padded = sketch.node("Pad", x, sketch.constant(np.array([0, 0, 1, 0, 0, 0, -2, 0])))
    weights = np.random.default_rng(0).integers(-127, 128, (3, 1, 2, 2)).astype(np.int8)
    y = sketch.node("Conv", padded, sketch.dequantized(weights, [0.002]))
    assert_agrees(
        write(sketch, tmp_path / "m.onnx", {"x": [1, 1, 5, 6]}, sketch.through_integers(y, 0.03125, 3)), 0.03125
    )


@pytest.mark.parametrize("fill", [-np.inf, np.finfo(np.float32).min])
def test_nothing_is_added_where_a_maximum_does_not_notice(tmp_path: Path, fill: float) -> None:
    """As Keras pads before a MaxPool: the pool pads by itself."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, -5)
    x = sketch.node("Pad", x, sketch.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1])), sketch.constant(np.float32(fill)))
    y = sketch.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.03125, -5))
    network = assert_agrees(path, 0.03125, rarely=0)
    assert [type(node.operator) for node in network.nodes] == [Pool]
    assert_circuit_agrees(network)


@pytest.mark.parametrize(("columns", "kernel"), [([0, 2], [2, 1]), ([2, 2], [3, 2]), ([0, 1], [2, 2])])
def test_windows_of_pads_alone_hold_their_constant(tmp_path: Path, columns: list[int], kernel: list[int]) -> None:
    """Less than any number of the image, and not the least that its integers have."""
    sketch = Sketch()
    x = sketch.node("Relu", sketch.through_integers("x", 0.03125, -5))
    around = np.array([0, 0, 1, columns[0], 0, 0, 1, columns[1]])
    x = sketch.node("Pad", x, sketch.constant(around), sketch.constant(np.float32(-1.5)))
    y = sketch.node("MaxPool", x, kernel_shape=kernel, strides=[1, 1])
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, sketch.through_integers(y, 0.03125, 7))
    assert_agrees(path, 0.03125, rarely=0)


@pytest.mark.parametrize("fill", [-np.inf, np.finfo(np.float32).min, -1.5, 0.37])
@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", ""])
def test_float_models_pad_before_a_maximum(tmp_path: Path, fill: float, activation: str) -> None:
    """Neither the calibration data nor a weight is to blame for an infinity."""
    s = Floats()
    y = s.conv("x", 4, 3)
    y = s.node(activation, y) if activation else y
    y = s.node("Pad", y, s.constant(np.array([0, 0, 1, 1, 0, 0, 1, 0])), s.constant(np.float32(fill)))
    y = s.conv(s.node("MaxPool", y, kernel_shape=[3, 2], strides=[2, 1]), 2, 4)
    network = quantized(s, tmp_path, y, x=SHAPE)
    if fill < -2:
        assert not any(isinstance(node.operator, Rearrange) for node in network.nodes)


def test_what_can_only_be_told_of_an_infinity(tmp_path: Path) -> None:
    """Where something else reads the pads, they are named."""
    s = Floats()
    y = s.node(
        "Pad", s.conv("x", 4, 3), s.constant(np.array([0, 0, 1, 1, 0, 0, 1, 0])), s.constant(np.float32(-np.inf))
    )
    path = write(s, tmp_path / "m.onnx", {"x": SHAPE}, s.conv(y, 2, 4))
    model = flow.read(path)
    with pytest.raises(UserError) as caught:
        flow.quantize(model, random_frames(model))
    assert f"`{y}`" in str(caught.value)


@pytest.mark.parametrize("moved", [20.0, -3.03125])
@pytest.mark.parametrize("kind", ["Conv", "depthwise", "ConvTranspose"])
def test_zeros_around_data_without_an_integer_for_them(tmp_path: Path, kind: str, moved: float) -> None:
    """0 is beyond the integers, or between two of them; scales are powers of two, so that onnxruntime is exact."""
    s = Sketch()
    x = s.node("Sub", s.through_integers("x", 0.125, 3), s.constant(np.float32(moved)))
    stored = np.random.default_rng(0).integers(-9, 10, (4, 1 if kind == "depthwise" else 4, 3, 3)).astype(np.int8)
    options = {"group": 4 if kind == "depthwise" else 1, "pads": [1, 0, 1, 2]}
    y = s.node(kind if kind == "ConvTranspose" else "Conv", x, s.dequantized(stored, np.float32(0.25)), **options)
    path = write(s, tmp_path / "m.onnx", {"x": [1, 4, 5, 4]}, s.through_integers(y, 2.0, 0))
    assert_circuit_agrees(assert_agrees(path, 2.0, rarely=0))


@pytest.mark.parametrize("moved", [0.07, -2.7182817, 3e-9, 1e30])
@pytest.mark.parametrize("kind", ["Conv", "MatMul", "of two tensors"])
def test_a_zero_at_an_odd_part_of_a_step_takes_too_many_bits(tmp_path: Path, kind: str, moved: float) -> None:
    """That part is some 2^-25 of a step: integers that count it would be as wide, with a threshold for each."""
    s = Sketch()
    x = s.node("Add", s.through_integers("x", 0.1, 0), s.constant(np.float32(moved)))
    weights = s.dequantized(np.full((4, 4, 3, 3) if kind == "Conv" else (6, 4), 3, np.int8), np.float32(0.25))
    if kind == "Conv":
        y = s.node("Conv", x, weights, pads=[1, 0, 1, 2])
    elif kind == "MatMul":  # only a border needs an integer for 0
        padded = s.node("Pad", x, s.constant(np.array([0, 0, 0, 0, 0, 0, 1, 0])), s.constant(np.float32(0)))
        y = s.node("MatMul", padded, weights)
    else:
        y = s.node("MatMul", x, s.node("Transpose", x, perm=[0, 1, 3, 2]))
    shape = [1, 4, 5, 4] if kind == "Conv" else [1, 1, 5, 6]
    path = write(s, tmp_path / "m.onnx", {"x": shape}, s.through_integers(y, 2.0, 0))
    model = flow.read(path)
    with pytest.raises(UserError, match="must be quantized"):
        import_model(model)
    if abs(moved) < 10 and kind != "of two tensors":
        assert flow.quantize(model, random_frames(model)).nodes  # samples give it a quantizer
