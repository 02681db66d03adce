"""Operators and foldings of them, drawn by hypothesis."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer, table, thresholds
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift, find
from onnx_hw.ops.add import Add
from onnx_hw.ops.argmax import ArgMax, ArgMaxFolding
from onnx_hw.ops.concat import CHANNELS, Concat
from onnx_hw.ops.depthwise import Depthwise, DepthwiseFolding
from onnx_hw.ops.folding import ElementFolding, EvenFolding, Folding, MultiplierKind, SlidingFolding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.multiply import Multiply, MultiplyFolding
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.ops.requantize import Requantize, RequantizeFolding
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window

types = st.builds(Int, st.integers(1, 9), st.booleans())


@st.composite
def tensors(draw: st.DrawFn, channels: int = 9) -> Tensor:
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, channels)))
    return Tensor(shape, draw(types))


def lanes(channels: int) -> st.SearchStrategy[int]:
    """Divisors, ragged ones, and one more than there are channels."""
    return st.integers(1, channels + 1)


def foldings(channels_in: int, channels_out: int) -> st.SearchStrategy[SlidingFolding]:
    return st.builds(SlidingFolding, lanes(channels_in), lanes(channels_out))


def even_foldings(channels: int) -> st.SearchStrategy[EvenFolding]:
    """Equally wide streams."""
    return lanes(channels).map(EvenFolding)


def element_foldings(operand: Tensor) -> st.SearchStrategy[ElementFolding]:
    """Equally wide streams, half of them of one pixel a beat, the others in any order."""
    usual = st.builds(ElementFolding, lanes(operand.channels))
    return st.one_of(usual, cuts(operand).map(lambda cut: ElementFolding(*cut)))


@st.composite
def cuts(draw: st.DrawFn, operand: Tensor) -> tuple[int, int, int]:
    """The lanes, pixels and tile of any order."""
    height, width, _ = operand.shape
    several = draw(st.integers(1, width))
    tiles = [*range(several, width, several), *range(width, height * width + 1, width)]
    return draw(lanes(operand.channels)), several, draw(st.sampled_from(tiles))


def pixels(operand: Tensor) -> st.SearchStrategy[int]:
    """That lie side by side in a beat: half the time one."""
    return st.one_of(st.just(1), st.integers(1, operand.shape[1]))


@st.composite
def slidings(draw: st.DrawFn) -> Sliding:
    """A kernel over an image with any strides, dilations and pads, that touches the image somewhere."""
    two = st.tuples(st.integers(1, 3), st.integers(1, 3))
    pad = st.sampled_from([0, 0, 1, 1, 2, 3])
    dilation = st.sampled_from([1, 1, 2])
    sliding = Sliding(
        draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))),
        kernel=draw(two),
        strides=draw(two),
        pads=draw(st.tuples(pad, pad, pad, pad)),
        dilations=draw(st.tuples(dilation, dilation)),
    )
    assume(touches_the_image(sliding))
    return sliding


def touches_the_image(sliding: Sliding) -> bool:
    try:
        sliding.check()
    except ValueError:
        return False
    return True


@st.composite
def sliding_foldings(draw: st.DrawFn, sliding: Sliding, elements: int) -> SlidingFolding:
    return SlidingFolding(draw(lanes(sliding.shape[2])), draw(lanes(elements)), *draw(sliding_pixels(sliding)))


def sliding_pixels(sliding: Sliding) -> st.SearchStrategy[tuple[int, int]]:
    """Half of them one pixel a beat, the others any legal numbers of them, in and out."""
    sides = product(range(1, sliding.shape[1] + 1), range(1, sliding.output[1] + 1))
    return st.one_of(st.just((1, 1)), st.sampled_from([pair for pair in sides if not sliding.illegal(*pair)]))


@st.composite
def windows(draw: st.DrawFn, sliding: st.SearchStrategy[Sliding] = slidings()) -> tuple[Window, SlidingFolding]:  # noqa: B008
    s, dtype = draw(sliding), draw(types)
    pad_value = draw(st.integers(dtype.min, dtype.max))
    window = Window(Tensor(s.shape, dtype), s.kernel, s.strides, s.pads, s.dilations, pad_value)
    folding = draw(sliding_foldings(s, window.elements))
    return replace(window, capacity=draw(_capacities(window, folding))), folding


@st.composite
def pools(draw: st.DrawFn) -> tuple[Pool, SlidingFolding]:
    s, dtype = draw(slidings()), draw(types)
    kind, pad_value = draw(st.sampled_from(["max", "min", "sum"])), draw(st.integers(dtype.min, dtype.max))
    pool = Pool(Tensor(s.shape, dtype), kind, s.kernel, s.strides, s.pads, pad_value, s.dilations)
    folding = draw(sliding_foldings(s, s.shape[2]))
    return replace(pool, capacity=draw(_capacities(pool, folding))), folding


multipliers = st.sampled_from(MultiplierKind)


@st.composite
def depthwise(draw: st.DrawFn) -> tuple[Depthwise, DepthwiseFolding]:
    """One result per channel, or several."""
    s, dtype = draw(slidings()), draw(types)
    pad_value = draw(st.integers(dtype.min, dtype.max))
    low, high = draw(st.sampled_from([(-128, 127), (-7, 7), (-1, 1), (0, 15), (-3, 0), (0, 0)]))
    channels = s.shape[2]
    size = (channels * draw(st.sampled_from([1, 1, 2, 3, 4])), *s.kernel)
    weights = np.random.default_rng(draw(st.integers(0, 999))).integers(low, high + 1, size)
    operator = Depthwise(Tensor(s.shape, dtype), weights, s.strides, s.pads, s.dilations, pad_value)
    sides = draw(sliding_foldings(s, size[0]).filter(lambda folding: operator.aligned(folding.out_lanes)))
    folding = DepthwiseFolding(**sides.numbers(), multiplier=draw(multipliers))
    return replace(operator, capacity=draw(_capacities(operator, folding))), folding


def _capacities(operator: Window | Pool | Depthwise, folding: SlidingFolding) -> st.SearchStrategy[int | None]:
    """From what barely runs to more than full rate needs."""
    beats, sliding = operator.beats_per_pixel(folding), operator.grouped(folding)
    live, ample = sliding.live_capacity(beats), 2 * sliding.rate_capacity(beats)
    return st.one_of(st.none(), st.just(live), st.integers(live, ample))


@st.composite
def matmuls(draw: st.DrawFn) -> tuple[MatMul, Folding]:
    operand, outputs = draw(tensors(12)), draw(st.integers(1, 10))
    low, high = draw(st.sampled_from([(-128, 127), (-7, 7), (-1, 1), (0, 15), (-3, 0), (0, 0)]))
    weights = np.random.default_rng(draw(st.integers(0, 999))).integers(low, high + 1, (outputs, operand.channels))
    folding = MatMulFolding(
        draw(lanes(operand.channels)), draw(lanes(outputs)), draw(pixels(operand)), 1, draw(multipliers)
    )
    return MatMul(operand, weights), folding


@st.composite
def matmuls_of_two(draw: st.DrawFn) -> tuple[MatMul, Folding]:
    """Weights that come, once a frame or for every beat of pixels; a buffer for one group of results to one for all."""
    operand, outputs, dtype = draw(tensors(9)), draw(st.integers(1, 7)), draw(types)
    low, high = sorted(draw(st.tuples(*[st.integers(dtype.min, dtype.max)] * 2)))
    weights = Tensor((1, outputs, operand.channels), dtype, *draw(st.sampled_from([(None, None), (low, high)])))
    folding = MatMulFolding(
        draw(lanes(operand.channels)), draw(lanes(outputs)), draw(pixels(operand)), 1, draw(multipliers)
    )
    capacity = draw(st.one_of(st.none(), st.sampled_from([1, 2]), st.integers(1, 9)))
    return MatMul(operand, weights, capacity=capacity), folding


@st.composite
def gearboxes(draw: st.DrawFn) -> tuple[Gearbox, Folding]:
    operand = draw(tensors(24))
    folding = GearboxFolding(draw(lanes(operand.channels)), draw(lanes(operand.channels)), draw(pixels(operand)))
    live = Gearbox(operand).live_capacity(folding)
    capacity = draw(st.one_of(st.none(), st.just(live), st.integers(live, 3 * live + 3)))
    return Gearbox(operand, capacity), folding


@st.composite
def regroups(draw: st.DrawFn) -> tuple[Regroup, RegroupFolding]:
    """Groups that fill their row and groups that do not."""
    operand = Tensor(draw(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))), draw(types))
    few = draw(st.integers(1, min(3, operand.shape[1])))
    many = few * draw(st.integers(1, operand.shape[1] // few))
    folding = RegroupFolding(draw(lanes(operand.channels)), *draw(st.permutations((few, many))))
    live = Regroup(operand).live_capacity(folding)
    capacity = draw(st.one_of(st.none(), st.just(live), st.integers(live, 3 * live + 3)))
    return Regroup(operand, capacity), folding


@st.composite
def reductions(draw: st.DrawFn) -> tuple[Reduce, Folding]:
    operand = draw(tensors())
    return Reduce(operand, draw(st.sampled_from(["max", "min", "sum"]))), draw(even_foldings(operand.channels))


@st.composite
def requantizers(draw: st.DrawFn) -> tuple[Requantize, Folding]:
    """Any scale and offset, one or one per channel, powers of two with their ties among them; any of the circuits."""
    operand = draw(tensors())
    dtype, count = draw(st.builds(Int, st.integers(1, 6), st.booleans())), draw(st.sampled_from([1, operand.channels]))
    low, high = sorted(draw(st.tuples(*[st.integers(dtype.min, dtype.max)] * 2)))
    scales = st.one_of(st.fractions(0, 3, max_denominator=1000), st.sampled_from([Fraction(1, 2**k) for k in range(5)]))
    offsets = st.fractions(-9, 9, max_denominator=64)
    several = {"min_size": count, "max_size": count}
    kind = draw(st.sampled_from([Requantize, ByArithmetic, ByTable, ByThresholds]))
    operator = kind(
        operand,
        tuple(draw(st.lists(scales, **several))),
        tuple(draw(st.lists(offsets, **several))),
        Grid.over(dtype, zero_point=draw(st.integers(dtype.min, dtype.max))).within(low, high),
    )
    steps = 1 if kind in (ByTable, ByThresholds) else draw(st.integers(1, operator.most_steps))
    wide, several, tile = draw(cuts(operand))
    folding = RequantizeFolding(wide, steps, *draw(st.sampled_from([(1, 0), (several, 0), (several, tile)])))
    return operator, replace(folding, tile=0) if "tiles" in operator.illegal(folding) else folding


class ByArithmetic(Requantize):
    """As a multiplication, even where a look-up is cheaper."""

    @cached_property
    def circuit(self) -> MultiplyAddShift:
        found = find(self.exact)
        assert found is not None
        return found


class ByTable(Requantize):
    """As a look-up, even where arithmetic is cheaper."""

    @cached_property
    def circuit(self) -> TableRequantizer:
        return table(self.exact)


class ByThresholds(Requantize):
    """As a search, even where arithmetic is cheaper."""

    @cached_property
    def circuit(self) -> ThresholdRequantizer:
        return thresholds(self.exact)


@st.composite
def forks(draw: st.DrawFn) -> tuple[Fork, Folding]:
    operand = draw(tensors())
    return Fork(operand, draw(st.integers(2, 4))), draw(element_foldings(operand))


@st.composite
def sums(draw: st.DrawFn) -> tuple[Add, Folding]:
    a = draw(tensors())
    factors = draw(st.sampled_from([(1, 1), (1, 1), (1, -1), (3, 5), (7, -2), (341, 170)]))
    return Add(a, Tensor(a.shape, draw(types)), factors), draw(element_foldings(a))


@st.composite
def concats(draw: st.DrawFn) -> tuple[Concat, Folding]:
    """Two to four tensors of one type or of several, of their whole range or a part of it."""
    shape, axis = draw(st.tuples(*[st.integers(1, 3)] * 2, st.integers(1, 5))), draw(st.integers(0, 2))
    cut = draw(lanes(shape[2]))
    alike, several = draw(types), draw(st.booleans())
    operands = []
    for last in [False] * draw(st.integers(1, 3)) + [True]:
        size = draw(st.integers(1, 7 if axis == CHANNELS else 3))
        if axis == CHANNELS and not last:
            size = cut * draw(st.integers(1, 3))
        dtype = draw(types) if several else alike
        low, high = sorted(draw(st.tuples(*[st.integers(dtype.min, dtype.max)] * 2)))
        height, width, channels = (size if k == axis else length for k, length in enumerate(shape))
        bounds = draw(st.sampled_from([(None, None), (low, high)]))
        operands.append(Tensor((height, width, channels), dtype, *bounds))
    return Concat(tuple(operands), axis), EvenFolding(cut)


@st.composite
def products(draw: st.DrawFn) -> tuple[Multiply, Folding]:
    """Of narrow factors, some of wide ones, with offsets to and beyond zero points."""
    a = draw(tensors())
    b = Tensor(a.shape, draw(st.one_of(types, types, st.builds(Int, st.integers(17, 35), st.booleans()))))
    offset = st.one_of(st.just(0), st.integers(-300, 300))
    operator = Multiply(a, replace(b, high=b.range[1] // 2), (draw(offset), draw(offset)))
    return operator, MultiplyFolding(*draw(cuts(a)), draw(multipliers))


@st.composite
def argmaxes(draw: st.DrawFn) -> tuple[ArgMax, Folding]:
    """Over types so narrow that there are ties, and over others."""
    operand = draw(tensors(12))
    dtype = draw(st.one_of(st.builds(Int, st.integers(1, 2), st.booleans()), types))
    operator = ArgMax(replace(operand, dtype=dtype), draw(st.booleans()), draw(st.booleans()))
    return operator, ArgMaxFolding(draw(lanes(operand.channels)))
