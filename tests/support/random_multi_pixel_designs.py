"""Random networks whose beats hold several pixels: convolutions, pools, sums of branches, and whatever lies between.

Every core takes and gives one pixel or ``pixels`` of them, so that neighbours often disagree, and rows are as often
ragged as not. The depths of the FIFOs are those that are computed.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.add import Add
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.folding import ElementFolding, SlidingFolding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.requantize import Requantize, RequantizeFolding
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.size_fifos import size_fifos
from support.hand_built_designs import Sketch


def draw(seed: int, pixels: int) -> Design:
    """Two to four blocks behind each other, on a small image."""
    return _Drawn(seed, pixels).design()


class _Drawn:
    def __init__(self, seed: int, pixels: int) -> None:
        self.random = np.random.default_rng(seed)
        self.pixels, self.sketch = pixels, Sketch()
        shape = self.number(3, 6), self.number(4, 12), self.number(1, 4)
        x = self.sketch.input("x", Tensor(shape, Int(4)))
        for _ in range(self.number(2, 4)):
            x = self.block(x)

    def design(self) -> Design:
        drawn = self.sketch.design()
        network, foldings = insert_gearboxes(drawn.network, drawn.foldings)
        return size_fifos(Design(network, foldings))

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def side_by_side(self, columns: int) -> int:
        """Two thirds of them several, where a row has as many."""
        return self.pixels if columns >= self.pixels and self.random.random() < 2 / 3 else 1

    def add(self, operator: Operator, folding: object, *inputs: str) -> list[str]:
        name = f"{type(operator).__name__.lower()}{len(self.sketch.nodes)}"
        return self.sketch.add(name, operator, list(inputs), folding, *[1] * len(operator.outputs))  # type: ignore[arg-type]

    def block(self, x: str) -> str:
        blocks = [self.convolution, self.convolution, self.depthwise, self.pool, self.residual]
        return blocks[self.number(0, len(blocks) - 1)](x)

    def sliding(self, x: Tensor) -> Sliding:
        """A kernel that fits the image somewhere, at any step, in any padding."""
        while True:
            kernel, strides = (self.number(1, 3), self.number(1, 3)), (self.number(1, 2), self.number(1, 3))
            pads = (self.number(0, 1), self.number(0, 2), self.number(0, 1), self.number(0, 2))
            sliding = Sliding(x.shape, kernel, strides, pads, (1, self.number(1, 2)))
            try:
                sliding.check()
            except ValueError:
                continue
            return sliding

    def window_folding(self, operator: Window | Pool | Depthwise) -> SlidingFolding:
        image, result = operator.operands()[0], operator.results()[0]
        lanes = self.number(1, image.channels), self.number(1, result.channels)
        beside = self.side_by_side(image.shape[1]), self.side_by_side(result.shape[1])
        while operator.illegal(folding := operator.folding_type(*lanes, *beside)):
            beside = 1, beside[1]
        return folding

    def element_folding(self, x: Tensor) -> ElementFolding:
        return ElementFolding(self.number(1, x.channels), self.side_by_side(x.shape[1]))

    def requantized(self, x: str) -> str:
        """Four bits again."""
        tensor = self.sketch.tensors[x]
        scale = (Fraction(1, self.number(1, 1 << max(1, tensor.dtype.bits - 3))),)
        operator = Requantize(tensor, scale, (Fraction(0),), Grid.over(Int(4), zero_point=self.number(-3, 3)))
        folding = self.element_folding(tensor)
        return self.add(operator, RequantizeFolding(folding.lanes, pixels=folding.pixels), x)[0]

    def product(self, x: str, sliding: Sliding, outputs: int) -> str:
        s, image = sliding, self.sketch.tensors[x]
        window = Window(image, s.kernel, s.strides, s.pads, s.dilations, self.number(-3, 3))
        (columns,) = self.add(window, self.window_folding(window), x)
        tensor = self.sketch.tensors[columns]
        matmul = MatMul(tensor, self.random.integers(-4, 5, (outputs, tensor.channels)))
        lanes = self.number(max(1, tensor.channels // 4), tensor.channels), self.number(1, outputs)
        (sums,) = self.add(matmul, MatMulFolding(*lanes, self.side_by_side(tensor.shape[1])), columns)
        return self.requantized(sums)

    def convolution(self, x: str) -> str:
        return self.product(x, self.sliding(self.sketch.tensors[x]), self.number(1, 5))

    def depthwise(self, x: str) -> str:
        s = self.sliding(image := self.sketch.tensors[x])
        weights = self.random.integers(-4, 5, (image.channels, *s.kernel))
        operator = Depthwise(image, weights, s.strides, s.pads, s.dilations, self.number(-3, 3))
        return self.requantized(self.add(operator, self.window_folding(operator), x)[0])

    def pool(self, x: str) -> str:
        s = self.sliding(image := self.sketch.tensors[x])
        kind = ("max", "sum")[self.number(0, 1)]
        operator = Pool(image, kind, s.kernel, s.strides, s.pads, self.number(-3, 3), s.dilations)
        (y,) = self.add(operator, self.window_folding(operator), x)
        return y if kind == "max" else self.requantized(y)

    def residual(self, x: str) -> str:
        """``x`` and a convolution of it, that keeps its shape."""
        image = self.sketch.tensors[x]
        copy, short = self.add(Fork(image), self.element_folding(image), x)
        branch = self.product(copy, Sliding(image.shape, (3, 3), pads=(1, 1, 1, 1)), image.channels)
        add = Add(self.sketch.tensors[branch], image, (self.number(1, 3), self.number(-3, -1)))
        return self.requantized(self.add(add, self.element_folding(image), branch, short)[0])
