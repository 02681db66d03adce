"""Float networks of MBConv blocks drawn by seed: depthwise products, x * Sigmoid(x), squeeze-and-excite gates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support.qdq_models import Sketch


@dataclass
class DrawnFloats:
    """A float model under construction, and samples of its only input ``x``."""

    sketch: Sketch
    shapes: dict[str, tuple[int, ...]]
    output: str
    samples: np.ndarray
    others: np.ndarray


class _Blocks:
    """A chain of blocks; ``channels`` and ``size`` are those of the value that was added last."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.sketch = Sketch(opset=18)

    def conv(
        self, x: str, inputs: int, outputs: int, size: int = 1, stride: int = 1, *, depthwise: bool = False
    ) -> str:
        fan_in = size * size * (1 if depthwise else inputs)
        weights = self.random.normal(0, fan_in**-0.5, (outputs, 1 if depthwise else inputs, size, size))
        weights *= self.random.uniform(0.6, 2.2, (outputs, 1, 1, 1))  # as a BatchNormalization leaves them
        bias = self.sketch.constant(self.random.normal(0, 0.5, outputs).astype(np.float32))
        factors = self.sketch.constant(weights.astype(np.float32))
        pads, group = [size // 2] * 4, inputs if depthwise else 1
        return self.sketch.node("Conv", x, factors, bias, pads=pads, strides=[stride, stride], group=group)

    def silu(self, x: str) -> str:
        return self.sketch.node("Mul", x, self.sketch.node("Sigmoid", x))

    def excited(self, x: str, channels: int, few: int) -> str:
        gate = self.sketch.node("GlobalAveragePool", x)
        gate = self.silu(self.conv(gate, channels, few))
        gate = self.sketch.node("Sigmoid", self.conv(gate, few, channels))
        return self.sketch.node("Mul", *((x, gate) if self.random.random() < 0.5 else (gate, x)))

    def block(self, x: str, inputs: int, outputs: int, stride: int) -> str:
        wide = inputs * int(self.random.integers(2, 5))
        y = self.silu(self.conv(x, inputs, wide))
        y = self.silu(self.conv(y, wide, wide, int(self.random.choice([3, 5])), stride, depthwise=True))
        y = self.excited(y, wide, max(1, inputs // 2))
        y = self.conv(y, wide, outputs)
        return self.sketch.node("Add", y, x) if stride == 1 and inputs == outputs else y


def draw_gated_blocks(seed: int, samples: int = 48) -> DrawnFloats:
    """Draw two to four blocks on small pictures, and a classifier behind them."""
    blocks = _Blocks(seed)
    random = blocks.random
    size, channels = int(random.choice([8, 12])), int(random.choice([4, 6, 8]))
    y = blocks.silu(blocks.conv("x", 3, channels, 3))
    for _ in range(int(random.integers(2, 5))):
        same = random.random() < 0.5
        outputs = channels if same else int(random.choice([4, 6, 8]))
        y = blocks.block(y, channels, outputs, 1 if same else 2)
        channels = outputs
    y = blocks.silu(blocks.conv(y, channels, 16))
    y = blocks.sketch.node("Flatten", blocks.sketch.node("GlobalAveragePool", y))
    weights = blocks.sketch.constant(random.normal(0, 0.25, (16, 5)).astype(np.float32))
    output = blocks.sketch.node("Gemm", y, weights, blocks.sketch.constant(random.normal(0, 1, 5).astype(np.float32)))
    pictures = _pictures(random, 2 * samples, size)
    return DrawnFloats(blocks.sketch, {"x": (1, 3, size, size)}, output, pictures[:samples], pictures[samples:])


def _pictures(random: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Draw smooth pictures, (count, 1, 3, size, size), each with a contrast of its own."""
    coarse = random.normal(0, 1, (count, 1, 3, size // 4, size // 4)).repeat(4, -1).repeat(4, -2)
    fine = random.normal(0, 0.3, (count, 1, 3, size, size))
    return ((coarse + fine) * random.uniform(0.3, 1.5, (count, 1, 1, 1, 1))).astype(np.float32)
