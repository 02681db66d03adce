"""Quantized models whose data changes places next to inputs and outputs: by everything that can stand there.

    inputs ─ steps ─ a few layers ─ steps ─ outputs

A step exchanges places (Transpose, Reshape, DepthToSpace ...), cuts out, pads, repeats, or computes element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from support.qdq_models import Sketch

STEP = 0.03125
MOST = 4096
"""Elements of a tensor."""


@dataclass
class DrawnBorder:
    """Attributes:
    shapes: of the inputs, by name.
    outputs: names.
    told: what was drawn, in order.
    """

    random: np.random.Generator
    sketch: Sketch = field(default_factory=lambda: Sketch(opset=13))
    shapes: dict[str, list[int]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def pick(self, *choices: str) -> str:
        chosen = choices[self.number(0, len(choices) - 1)]
        self.told.append(chosen)
        return chosen

    def ints(self, *values: int) -> str:
        return self.sketch.constant(np.array(values, dtype=np.int64))

    # ---- steps: a value [1, a, b, c] to another one ------------------------------------------------------------------

    def steps(self, x: str, shape: list[int], count: int) -> tuple[str, list[int]]:
        for _ in range(count):
            x, shape = self.step(x, shape)
        return x, shape

    def step(self, x: str, shape: list[int]) -> tuple[str, list[int]]:
        s, (_, a, b, c) = self.sketch, shape
        kind = self.pick(
            "transpose", "transpose", "reshape", "space", "rescale", "relu", "swish", "pad", "cut", "shuffle"
        )
        if kind == "transpose":
            axes = [0, *(1 + self.random.permutation(3)).tolist()]
            return s.node("Transpose", x, perm=axes), [shape[axis] for axis in axes]
        if kind == "reshape":
            divisors = [d for d in range(1, a * b * c + 1) if a * b * c % d == 0]
            first = divisors[self.number(0, len(divisors) - 1)]
            divisors = [d for d in divisors if a * b * c // first % d == 0]
            second = divisors[self.number(0, len(divisors) - 1)]
            made = [1, first, second, a * b * c // first // second]
            return s.node("Reshape", x, self.ints(*made)), made
        if kind == "space":
            if a % 4 == 0:
                mode = ("DCR", "CRD")[self.number(0, 1)]
                return s.node("DepthToSpace", x, blocksize=2, mode=mode), [1, a // 4, 2 * b, 2 * c]
            if b % 2 == c % 2 == 0:
                return s.node("SpaceToDepth", x, blocksize=2), [1, 4 * a, b // 2, c // 2]
        if kind == "shuffle" and a % 2 == 0:
            x = s.node("Transpose", s.node("Reshape", x, self.ints(1, 2, a // 2, b, c)), perm=[0, 2, 1, 3, 4])
            return s.node("Reshape", x, self.ints(*shape)), shape
        if kind == "relu":
            x = s.node("Relu", x)
        elif kind == "swish":
            x = s.node("HardSwish", x) if s.opset > 13 else s.node("Elu", x)
        elif kind == "pad" and prod(shape) < MOST // 4:
            pads = [0, *(self.number(0, 1) for _ in range(3)), 0, *(self.number(0, 1) for _ in range(3))]
            shape = [n + before + after for n, before, after in zip(shape, pads[:4], pads[4:], strict=True)]
            x = s.node("Pad", x, self.ints(*pads))
        elif kind == "cut":
            axis = self.number(1, 3)
            if shape[axis] > 1:
                begin = self.number(0, shape[axis] - 2)
                end = self.number(begin + 1, shape[axis])
                shape = [end - begin if k == axis else n for k, n in enumerate(shape)]
                x = s.node("Slice", x, self.ints(begin), self.ints(end), self.ints(axis))
        return self.rescaled(x), shape

    def rescaled(self, x: str) -> str:
        return self.sketch.through_integers(x, STEP * (1 + self.number(0, 3) / 4), self.number(-9, 9))

    # ---- both borders -----------------------------------------------------------------------------------------------

    def entered(self, shape: list[int]) -> str:
        name = f"x{len(self.shapes)}"
        self.shapes[name] = shape
        return self.sketch.through_integers(name, STEP, self.number(-9, 9))

    def entry(self) -> tuple[str, list[int]]:
        """Of one input or two."""
        s, shape = self.sketch, [1, *(self.number(2, 6) for _ in range(3))]
        x = self.entered(shape)
        kind = self.pick("one", "one", "one", "twice", "added", "joined", "parted")
        if kind == "twice":
            y, made = self.steps(x, shape, self.number(1, 2))
            x, shape = self.steps(x, shape, self.number(1, 2))
            self.layers(y, made)
        elif kind == "added":
            other = s.node("Transpose", self.entered([1, shape[3], shape[1], shape[2]]), perm=[0, 2, 3, 1])
            x = self.rescaled(s.node("Add", x, other))
        elif kind == "joined":
            axis = self.number(1, 3)
            x = s.node("Concat", x, self.rescaled(self.entered(shape)), axis=axis)
            shape = [n * (2 if k == axis else 1) for k, n in enumerate(shape)]
            x = self.rescaled(x)
        elif kind == "parted":
            self.layers(s.node("Slice", x, self.ints(0), self.ints(1), self.ints(1)), [1, 1, *shape[2:]])
        return self.steps(x, shape, self.number(1, 4))

    def layers(self, x: str, shape: list[int]) -> None:
        """What has an order of its own, and an output or two behind it."""
        s, (_, a, b, c) = self.sketch, shape
        x = self.rescaled(x)
        kind = self.pick("conv", "conv", "dense", "pool", "rows", "depthwise")
        if kind == "conv":
            sides = [min(2, b), min(2, c)]
            outputs = 4 * self.number(1, 2)
            weights = self.random.integers(-127, 128, (outputs, a, *sides)).astype(np.int8)
            x, shape = (
                s.node("Conv", x, s.dequantized(weights, [0.25 / a / 128])),
                [1, outputs, b - sides[0] + 1, c - sides[1] + 1],
            )
        elif kind == "depthwise":
            weights = self.random.integers(-127, 128, (a, 1, 1, 1)).astype(np.int8)
            x = s.node("Conv", x, s.dequantized(weights, [0.01]), group=a)
        elif kind == "dense":
            weights = self.random.integers(-127, 128, (a * b * c, 12)).astype(np.int8)
            x = s.node("MatMul", s.node("Reshape", x, self.ints(1, -1)), s.dequantized(weights, [0.25 / a / b / c]))
            x, shape = s.node("Reshape", x, self.ints(1, 3, 2, 2)), [1, 3, 2, 2]
        elif kind == "rows":
            weights = self.random.integers(-127, 128, (c, 4)).astype(np.int8)
            x, shape = s.node("MatMul", x, s.dequantized(weights, [0.01])), [1, a, b, 4]
        elif kind == "pool":
            x, shape = s.node("GlobalMaxPool", x), [1, a, 1, 1]
        x, shape = self.steps(self.rescaled(x), shape, self.number(1, 3))
        if self.pick("one output", "one output", "two outputs") == "two outputs":
            self.leave(self.steps(x, shape, self.number(1, 2))[0])
        self.leave(x)

    def leave(self, x: str) -> None:
        x = self.rescaled(x)
        if x not in self.outputs:
            self.outputs.append(x)


def drawn_border(seed: int) -> DrawnBorder:
    drawn = DrawnBorder(np.random.default_rng(seed))
    drawn.layers(*drawn.entry())
    return drawn
