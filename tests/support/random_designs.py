"""Random networks drawn by hypothesis: chains and residual blocks, folded at random, FIFOs from 1 to 40 deep."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.add import Add
from onnx_hw.ops.argmax import ArgMax, ArgMaxFolding
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.convert_order import conversion
from onnx_hw.ops.folding import ElementFolding, Folding, SlidingFolding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce, ReduceFolding
from onnx_hw.ops.requantize import Requantize, RequantizeFolding
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from support.hand_built_designs import Sketch
from support.random_cases import depths
from support.random_operators import pixel_counts, sliding_pixels, touches_the_image


@dataclass(frozen=True)
class Stream:
    """A tensor of the sketch in an order."""

    name: str
    order: Order

    @property
    def tensor(self) -> Tensor:
        return self.order.tensor

    @property
    def lanes(self) -> int:
        return self.order.lanes

    @property
    def pixels(self) -> int:
        return self.order.pixels


class Builder:
    """Appends random nodes to a sketch.

    Args:
        shape: of the input.
        operations: no engine has more per frame, so that a network simulates in a blink.
    """

    def __init__(self, draw: st.DrawFn, shape: tuple[int, int, int], operations: int) -> None:
        self.draw, self.sketch, self.operations = draw, Sketch(), operations
        tensor = Tensor(shape, Int(draw(st.integers(1, 4)), draw(st.booleans())))
        self.input = Stream(self.sketch.input("x", tensor), self.order(tensor))

    def append(self, operator: Operator, folding: Folding, *inputs: Stream) -> list[Stream]:
        """A node; gearboxes before it where the orders differ."""
        assume(operator.cycles(folding) <= self.operations)
        names = [
            self.in_order(stream, order).name
            for stream, order in zip(inputs, operator.input_orders(folding), strict=True)
        ]
        name = f"{type(operator).__name__.lower()}{len(self.sketch.nodes)}"
        drawn = [self.draw(depths) for _ in operator.outputs]
        outputs = self.sketch.add(name, operator, names, folding, *drawn)
        return [Stream(o, order) for o, order in zip(outputs, operator.output_orders(folding), strict=True)]

    def in_order(self, stream: Stream, order: Order) -> Stream:
        for operator, folding in conversion(stream.order, order):
            (stream,) = self.append(operator, folding, stream)
        return stream

    def order(self, tensor: Tensor) -> Order:
        """On any lanes; half of them with one pixel a beat, others with any number."""
        return Order(tensor, self.lanes(tensor.channels), self.draw(pixel_counts(tensor)))

    def lanes(self, channels: int, least: int = 1) -> int:
        return self.draw(st.integers(min(least, channels), channels))

    def convolution(self, x: Stream, kernel: int, stride: int, outputs: int) -> Stream:
        """Window and matmul; at stride 1 the image keeps its size."""
        before, after = kernel // 2, kernel - 1 - kernel // 2
        window = Window(x.tensor, (kernel, kernel), (stride, stride), (before, before, after, after))
        pixels = window.results()[0].pixels
        cut = self.lanes(window.elements, least=-(-window.elements * pixels // self.operations))
        enters = x.lanes if self.draw(st.booleans()) else self.lanes(x.tensor.channels)
        beside = self.draw(sliding_pixels(window.sliding))
        (columns,) = self.append(window, SlidingFolding(enters, cut, *beside), x)
        weights = np.random.default_rng(self.draw(st.integers(0, 99))).integers(-2, 3, (outputs, window.elements))
        products = outputs * pixels * -(-window.elements // cut)
        leaves = self.lanes(outputs, least=-(-products // self.operations))
        return self.append(MatMul(columns.tensor, weights), MatMulFolding(cut, leaves, columns.pixels), columns)[0]

    def requantization(self, x: Stream) -> Stream:
        """Back to three bits, so that another convolution may follow."""
        scale = Fraction(1, self.draw(st.integers(1, 2 ** max(1, x.tensor.dtype.bits - 2))))
        operator = Requantize(
            x.tensor, (scale,), (Fraction(0),), Grid.over(Int(3), zero_point=self.draw(st.integers(-4, 3)))
        )
        return self.append(operator, RequantizeFolding(x.lanes, pixels=x.pixels), x)[0]

    def pool(self, x: Stream) -> Stream:
        strides = self.draw(st.sampled_from([(1, 1), (2, 2)]))
        pads = self.draw(st.sampled_from([(0, 0, 0, 0), (1, 0, 0, 1)]))
        assume(touches_the_image(Sliding(x.tensor.shape, (2, 2), strides, pads)))
        pool = Pool(x.tensor, self.draw(st.sampled_from(["max", "sum"])), (2, 2), strides, pads)
        beside = self.draw(sliding_pixels(pool.sliding))
        return self.append(pool, SlidingFolding(x.lanes, self.lanes(x.tensor.channels), *beside), x)[0]

    def reduction(self, x: Stream) -> Stream:
        """To a vector, or to one channel."""
        kind = self.draw(st.sampled_from(["max", "sum", "index"]))
        if kind == "index":
            return self.append(ArgMax(x.tensor), ArgMaxFolding(x.lanes), x)[0]
        return self.append(Reduce(x.tensor, kind), ReduceFolding(x.lanes), x)[0]

    def join(self, a: Stream, b: Stream) -> Stream:
        """Two tensors of one shape, as wide as one of them or as anything."""
        operators = [Add(a.tensor, b.tensor), Multiply(a.tensor, b.tensor)]
        operators += [Concat((a.tensor, b.tensor), axis) for axis in range(3)]
        operator = self.draw(st.sampled_from(operators))
        lanes = a.lanes if self.draw(st.booleans()) else self.lanes(a.tensor.channels)
        folding = operator.folding_type(lanes, *([] if isinstance(operator, Concat) else [a.pixels]))
        assume(not operator.illegal(folding))
        return self.append(operator, folding, a, b)[0]

    def stage(self, x: Stream) -> Stream:
        kind = self.draw(st.sampled_from(["convolution", "convolution", "pool", "gearbox"]))
        if kind == "convolution":
            kernel, stride = self.draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (3, 2), (1, 2)]))
            y = self.convolution(x, kernel, stride, self.draw(st.integers(1, 5)))
            return self.requantization(y) if self.draw(st.booleans()) else y
        if kind == "pool":
            return self.pool(x)
        return self.in_order(x, self.order(x.tensor))


@st.composite
def chains(draw: st.DrawFn, size: int, operations: int) -> Design:
    """Two to four stages in a line, some reduced at the end.

    Args:
        size: most rows, columns and channels of the input.
        operations: no engine has more per frame.
    """
    shape = draw(st.tuples(*[st.integers(1, size)] * 3))
    builder = Builder(draw, shape, operations)
    x = builder.input
    for _ in range(draw(st.integers(2, 4))):
        x = builder.stage(x)
    if draw(st.booleans()):
        x = builder.reduction(x)
    assume(builder.sketch.nodes)
    return builder.sketch.design()


@st.composite
def residuals(draw: st.DrawFn, size: int, operations: int) -> Design:
    """``x`` and ``f(x)`` joined: the short branch must hold what the long one keeps, and does not always."""
    shape = draw(st.tuples(st.integers(2, size), st.integers(2, size), st.integers(1, size - 1)))
    builder = Builder(draw, shape, operations)
    x = builder.input
    copies = builder.append(Fork(x.tensor, draw(st.integers(2, 3))), ElementFolding(x.lanes, x.pixels), x)
    branch, short = copies[:2]
    for _ in range(draw(st.integers(1, 2))):
        branch = builder.convolution(branch, draw(st.sampled_from([1, 3, 3])), 1, shape[2])
    joined = builder.join(branch, short)
    if draw(st.booleans()):
        builder.stage(joined)
    return builder.sketch.design()


@st.composite
def likenesses(draw: st.DrawFn, size: int, operations: int) -> Design:
    """Two branches of one row of vectors multiplied with each other: what one makes is the weights of the other."""
    builder = Builder(draw, (1, draw(st.integers(1, size)), draw(st.integers(1, size))), operations)
    x = builder.input
    copies = builder.append(Fork(x.tensor), ElementFolding(x.lanes, x.pixels), x)
    vectors, weights = (
        builder.convolution(copy, draw(st.sampled_from([1, 3])), 1, x.tensor.channels) if draw(st.booleans()) else copy
        for copy in copies
    )
    outputs = weights.tensor.pixels
    leaves = builder.lanes(outputs)
    kept = -(-outputs // leaves) + draw(st.integers(0, 2))
    folding = MatMulFolding(builder.lanes(x.tensor.channels), leaves, draw(pixel_counts(vectors.tensor)))
    product = MatMul(vectors.tensor, weights.tensor, capacity=draw(st.sampled_from([None, kept])))
    (y,) = builder.append(product, folding, vectors, weights)
    if draw(st.booleans()):
        builder.stage(y)
    return builder.sketch.design()
