"""The way PyTorch's exporters write: channels first, every attribute spelled out, shapes computed by nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import onnx
from onnx import numpy_helper
from support.exports.export import Export, Map, elements

END = np.iinfo(np.int64).max  # what a slice without an end ends with


class TorchExport(Export):
    """Attributes:
    dialect: of names: "numbers" (123, input.4), "scopes" (/layer1/conv/Conv_output_0) or "words" (conv2d_3).
    folded: whether BatchNormalization went into the weights.
    nodes_for_constants: whether small constants are Constant nodes.
    traced: whether shapes are computed by Shape, Gather and Concat, as for a dynamic batch.
    """

    opsets = (11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21)
    batches = (1, 1, "batch_size", "N", "s0")
    graph_name = "main_graph"
    producer = "pytorch"

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random)
        self.dialect = self.pick("numbers", "scopes", "scopes", "words")
        self.folded = self.yes(0.7)
        self.nodes_for_constants = self.yes(0.7)
        self.traced = self.batch != 1 and self.yes(0.6)
        self.normalization = {"epsilon": 1e-5, "momentum": 0.9}
        if self.opset >= 14:
            self.normalization["training_mode"] = 0

    # ---- names ------------------------------------------------------------------------------------------------------

    def value_name(self, op_type: str) -> str:
        k = self.numbered()
        if self.dialect == "numbers":
            return f"input.{k}" if self.yes(0.2) else str(k)
        if self.dialect == "scopes":
            return f"/layer{k // 8}/layer{k // 8}.{k % 8}/{op_type.lower()}/{op_type}_output_{k}"
        return f"{op_type.lower()}_{k}" if self.yes(0.7) else f"val_{k}"

    def node_name(self, op_type: str, output: str) -> str:
        if self.dialect == "scopes":
            return output.rsplit("_output_", 1)[0] + f"_{len(self.nodes)}"
        return f"node_{output}" if self.dialect == "words" else super().node_name(op_type, output)

    def weight_name(self, what: str) -> str:
        k = self.numbered()
        return f"onnx::Conv_{k}" if self.folded and self.dialect != "words" else f"layer{k // 8}.{k % 8}.{what}"

    def small(self, array: Any, dtype: Any = np.int64) -> str:
        if not self.nodes_for_constants:
            return super().small(array, dtype)
        return self.raw("Constant", [], value=numpy_helper.from_array(np.asarray(array, dtype=dtype)))

    # ---- layers -----------------------------------------------------------------------------------------------------

    def input(self, channels: int, size: tuple[int, ...]) -> Map:
        name = self.pick("input", "x", "input.1", "images", "onnx::Conv_0")
        names = ("height", "width")[-len(size) :]
        declared = [self.batch, channels, *(names if self.open_size else size)]
        self.declare_input(name, (1, channels, *size), declared)
        return Map(name, (1, channels, *size))

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
        rank = len(x.size)
        pad = (kernel - 1) * dilation // 2
        if stride == 2 and self.yes(0.12):  # as networks do that came from TensorFlow
            x, pad = self.surrounded(x, kernel), 0
        terms = x.channels // group * kernel**rank
        weights = self.drawn_weights(channels, x.channels // group, *[kernel] * rank, inputs=terms)
        plain = not self.folded and self.yes(0.8)
        given = [] if plain or self.yes(0.05) else [self.drawn_bias(channels)]
        name = self.raw(
            "Conv",
            [x.name, weights, *given],
            dilations=[dilation] * rank,
            group=group,
            kernel_shape=[kernel] * rank,
            pads=[pad] * (2 * rank),
            strides=[stride] * rank,
        )
        y = x.like(name, channels, [(n + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for n in x.size])
        if plain:
            y = self.normalized(y)
        return self.act(y, activation)

    def transposed_conv(self, x: Map, channels: int) -> Map:
        rank = len(x.size)
        kernel, pads, more = self.pick((2, 0, 0), (4, 1, 0), (3, 1, 1))
        weights = self.drawn_weights(x.channels, channels, *[kernel] * rank, inputs=x.channels * 2**rank)
        how = {"output_padding": [more] * rank} if more else {}
        name = self.raw(
            "ConvTranspose",
            [x.name, weights, self.drawn_bias(channels)],
            dilations=[1] * rank,
            group=1,
            kernel_shape=[kernel] * rank,
            pads=[pads] * (2 * rank),
            strides=[2] * rank,
            **how,
        )
        return x.like(name, channels, [2 * n for n in x.size])

    def pool(self, x: Map, kind: str) -> Map:
        rank = len(x.size)
        kernel, pad, ceil = self.pick((2, 0, 0), (2, 0, 0), (2, 0, 1), (3, 1, 0), (3, 1, 1), (3, 0, 1))
        if kind == "Average" and self.yes(0.7):
            ceil = 0
        if min(x.size) < 3:
            kernel, pad, ceil = 2, 0, 0
        how: dict[str, Any] = {"ceil_mode": ceil} if ceil or self.yes() else {}
        if kind == "Average":
            how["count_include_pad"] = 1
        elif self.opset >= 10 and self.yes():
            how["dilations"] = [1] * rank
        name = self.raw(
            f"{kind}Pool", [x.name], kernel_shape=[kernel] * rank, pads=[pad] * (2 * rank), strides=[2] * rank, **how
        )
        return x.like(name, size=[pooled(n, kernel, pad, ceil) for n in x.size])

    def means(self, x: Map) -> Map:
        rank = len(x.size)
        if self.yes(0.6):
            return x.like(self.raw("GlobalAveragePool", [x.name]), size=[1] * rank)
        if self.yes(0.3):
            name = self.raw("AveragePool", [x.name], kernel_shape=list(x.size), strides=list(x.size), ceil_mode=0)
            return x.like(name, size=[1] * rank)
        axes = list(range(2, 2 + rank)) if self.yes() else list(range(-rank, 0))
        return x.like(self.with_axes("ReduceMean", x.name, axes, since=18, keepdims=1), size=[1] * rank)

    def upsampled(self, x: Map) -> Map:
        rank = len(x.size)
        how = {"coordinate_transformation_mode": "asymmetric", "mode": "nearest", "nearest_mode": "floor"}
        if self.yes():
            how["cubic_coeff_a"] = -0.75  # type: ignore[assignment]
        size = [2 * n for n in x.size]
        none = "" if self.opset >= 13 else self.small(np.zeros(0), np.float32)
        if self.traced and self.yes():
            shape = self.raw("Shape", [x.name])
            head = self.raw("Slice", [shape, self.small([0]), self.small([2]), self.small([0])])
            wanted = self.raw("Concat", [head, self.small(size)], axis=0)
            return x.like(self.raw("Resize", [x.name, none, none, wanted], **how), size=size)
        scales = self.small([1, 1, *[2] * rank], np.float32)
        return x.like(self.raw("Resize", [x.name, none, scales], **how), size=size)

    def concat(self, maps: Sequence[Map]) -> Map:
        name = self.raw("Concat", [x.name for x in maps], axis=1)
        return maps[0].like(name, sum(x.channels for x in maps))

    def split(self, x: Map) -> tuple[Map, Map]:
        half = x.channels // 2
        if self.yes(0.3):
            first, second = (
                self.raw("Slice", [x.name, self.small([a]), self.small([b]), self.small([1]), self.small([1])])
                for a, b in ((0, half), (half, END if self.yes() else 2 * half))
            )
        elif self.opset >= 13:
            how = {"num_outputs": 2} if self.opset >= 18 and self.yes(0.3) else {}
            sizes = [] if how else [self.small([half, half])]
            first, second = self.several("Split", [x.name, *sizes], 2, axis=1, **how)
        else:
            first, second = self.several("Split", [x.name], 2, axis=1, split=[half, half])
        return x.like(first, half), x.like(second, half)

    def padded(self, x: Map) -> Map:
        rank = len(x.size)
        before, behind = ([self.number(0, 1) for _ in range(rank)] for _ in range(2))
        return self._padded(x, before, behind)

    def surrounded(self, x: Map, kernel: int) -> Map:
        return self._padded(x, [(kernel - 1) // 2] * len(x.size), [kernel // 2] * len(x.size))

    def _padded(self, x: Map, before: Sequence[int], behind: Sequence[int]) -> Map:
        size = [a + n + b for a, n, b in zip(before, x.size, behind, strict=True)]
        pads = [0, 0, *before, 0, 0, *behind]
        kind = self.pick("constant", "constant", "constant", "reflect", "edge")
        if any(n < 2 for n in x.size):
            kind = "constant"
        given = [self.small(pads)]
        if kind == "constant" and self.yes(0.8):
            given.append(self.small(0, np.float32))
        return x.like(self.raw("Pad", [x.name, *given], mode=kind), size=size)

    def flat(self, x: Map) -> Map:
        count = elements(x)
        way = self.pick("Flatten", "Flatten", "Reshape", "squeeze" if set(x.size) <= {1} else "Flatten")
        if way == "squeeze" and x.size:
            return Map(self.with_axes("Squeeze", x.name, range(2, len(x.shape))), (1, count))
        if way == "Flatten" or not self.traced:
            name = self.raw("Flatten", [x.name], axis=1)
            if self.yes(0.2) and way == "Reshape":
                name = self.raw("Reshape", [x.name, self.small([-1 if self.batch != 1 else 1, count])])
            return Map(name, (1, count))
        size = self.raw("Gather", [self.raw("Shape", [x.name]), self.small(0)], axis=0)
        size = self.with_axes("Unsqueeze", size, [0])
        return Map(self.raw("Reshape", [x.name, self.raw("Concat", [size, self.small([-1])], axis=0)]), (1, count))

    def dense(self, x: Map, outputs: int, activation: str = "none") -> Map:
        inputs = x.shape[-1]
        if self.yes(0.85):
            weights = self.drawn_weights(outputs, inputs, inputs=inputs)
            name = self.raw("Gemm", [x.name, weights, self.drawn_bias(outputs)], alpha=1.0, beta=1.0, transB=1)
        else:
            product = self.raw("MatMul", [x.name, self.drawn_weights(inputs, outputs, inputs=inputs)])
            name = self.raw("Add", [self.drawn_bias(outputs), product])
        y = Map(name, (*x.shape[:-1], outputs))
        if not self.folded and self.yes(0.2) and len(y.shape) == 2:
            y = self.normalized(y)
        return self.act(y, activation)

    def model(self) -> onnx.ModelProto:
        """Some versions name the lengths they do not know by the number of an output, which is not the only one."""
        model = super().model()
        if self.batch != 1 and self.dialect == "numbers":
            for k, value in enumerate(model.graph.value_info):
                for axis, length in enumerate(value.type.tensor_type.shape.dim):
                    if axis == 0 or self.yes(0.3):
                        length.dim_param = f"Conv{k // 2}_dim_{axis}"
        return model

    def output(self, x: Map) -> None:
        if x.name in (value.name for value in self.inputs):
            x = self.follow("Identity", x)
        size: list[int | str] = [f"Out{x.name}_dim_{k}" for k in range(2, len(x.shape))]
        named = self.open_size and len(x.shape) > 2
        self.declare_output(x.name, [self.batch, x.shape[1], *size] if named else self.declared(x.shape))

    # ---- functions --------------------------------------------------------------------------------------------------

    def function(self, x: Map, kind: str) -> Map:
        if kind in ("relu6", "hardtanh"):
            low, high = (0, 6) if kind == "relu6" else (-1, 1)
            return self.follow("Clip", x, self.small(low, np.float32), self.small(high, np.float32))
        if kind == "hardswish":
            if self.opset >= 14 and self.yes(0.7):
                return self.follow("HardSwish", x)
            if self.yes(0.3):
                return self.mul(x, self.follow("HardSigmoid", x, alpha=1 / 6, beta=0.5))
            gate = self.follow("Clip", self.shifted(x, 3), self.small(0, np.float32), self.small(6, np.float32))
            if self.yes():
                return self.follow("Div", self.mul(x, gate), self.scalar(6, x))
            return self.mul(x, self.follow("Div", gate, self.scalar(6, x)))
        if kind == "hardsigmoid":
            if self.yes(0.6):
                return self.follow("HardSigmoid", x, alpha=1 / 6, beta=0.5)
            gate = self.follow("Clip", self.shifted(x, 3), self.small(0, np.float32), self.small(6, np.float32))
            return self.follow("Div", gate, self.scalar(6, x))
        if kind == "silu":
            return self.mul(x, self.follow("Sigmoid", x))
        if kind == "gelu":
            if self.opset >= 20:
                return self.follow("Gelu", x)
            erf = self.follow("Erf", self.follow("Div", x, self.scalar(2**0.5, x)))
            return self.follow("Mul", self.mul(x, self.shifted(erf, 1)), self.scalar(0.5, x))
        if kind == "mish":
            return self.mul(x, self.follow("Tanh", self.follow("Softplus", x)))
        if kind == "prelu":
            slopes = self.random.uniform(0.1, 0.3, [x.channels, *[1] * len(x.size)])
            return self.follow("PRelu", x, self.weights(slopes))
        if kind == "leakyrelu":
            return self.follow("LeakyRelu", x, alpha=self.pick(0.01, 0.1, 0.2))
        if kind == "elu":
            return self.follow("Elu", x, alpha=1.0)
        simple = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "selu": "Selu", "softplus": "Softplus"}
        return self.follow(simple[kind], x)

    def shifted(self, x: Map, number: float) -> Map:
        return self.follow("Add", x, self.scalar(number, x))


def pooled(length: int, kernel: int, pad: int, ceil: int) -> int:
    """Windows of stride 2; with ``ceil`` one that begins in the padding behind is left out."""
    room = length + 2 * pad - kernel
    count = (-(-room // 2) if ceil else room // 2) + 1
    return count - (ceil and (count - 1) * 2 >= length + pad)
