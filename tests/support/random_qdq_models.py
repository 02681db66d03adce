"""Quantized ONNX models drawn by hypothesis: a few layers, every way of writing them that exporters have."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

import onnx
from onnx import TensorProto
from support.exact_reference import Sliding
from support.qdq_models import Sketch

ELEMENTS = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


@dataclass
class Drawing:
    """A model under construction; ``value`` is the real-valued end of it, ``stored`` the last integers."""

    draw: st.DrawFn
    generator: np.random.Generator
    sketch: Sketch = field(default_factory=Sketch)
    value: str = "x"
    stored: str = "x"
    shape: tuple[int, ...] = ()
    step: float = 1.0

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def scale(self, about: float) -> np.float32:
        """A scale near a size; often a power of two, whose products tie."""
        if self.draw(st.booleans()):
            return np.float32(2.0 ** round(np.log2(about)))
        return np.float32(about * self.generator.uniform(0.6, 1.7))

    def integers(self, shape: tuple[int, ...], dtype: type = np.int8) -> np.ndarray:
        limits = np.iinfo(dtype)
        return self.generator.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def zero(self, dtype: type) -> int:
        limits = np.iinfo(dtype)
        return self.draw(st.one_of(st.sampled_from([0, limits.min]), st.integers(limits.min, limits.max)))

    # ---- between layers ---------------------------------------------------------------------------------------------

    def dequantize(self, scale: np.float32, zero: int, dtype: type) -> None:
        constants = self.sketch.constant(np.float32(scale)), self.sketch.constant(np.array(zero, dtype=dtype))
        self.value, self.step = self.sketch.node("DequantizeLinear", self.stored, *constants), float(scale)

    def quantize(self, spread: float) -> None:
        """To integers, some of which saturate, and back."""
        dtype = self.draw(st.sampled_from([np.int8, np.uint8]))
        zero, scale = self.zero(dtype), self.scale(spread / 100)
        constants = self.sketch.constant(np.float32(scale)), self.sketch.constant(np.array(zero, dtype=dtype))
        self.stored = self.sketch.node("QuantizeLinear", self.value, *constants)
        if self.draw(st.integers(0, 4)) == 0:  # fewer bits than the type has
            low, high = sorted(
                self.generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 2, dtype, endpoint=True)
            )
            bounds = self.sketch.constant(low), self.sketch.constant(high)
            self.stored = self.sketch.node("Clip", self.stored, *bounds)
        self.value = self.sketch.node("DequantizeLinear", self.stored, *constants)
        self.step = float(scale)

    def bound(self, spread: float) -> None:
        """Perhaps an activation."""
        kinds = ["Relu", "Clip", "lower bound", "upper bound"]
        for kind in self.draw(st.sampled_from([[], kinds[:1], kinds[1:2], kinds[2:], ["Clip", "Relu"], ["Clip"] * 2])):
            if kind == "Relu":
                self.value = self.sketch.node("Relu", self.value)
                continue
            low, high = sorted(np.float32(self.generator.normal(0, spread, 2)))  # type: ignore[call-overload]
            given = [self.sketch.constant(low), self.sketch.constant(high)]
            if kind != "Clip":
                given = given[:1] if kind == "lower bound" else ["", given[1]]
            self.value = self.sketch.node("Clip", self.value, *given)

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[str, float, np.ndarray]:
        """(dequantized weights, their size, scale): one scale or one per output, with or without zero points."""
        per_output = self.draw(st.booleans())
        count = shape[axis] if per_output else 1
        scales = np.array([self.scale(0.01) for _ in range(count)], dtype=np.float32)
        dtype = self.draw(st.sampled_from([np.int8, np.int8, np.uint8]))
        zero = None
        if dtype is np.uint8 or self.draw(st.booleans()):
            middle = 128 if dtype is np.uint8 else 0
            zero = (middle + self.generator.integers(-2, 3, count)).astype(dtype)
        if not per_output:
            scales, zero = scales.reshape(()), None if zero is None else zero.reshape(())
        return self.sketch.dequantized(self.integers(shape, dtype), scales, zero, axis=axis), 0.7, scales

    def bias(self, outputs: int, scales: np.ndarray, spread: float) -> str:
        """Float, or int32 with the scale of the products."""
        if self.draw(st.booleans()):
            return self.sketch.constant(self.generator.normal(0, spread, outputs).astype(np.float32))
        per_output = (self.step * np.broadcast_to(scales, outputs)).astype(np.float32)
        integers = np.rint(self.generator.normal(0, spread, outputs) / per_output).astype(np.int32)
        return self.sketch.dequantized(integers, per_output, np.zeros(outputs, dtype=np.int32))

    # ---- layers -----------------------------------------------------------------------------------------------------

    def conv(self) -> None:
        channels, *image = self.shape[1:]
        group = self.draw(st.sampled_from([1, 1, channels]))
        outputs, kernel = group * self.draw(st.integers(1, 3)), [self.draw(st.integers(1, min(3, n))) for n in image]
        how = self.sliding(kernel, image)
        self._conv(outputs, kernel, group, how)
        self.shape = (1, outputs, *self.after(kernel, image, how))

    def residual(self) -> None:
        """The data and what a Conv makes of it, added or subtracted, their scales being different."""
        channels, *image = self.shape[1:]
        before, step = self.value, self.step
        self._conv(channels, [self.draw(st.integers(1, 3)) for _ in image], 1, {"auto_pad": "SAME_UPPER"})
        operands = [before, self.value] if self.draw(st.booleans()) else [self.value, before]
        self.value = self.sketch.node(self.draw(st.sampled_from(["Add", "Sub"])), *operands)
        spread = 60 * (step + self.step)
        self.bound(spread)
        self.quantize(spread)

    def _conv(self, outputs: int, kernel: list[int], group: int, how: dict[str, Any]) -> None:
        channels, *image = self.shape[1:]
        weights, size, scales = self.weights((outputs, channels // group, *kernel), 0)
        spread = 70 * self.step * size * (channels // group * prod(kernel)) ** 0.5
        inputs, kind = [self.value, weights], self.draw(st.sampled_from(["none", "input", "Add", "Sub"]))
        if kind == "input":
            inputs.append(self.bias(outputs, scales, spread))
        self.value = self.sketch.node("Conv", *inputs, kernel_shape=kernel, group=group, **how)
        if kind in ("Add", "Sub"):
            constant = self.generator.normal(0, spread, (outputs, *[1] * len(image))).astype(np.float32)
            self.value = self.sketch.node(kind, self.value, self.sketch.constant(constant))
        self.bound(spread)
        self.quantize(spread)

    def max_pool(self) -> None:
        image = self.shape[2:]
        kernel = [self.draw(st.integers(1, min(3, n))) for n in image]
        how = self.sliding(kernel, image, ceil_mode=self.draw(st.booleans()))
        self.value = self.sketch.node("MaxPool", self.value, kernel_shape=kernel, **how)
        self.shape = (*self.shape[:2], *self.after(kernel, image, how))
        self.quantize(100 * self.step)

    def average_pool(self) -> None:
        image = self.shape[2:]
        kernel = [self.draw(st.integers(1, min(3, n))) for n in image]
        counted = self.draw(st.booleans())
        how = self.sliding(kernel, image, dilated=False, ceil_mode=not counted and self.draw(st.booleans()))
        if counted:
            how["count_include_pad"] = 1
        self.value = self.sketch.node("AveragePool", self.value, kernel_shape=kernel, **how)
        self.shape = (*self.shape[:2], *self.after(kernel, image, how))
        self.bound(50 * self.step)
        self.quantize(80 * self.step)

    def rescale(self) -> None:
        """Arithmetic with one constant, one per channel or per element, an activation, a change of scale."""
        operator = self.draw(st.sampled_from(["Add", "Sub", "Mul", "Div", "none"]))
        if operator != "none":
            per_channel = (self.shape[1], *[1] * (len(self.shape) - 2))
            shape = self.draw(st.sampled_from([(), per_channel, self.shape[1:]]))
            constant = self.sketch.constant(self.generator.uniform(0.3, 3, shape).astype(np.float32))
            self.value = self.sketch.node(operator, self.value, constant)
        self.bound(50 * self.step)
        self.quantize(100 * self.step)

    def global_pool(self) -> None:
        kind = self.draw(st.sampled_from(["GlobalAveragePool", "GlobalMaxPool"]))
        self.value = self.sketch.node(kind, self.value)
        self.shape = (*self.shape[:2], *[1] * (len(self.shape) - 2))
        self.quantize(60 * self.step)

    def flatten(self) -> None:
        """To a row, before or after the transposition to channels last, of integers or of real numbers."""
        rank = len(self.shape)
        if self.draw(st.booleans()):
            perm = [0, *range(2, rank), 1]
            self.value = self.sketch.node("Transpose", self.value, perm=perm)
            self.shape = tuple(self.shape[k] for k in perm)
        if self.draw(st.booleans()):
            self.value = self.sketch.node("Flatten", self.value)
        else:
            self.value = self.sketch.node("Reshape", self.value, self.sketch.constant(np.array([1, -1])))
        self.shape = (1, prod(self.shape))

    def dense(self) -> None:
        inputs, outputs = self.shape[1], self.draw(st.integers(1, 4))
        if self.draw(st.booleans()):
            turned = self.draw(st.booleans())
            weights, size, scales = self.weights((outputs, inputs) if turned else (inputs, outputs), 1 - turned)
            spread = 70 * self.step * size * inputs**0.5
            alpha, beta = self.draw(st.sampled_from([(1.0, 1.0), (0.5, 2.0), (0.3, 0.0)]))
            given = [self.bias(outputs, scales, spread)] if self.draw(st.booleans()) else []
            self.value = self.sketch.node(
                "Gemm", self.value, weights, *given, transB=int(turned), alpha=alpha, beta=beta
            )
        else:
            weights, size, scales = self.weights((inputs, outputs), 1)
            spread = 70 * self.step * size * inputs**0.5
            self.value = self.sketch.node("MatMul", self.value, weights)
            if self.draw(st.booleans()):
                self.value = self.sketch.node("Add", self.bias(outputs, scales, spread), self.value)
        self.shape = (1, outputs)
        self.bound(spread)
        self.quantize(spread)

    # ---- windows ----------------------------------------------------------------------------------------------------

    def sliding(
        self, kernel: list[int], image: tuple[int, ...] | list[int], *, ceil_mode: bool = False, dilated: bool = True
    ) -> dict[str, Any]:
        """Attributes of a window that fits."""
        rank = len(kernel)
        how: dict[str, Any] = {"strides": [self.draw(st.integers(1, 2)) for _ in range(rank)]}
        if self.draw(st.integers(0, 3)) == 0:
            return how | {"auto_pad": self.draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER"]))}
        how["pads"] = [self.draw(st.integers(0, k - 1)) for k in [*kernel, *kernel]]
        if dilated and all(2 * (k - 1) + 1 <= n for k, n in zip(kernel, image, strict=True)):
            how["dilations"] = [self.draw(st.sampled_from([1, 2]))] * rank
        return how | ({"ceil_mode": 1} if ceil_mode else {})

    @staticmethod
    def after(kernel: list[int], image: tuple[int, ...] | list[int], how: dict[str, Any]) -> list[int]:
        """The shape of the result."""
        return Sliding.of(
            image, kernel, **{name: value for name, value in how.items() if name != "count_include_pad"}
        ).sizes


@st.composite
def quantized_models(draw: st.DrawFn) -> tuple[onnx.ModelProto, np.ndarray]:
    """(model from integers ``x`` to integers, two frames)."""
    made = Drawing(draw, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
    rank = draw(st.sampled_from([1, 2, 2, 2]))
    channels, image = draw(st.integers(1, 3)), [draw(st.integers(2, 5)) for _ in range(rank)]
    made.shape, dtype = (1, channels, *image), draw(st.sampled_from([np.int8, np.uint8]))
    given = made.shape
    kind = draw(st.sampled_from(["channels first", "channels last", "vector"]))
    if kind == "channels last":
        given = (1, *image, channels)
        made.stored = made.sketch.node("Transpose", "x", perm=[0, rank + 1, *range(1, rank + 1)])
    elif kind == "vector":
        given = (1, prod(made.shape))
        made.stored = made.sketch.node("Reshape", "x", made.sketch.constant(np.array(made.shape)))
    made.dequantize(made.scale(0.05), made.zero(dtype), dtype)
    for _ in range(draw(st.integers(0, 2))):
        draw(st.sampled_from([made.conv, made.residual, made.max_pool, made.average_pool, made.rescale]))()
    if draw(st.booleans()):
        made.global_pool()
    ending = draw(st.sampled_from(["conv", "dense", "dense"]))
    if ending == "dense":
        made.flatten()
        for _ in range(draw(st.integers(1, 2))):
            made.dense()
    else:
        made.conv()
    frames = made.integers((2, *given), dtype)
    return made.sketch.model(given, ELEMENTS[dtype], made.stored, len(made.shape)), frames
