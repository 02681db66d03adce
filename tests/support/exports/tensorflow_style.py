"""The way converters from TensorFlow and TFLite write: images come channels last, and are turned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from support.exports.export import Export, Map, elements


class TensorFlowExport(Export):
    """Attributes:
    lite: names are glued from the layers that TFLite fused.
    each_layer: every layer turns its input and turns its output back; no optimizer ran.
    normalization_as: "folded" into the weights, "factors" (Mul and Add) or "node".
    automatic: padding by ``auto_pad`` instead of numbers.
    by_image: convolutions of one axis are those of an image of one row.
    """

    opsets = (11, 12, 13, 14, 15, 16, 17, 18)
    batches = (1, "unk__12", "batch")
    graph_name = "tf2onnx"
    producer = "tf2onnx"

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random)
        self.lite = self.yes(0.4)
        self.each_layer = self.yes(0.12)
        self.normalization_as = self.pick("folded", "folded", "folded", "factors", "node")
        self.automatic = self.yes(0.3)
        self.by_image = self.yes(0.6)
        self.normalization = {"epsilon": 1e-3}

    # ---- names ------------------------------------------------------------------------------------------------------

    def value_name(self, op_type: str) -> str:
        k = self.numbered()
        layer = f"model/block_{k // 9}"
        if self.lite:
            return f"{layer}/{op_type};{layer}/bn/FusedBatchNormV3;{layer}/conv2d/Conv2D;{layer}/BiasAdd{k}"
        return f"{layer}/{op_type.lower()}_{k}/{op_type}:0" if self.yes(0.7) else f"{op_type}__{k}:0"

    def node_name(self, op_type: str, output: str) -> str:
        return output.split(":")[0] if not self.lite else f"{output}__{len(self.nodes)}"

    def weight_name(self, what: str) -> str:
        k = self.numbered()
        return self.pick(f"const_fold_opt__{k}", f"model/block_{k // 9}/{what}/ReadVariableOp_{k}:0")

    # ---- the order of axes ------------------------------------------------------------------------------------------

    def first(self, x: Map) -> Map:
        """Channels first."""
        if not x.last:
            return x
        rank = len(x.size)
        turned = self.raw("Transpose", [x.name], perm=[0, rank + 1, *range(1, rank + 1)])
        return Map(turned, (1, x.channels, *x.size))

    def behind(self, x: Map) -> Map:
        """Channels last."""
        if x.last or not x.size:
            return x
        rank = len(x.size)
        turned = self.raw("Transpose", [x.name], perm=[0, *range(2, rank + 2), 1])
        return Map(turned, (1, *x.size, x.channels), last=True)

    def settled(self, x: Map) -> Map:
        """As the next layer is to find it."""
        return self.behind(x) if self.each_layer else x

    def image_of(self, x: Map) -> Map:
        """One row more in front of the only axis."""
        if len(x.size) == 2 or not self.by_image:
            return x
        return Map(self.with_axes("Unsqueeze", x.name, [2]), (1, x.channels, 1, *x.size))

    def without_row(self, x: Map, like: Map) -> Map:
        if len(x.size) == len(like.size):
            return x
        return Map(self.with_axes("Squeeze", x.name, [2]), (1, x.channels, *x.size[1:]))

    # ---- layers -----------------------------------------------------------------------------------------------------

    def input(self, channels: int, size: tuple[int, ...]) -> Map:
        name = self.pick("input_1", "serving_default_input:0", "x:0", "input_1:0")
        names = ("unk__1", "unk__2")[: len(size)]
        declared = [self.batch, *(names if self.open_size else size), channels]
        if not size:
            declared = [self.batch, channels]
        self.declare_input(name, (1, *size, channels), declared)
        x = Map(name, (1, *size, channels), last=bool(size))
        return x if self.each_layer or not size else self.first(x)

    def same(self, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: int) -> dict[str, Any]:
        """Padding so that ``ceil(size / stride)`` windows fit."""
        if self.automatic and dilation == 1:
            return {"auto_pad": "SAME_UPPER"}
        total = [
            max(0, (-(-n // s) - 1) * s + (k - 1) * dilation + 1 - n)
            for n, k, s in zip(size, kernel, stride, strict=True)
        ]
        return {"pads": [t // 2 for t in total] + [t - t // 2 for t in total]}

    def conv(
        self,
        x: Map,
        channels: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        group: int = 1,
        dilation: int = 1,
        activation: str = "none",
    ) -> Map:
        given, x = x, self.image_of(self.first(x))
        flat = len(x.size) > len(given.size)
        kernels = [1 if flat and k == 0 else kernel for k in range(len(x.size))]
        strides = [1 if flat and k == 0 else stride for k in range(len(x.size))]
        terms = x.channels // group * int(np.prod(kernels))
        weights = self.drawn_weights(channels, x.channels // group, *kernels, inputs=terms)
        size = x.size
        if stride == 2 and not flat and self.yes(0.45):  # ZeroPadding2D before it
            x = self.surrounded(x, kernel)
            size = [(n - kernel) // 2 + 1 for n in x.size]  # type: ignore[assignment]
            how: dict[str, Any] = {"auto_pad": "VALID"} if self.automatic else {}
        else:
            how = self.same(x.size, kernels, strides, dilation)
            size = [-(-n // s) for n, s in zip(x.size, strides, strict=True)]  # type: ignore[assignment]
        if dilation > 1 or self.yes():
            how["dilations"] = [1 if flat and k == 0 else dilation for k in range(len(x.size))]
        if flat and dilation > 1:
            pad = (kernel - 1) * dilation
            how["pads"] = [0, pad // 2, 0, pad - pad // 2]
        bias = self.normalization_as == "folded" and self.yes(0.8)
        inputs = [x.name, weights, *([self.drawn_bias(channels)] if bias else [])]
        name = self.raw("Conv", inputs, group=group, kernel_shape=kernels, strides=strides, **how)
        y = self.without_row(x.like(name, channels, size), given)
        y = y if bias else self.biased(y)
        return self.settled(self.act(y, activation))

    def surrounded(self, x: Map, kernel: int) -> Map:
        """As Keras pads before a convolution of stride 2."""
        before, after = ((kernel - 1) // 2, kernel // 2) if self.yes() else (0, kernel - 1)
        rank = len(x.size)
        pads = self.small([0, 0, *[before] * rank, 0, 0, *[after] * rank])
        given = [pads, self.small(0, np.float32)] if self.yes() else [pads]
        return x.like(self.raw("Pad", [x.name, *given]), size=[n + before + after for n in x.size])

    def biased(self, y: Map) -> Map:
        """Normalized, or with a bias by a node of its own."""
        shape = [1, y.channels, *[1] * len(y.size)]
        if self.normalization_as == "node":
            return self.normalized(y)
        if self.normalization_as == "factors":
            y = self.follow("Mul", y, self.weights(self.random.uniform(0.6, 1.4, shape), "mul"))
        return self.follow("Add", y, self.weights(self.random.normal(0, 0.3, shape), "add"))

    def transposed_conv(self, x: Map, channels: int) -> Map:
        x = self.first(x)
        rank = len(x.size)
        kernel = self.pick(2, 3, 4)
        weights = self.drawn_weights(x.channels, channels, *[kernel] * rank, inputs=x.channels * 2**rank)
        size = [2 * n for n in x.size]
        if self.yes(0.3):
            how: dict[str, Any] = {"auto_pad": "SAME_UPPER", "output_shape": size}
        else:
            total = kernel - 2
            how = {"pads": [total // 2] * rank + [total - total // 2] * rank}
        name = self.raw("ConvTranspose", [x.name, weights], kernel_shape=[kernel] * rank, strides=[2] * rank, **how)
        y = x.like(name, channels, size)
        bias = self.weights(self.random.normal(0, 0.3, [1, channels, *[1] * rank]), "bias")
        return self.settled(self.follow("Add", y, bias))

    def pool(self, x: Map, kind: str) -> Map:
        given, x = x, self.image_of(self.first(x))
        flat = len(x.size) > len(given.size)
        kernels = [1 if flat and k == 0 else 2 for k in range(len(x.size))]
        same = kind == "Max" and self.yes(0.4) and not flat
        if same:
            how = self.same(x.size, kernels, kernels, 1)
        else:
            how = {"auto_pad": "VALID"} if self.automatic else {}
        name = self.raw(f"{kind}Pool", [x.name], kernel_shape=kernels, strides=kernels, **how)
        size = [-(-n // k) if same else n // k for n, k in zip(x.size, kernels, strict=True)]
        return self.settled(self.without_row(x.like(name, size=size), given))

    def means(self, x: Map) -> Map:
        if x.last:
            axes = list(range(1, len(x.size) + 1))
            name = self.with_axes("ReduceMean", x.name, axes, since=18, keepdims=1)
        elif self.yes():
            name = self.raw("GlobalAveragePool", [x.name])
        else:
            name = self.with_axes("ReduceMean", x.name, range(2, len(x.shape)), since=18, keepdims=1)
        return x.like(name, size=[1] * len(x.size))

    def summary(self, x: Map) -> Map:
        axes = range(1, len(x.size) + 1) if x.last else range(2, len(x.shape))
        if self.yes(0.6):
            return Map(self.with_axes("ReduceMean", x.name, axes, since=18, keepdims=0), (1, x.channels))
        return Map(self.with_axes("Squeeze", self.means(x).name, axes), (1, x.channels))

    def upsampled(self, x: Map) -> Map:
        x = self.first(x)
        rank = len(x.size)
        modes = [("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("asymmetric", "round_prefer_floor")]
        if self.opset < 13:
            modes.append(("tf_half_pixel_for_nn", "floor"))
        mode, rounding = modes[self.number(0, len(modes) - 1)]
        how = {"coordinate_transformation_mode": mode, "mode": "nearest", "nearest_mode": rounding}
        size = [2 * n for n in x.size]
        none = "" if self.opset >= 13 else self.small([], np.float32)
        if self.yes(0.7):
            given = [none, self.small([1, 1, *[2] * rank], np.float32)]
        elif self.batch == 1:
            given = [none, none, self.small([1, x.channels, *size])]
        else:
            shape = self.raw("Slice", [self.raw("Shape", [x.name]), self.small([0]), self.small([2])])
            given = [none, none, self.raw("Concat", [shape, self.small(size)], axis=0)]
        return self.settled(x.like(self.raw("Resize", [x.name, *given], **how), size=size))

    def concat(self, maps: Sequence[Map]) -> Map:
        axis = len(maps[0].shape) - 1 if maps[0].last else 1
        name = self.raw("Concat", [x.name for x in maps], axis=self.pick(axis, axis - len(maps[0].shape)))
        return maps[0].like(name, sum(x.channels for x in maps))

    def split(self, x: Map) -> tuple[Map, Map]:
        half, axis = x.channels // 2, len(x.shape) - 1 if x.last else 1
        if self.yes(0.4):
            first, second = (
                self.raw("Slice", [x.name, self.small([a]), self.small([b]), self.small([axis])])
                for a, b in ((0, half), (half, np.iinfo(np.int32).max))
            )
        elif self.opset >= 13:
            first, second = self.several("Split", [x.name, self.small([half, half])], 2, axis=axis)
        else:
            first, second = self.several("Split", [x.name], 2, axis=axis)
        return x.like(first, half), x.like(second, half)

    def padded(self, x: Map) -> Map:
        x = self.first(x)
        return self.settled(self.surrounded(x, 3)) if len(x.size) == 2 else self.settled(x)

    def flat(self, x: Map) -> Map:
        count = elements(x)
        x = x if max(x.size, default=1) == 1 else self.behind(x)
        return Map(self.raw("Reshape", [x.name, self.small([-1, count])]), (1, count))

    def dense(self, x: Map, outputs: int, activation: str = "none") -> Map:
        inputs = x.shape[-1]
        weights = self.drawn_weights(inputs, outputs, inputs=inputs)
        if self.yes(0.85):
            name = self.raw("Add", [self.raw("MatMul", [x.name, weights]), self.drawn_bias(outputs)])
        else:
            name = self.raw("Gemm", [x.name, weights, self.drawn_bias(outputs)])
        return self.act(Map(name, (1, outputs)), activation)

    def output(self, x: Map) -> None:
        x = replace(self.behind(x), last=False)
        if x.name in (value.name for value in self.inputs) or self.yes(0.2):
            x = self.follow("Identity", x)
        shape = self.declared(x.shape)
        if self.open_size and len(x.shape) > 2:
            shape = [self.batch, *(f"unk__{self.numbered()}" for _ in x.shape[2:]), x.shape[-1]]
        self.declare_output(x.name, shape)

    # ---- functions --------------------------------------------------------------------------------------------------

    def function(self, x: Map, kind: str) -> Map:
        if kind == "relu6":
            if self.yes(0.3):
                return self.follow("Min", self.follow("Relu", x), self.scalar(6, x))
            return self.clipped(x, 0, 6)
        if kind == "hardtanh":
            return self.clipped(x, -1, 1)
        if kind in ("hardswish", "hardsigmoid"):
            gate = self.clipped(self.follow("Add", x, self.scalar(3, x)), 0, 6)
            gate = self.follow("Mul", gate, self.scalar(np.float32(1 / 6), x))
            return self.mul(x, gate) if kind == "hardswish" else gate
        if kind == "silu":
            return self.mul(x, self.follow("Sigmoid", x))
        if kind == "gelu":
            erf = self.follow("Erf", self.follow("Mul", x, self.scalar(0.5**0.5, x)))
            return self.mul(self.follow("Mul", x, self.scalar(0.5, x)), self.follow("Add", erf, self.scalar(1, x)))
        if kind == "mish":
            return self.mul(x, self.follow("Tanh", self.follow("Softplus", x)))
        if kind == "prelu":
            shape = [*[1] * len(x.size), x.channels] if x.last else [x.channels, *[1] * len(x.size)]
            return self.follow("PRelu", x, self.weights(self.random.uniform(0.1, 0.3, shape)))
        if kind == "leakyrelu":
            if self.yes(0.05):  # as TensorFlow spells it
                return self.follow("Max", x, self.follow("Mul", x, self.scalar(0.2, x)).name)
            return self.follow("LeakyRelu", x, alpha=self.pick(0.1, 0.2, 0.3))
        if kind == "elu":
            return self.follow("Elu", x, alpha=1.0)
        simple = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "selu": "Selu", "softplus": "Softplus"}
        return self.follow(simple[kind], x)

    def clipped(self, x: Map, low: float, high: float) -> Map:
        return self.follow("Clip", x, self.small(low, np.float32), self.small(high, np.float32))
