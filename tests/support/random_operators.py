"""Strategies of what the operators' own strategies have in common: tensors, lanes, pixels, kernels and foldings.

Those of single operators stand in ``tests/ops/test_<name>.py``.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import ElementFolding, EvenFolding, MultiplierKind, SlidingFolding
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor

types = st.builds(Int, st.integers(1, 9), st.booleans())
multipliers = st.sampled_from(MultiplierKind)


@st.composite
def tensors(draw: st.DrawFn, channels: int = 9) -> Tensor:
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, channels)))
    return Tensor(shape, draw(types))


def lane_counts(channels: int) -> st.SearchStrategy[int]:
    """Divisors, ragged ones, and one more than there are channels."""
    return st.integers(1, channels + 1)


def even_foldings(channels: int) -> st.SearchStrategy[EvenFolding]:
    """Equally wide streams."""
    return lane_counts(channels).map(EvenFolding)


def element_foldings(operand: Tensor) -> st.SearchStrategy[ElementFolding]:
    """Equally wide streams, half of them of one pixel a beat, the others in any order."""
    usual = st.builds(ElementFolding, lane_counts(operand.channels))
    return st.one_of(usual, cuts(operand).map(lambda cut: ElementFolding(*cut)))


@st.composite
def cuts(draw: st.DrawFn, operand: Tensor) -> tuple[int, int, int]:
    """The lanes, pixels and tile of any order."""
    height, width, _ = operand.shape
    several = draw(st.integers(1, width))
    tiles = [*range(several, width, several), *range(width, height * width + 1, width)]
    return draw(lane_counts(operand.channels)), several, draw(st.sampled_from(tiles))


def pixel_counts(operand: Tensor) -> st.SearchStrategy[int]:
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
    return SlidingFolding(
        draw(lane_counts(sliding.shape[2])), draw(lane_counts(elements)), *draw(sliding_pixels(sliding))
    )


def sliding_pixels(sliding: Sliding) -> st.SearchStrategy[tuple[int, int]]:
    """Half of them one pixel a beat, the others any legal numbers of them, in and out."""
    sides = product(range(1, sliding.shape[1] + 1), range(1, sliding.output[1] + 1))
    return st.one_of(st.just((1, 1)), st.sampled_from([pair for pair in sides if not sliding.illegal(*pair)]))


def capacities(operator: Any, folding: SlidingFolding) -> st.SearchStrategy[int | None]:
    """Draw a capacity of a window, pool or depthwise convolution, from what barely runs to more than enough."""
    beats, sliding = operator.beats_per_pixel(folding), operator.grouped(folding)
    live, ample = sliding.live_capacity(beats), 2 * sliding.rate_capacity(beats)
    return st.one_of(st.none(), st.just(live), st.integers(live, ample))
