"""Float ONNX models drawn by seed: graphs of every operator that hardware has, wired as people wire them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onnx import helper
from support.qdq_models import Sketch

ACTIVATIONS = (
    "Relu",
    "LeakyRelu",
    "HardSwish",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "Elu",
    "Clip",
    "PRelu",
    "silu",
    "none",
)


@dataclass
class Value:
    name: str
    shape: tuple[int, ...]


@dataclass
class FloatDrawing:
    """A model under construction: ``pool`` holds the values that may still be read."""

    seed: int
    sketch: Sketch = field(default_factory=lambda: Sketch(opset=18))
    pool: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    # ---- parts ----------------------------------------------------------------------------------------------------

    def floats(self, *shape: int, about: float = 0.0, spread: float = 1.0) -> str:
        return self.sketch.constant(self.random.normal(about, spread, shape).astype(np.float32))

    def ints(self, *numbers: int) -> str:
        return self.sketch.constant(np.array(numbers, dtype=np.int64))

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def yes(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def add(self, op_type: str, shape: tuple[int, ...], *inputs: str, **attributes: object) -> Value:
        return Value(self.sketch.node(op_type, *inputs, **attributes), shape)

    # ---- layers -----------------------------------------------------------------------------------------------------

    def conv(self, x: Value, outputs: int | None = None, stride: int | None = None) -> Value:
        _, c, h, w = x.shape
        size = [self.number(1, min(3, n)) for n in (h, w)]
        kinds = ["dense", "dense", "depthwise", "grouped"]
        kind = kinds[self.number(0, 3)] if outputs is None else "dense"
        group = c if kind == "depthwise" else 2 if kind == "grouped" and c % 2 == 0 else 1
        outputs = outputs or group * self.number(1, 3 if group < 4 else 1)
        strides = [stride or self.number(1, 2) for _ in range(2)]
        pads = [self.number(0, k - 1) for k in size * 2]
        if stride == 1:
            pads = [0, 0, *(k - 1 for k in size)]
        weights = self.floats(outputs, c // group, *size, spread=(c // group * size[0] * size[1]) ** -0.5)
        given = [self.floats(outputs)] if self.yes() else []
        space = [
            (n + a + b - k) // s + 1 for n, a, b, k, s in zip((h, w), pads[:2], pads[2:], size, strides, strict=True)
        ]
        y = self.add("Conv", (1, outputs, *space), x.name, weights, *given, group=group, strides=strides, pads=pads)
        if self.yes(0.3):
            variance = self.sketch.constant(self.random.uniform(0.5, 2, outputs).astype(np.float32))
            numbers = [self.floats(outputs, about=0.5), self.floats(outputs), self.floats(outputs)]
            y = self.add("BatchNormalization", y.shape, y.name, *numbers, variance)
        return self.activation(y)

    def activation(self, x: Value) -> Value:
        kind = ACTIVATIONS[self.number(0, len(ACTIVATIONS) - 1)]
        if kind == "none":
            return x
        if kind == "Clip":
            bounds = self.sketch.constant(np.float32(0)), self.sketch.constant(np.float32(2))
            return self.add("Clip", x.shape, x.name, *bounds)
        if kind == "PRelu":
            return self.add("PRelu", x.shape, x.name, self.floats(x.shape[1], *[1] * (len(x.shape) - 2), spread=0.3))
        if kind == "silu":
            return self.add("Mul", x.shape, x.name, self.sketch.node("Sigmoid", x.name))
        return self.add(kind, x.shape, x.name)

    def pooled(self, x: Value) -> Value:
        _, c, h, w = x.shape
        if self.yes(0.2):
            kind = ("GlobalAveragePool", "GlobalMaxPool")[self.number(0, 1)]
            return self.add(kind, (1, c, 1, 1), x.name)
        size = [self.number(1, min(2, n)) for n in (h, w)]
        strides = [self.number(1, 2) for _ in range(2)]
        kind = ("MaxPool", "AveragePool")[self.number(0, 1)]
        space = [(n - k) // s + 1 for n, k, s in zip((h, w), size, strides, strict=True)]
        return self.add(kind, (1, c, *space), x.name, kernel_shape=size, strides=strides)

    def two(self, x: Value) -> Value:
        """A sum, difference or product with another branch, or with its own means."""
        operator = ("Add", "Sub", "Mul")[self.number(0, 2)]
        if self.yes(0.3):
            gate = self.add("GlobalAveragePool", (1, x.shape[1], 1, 1), x.name)
            gate = self.add("Sigmoid", gate.shape, gate.name)
            return self.add("Mul", x.shape, x.name, gate.name)
        other = self.conv(x, x.shape[1], 1)
        pair = (x.name, other.name) if self.yes() else (other.name, x.name)
        return self.add(operator, x.shape, *pair)

    def joined(self, x: Value) -> Value:
        others = [self.conv(x, self.number(1, 3), 1) for _ in range(self.number(1, 2))]
        parts = [x, *others]
        channels = sum(part.shape[1] for part in parts)
        return self.add("Concat", (1, channels, *x.shape[2:]), *(part.name for part in parts), axis=1)

    def moved(self, x: Value) -> Value:
        _, c, h, w = x.shape
        kind = self.number(0, 7)
        if kind == 0 and h > 1:
            return self.add("Slice", (1, c, h - 1, w), x.name, self.ints(1), self.ints(h), self.ints(2))
        if kind == 1:
            top, left, bottom, right = (self.number(0, 2) for _ in range(4))
            shape = (1, c, h + top + bottom, w + left + right)
            return self.add("Pad", shape, x.name, self.ints(0, 0, top, left, 0, 0, bottom, right))
        if kind == 2:
            scales = self.sketch.constant(np.array([1, 1, 2, 2], dtype=np.float32))
            return self.add("Resize", (1, c, 2 * h, 2 * w), x.name, "", scales, mode="nearest")
        if kind == 3:
            return self.add("Transpose", (1, c, w, h), x.name, perm=[0, 1, 3, 2])
        if kind == 4 and c % 4 == 0:
            return self.add("DepthToSpace", (1, c // 4, 2 * h, 2 * w), x.name, blocksize=2)
        if kind == 5 and h % 2 == 0 and w % 2 == 0:
            return self.add("SpaceToDepth", (1, 4 * c, h // 2, w // 2), x.name, blocksize=2)
        if kind == 6 and c % 2 == 0:
            return self.add("Reshape", (1, c // 2, 2 * h, w), x.name, self.ints(1, c // 2, 2 * h, w))
        if c < 2:
            return x
        number = len(self.sketch.nodes)
        first, second = f"first{number}", f"second{number}"
        self.sketch.nodes.append(
            helper.make_node("Split", [x.name, self.ints(1, c - 1)], [first, second], f"the_split{number}", axis=1)
        )
        self.pool.append(Value(first, (1, 1, h, w)))
        return Value(second, (1, c - 1, h, w))

    def dense(self, x: Value) -> Value:
        size = int(np.prod(x.shape))
        flat = self.add("Flatten", (1, size), x.name)
        outputs = self.number(1, 5)
        y = self.add(
            "Gemm", (1, outputs), flat.name, self.floats(size, outputs, spread=size**-0.5), self.floats(outputs)
        )
        return self.activation(y)

    # ---- the whole --------------------------------------------------------------------------------------------------

    def draw(self, layers: int) -> tuple[dict[str, tuple[int, ...]], list[str]]:
        """(inputs with their shapes, outputs)."""
        inputs = {"x": (1, self.number(1, 4), self.number(3, 6), self.number(3, 6))}
        first = Value("x", inputs["x"])
        self.pool.append(self.conv(first) if self.yes(0.8) else first)
        for _ in range(layers):
            x = self.pool[self.number(0, len(self.pool) - 1)] if self.yes(0.25) else self.pool[-1]
            makers = (self.conv, self.conv, self.pooled, self.two, self.joined, self.moved, self.moved)
            y = makers[self.number(0, len(makers) - 1)](x)
            if int(np.prod(y.shape)) <= 600:
                self.pool.append(y)
        end = self.pool[-1]
        last = self.dense(end) if self.yes(0.4) else self.conv(end, self.number(1, 3), 1)
        names = [last.name]
        if self.yes(0.3):
            other = self.pool[self.number(0, len(self.pool) - 1)]
            second = self.conv(other, 2, 1)
            if second.name not in names:
                names.append(second.name)
        return inputs, names  # type: ignore[return-value]
