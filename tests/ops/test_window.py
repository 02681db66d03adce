"""Window: golden against its definition, the circuit against golden and against the firing law."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding, SlidingFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw_rtl.cores.window_geometry import WindowGeometry
from support.design_bench import assert_proven, prove
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image, random_sliding
from support.random_operators import capacities, sliding_foldings, slidings, types
from support.sliding_faults import every_row_of_the_image_is_full, sliding_faults


@st.composite
def windows(draw: st.DrawFn, sliding: st.SearchStrategy[Sliding] = slidings()) -> tuple[Window, SlidingFolding]:  # noqa: B008
    s, dtype = draw(sliding), draw(types)
    pad_value = draw(st.integers(dtype.min, dtype.max))
    window = Window(Tensor(s.shape, dtype), s.kernel, s.strides, s.pads, s.dilations, pad_value)
    folding = draw(sliding_foldings(s, window.elements))
    return replace(window, capacity=draw(capacities(window, folding))), folding


def random_window(draw: Random) -> Operator:
    return Window(random_image(draw), **random_sliding(draw))


IMAGE = Tensor((5, 4, 3), Int(8))


@few
@given(cases(windows()))
def test_any_window(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("lanes", [(5, 7), (7, 5), (5, 5), (3, 7)])
def test_ragged_cuts(channels: int, lanes: tuple[int, int]) -> None:
    """Neither side divides the channels, nor the other."""
    Case(
        Window(Tensor((3, 4, channels), Int(8)), (3, 3), pads=(1, 1, 1, 1), pad_value=-7), SlidingFolding(*lanes)
    ).check()


@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 0, 1, 1), (2, 0, 0, 1)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 1)])
def test_pads_and_strides(pads: tuple[int, int, int, int], strides: tuple[int, int]) -> None:
    Case(Window(IMAGE, (3, 3), strides, pads, pad_value=5), SlidingFolding(3, 9), depth=3).check()


def test_a_kernel_that_is_told_nothing_else_slides_by_one_inside_the_image() -> None:
    """Of the compiler, and of the circuit, which can be had without it."""
    for sliding in (Sliding((5, 4, 3), (3, 2)), WindowGeometry((5, 4, 3), (3, 2))):
        assert (sliding.output, sliding.extent) == ((3, 3), (3, 2))


def test_a_stride_beyond_the_kernel_skips_beats_that_nobody_reads() -> None:
    Case(Window(Tensor((7, 7, 2), Int(4, False)), (2, 1), strides=(3, 3)), SlidingFolding(2, 2)).check()


def test_windows_in_the_padding_alone_do_not_wait_for_the_frame() -> None:
    """They leave even for a frame that never comes."""
    window = Window(Tensor((2, 2, 1), Int(8)), (1, 1), pads=(2, 1, 1, 1), pad_value=9)
    run = Case(window, SlidingFolding(1, 1), depth=40, stalls=False).check()
    assert run.values_compared > 3 * (4 + 5 * 4), "the first rows of the fourth frame"


@many
@given(windows())
def test_golden_is_the_definition(drawn: tuple[Window, Folding]) -> None:
    window, _ = drawn
    (height, width, channels), (rows, columns) = window.operand.shape, window.kernel
    (top, left, _, _), (sy, sx), (dy, dx) = window.pads, window.strides, window.dilations
    image = np.arange(height * width * channels).reshape(1, height, width, channels)
    (result,) = window.golden(image)
    for row, column in product(range(result.shape[1]), range(result.shape[2])):
        places = product(range(rows), range(columns), range(channels))
        expected = []
        for r, c, channel in places:
            y, x = row * sy - top + r * dy, column * sx - left + c * dx
            expected.append(image[0, y, x, channel] if 0 <= y < height and 0 <= x < width else window.pad_value)
        assert result[0, row, column].tolist() == expected


@pytest.mark.parametrize(("strides", "pads"), [((1, 1), (1, 1, 1, 1)), ((2, 2), (0, 0, 0, 0)), ((1, 2), (2, 0, 0, 2))])
def test_one_beat_less_than_the_live_capacity_deadlocks(
    strides: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    window = Window(IMAGE, (3, 3), strides, pads)
    live = window.sliding.live_capacity(2)
    assert_proven(prove(alone(replace(window, capacity=live), (2, 9), 4)))
    run = prove(alone(replace(window, capacity=live - 1), (2, 9), 4))
    assert_proven(run, live=False)
    assert [line.split(" waits")[0] for line in run.deadlock] == ["node.writer", "node.reader"]
    assert "for node.reader to free the buffer" in run.deadlock[0]
    assert "for node.writer to write into the buffer" in run.deadlock[1]


def test_full_rate() -> None:
    """No bubble at steady state: the interval is the number of operations of the busier engine."""
    reads = Case(
        Window(IMAGE, (3, 3), pads=(1, 1, 1, 1)), SlidingFolding(3, 7), depth=8, stalls=False, frames=4
    ).check()
    assert reads.interval_cycles == 5 * 4 * 4
    writes = Case(Window(IMAGE, (3, 3), strides=(3, 3)), SlidingFolding(1, 9), depth=8, stalls=False, frames=4).check()
    assert writes.interval_cycles == 5 * 4 * 3


@many
@given(windows())
def test_facts(drawn: tuple[Window, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(Window(IMAGE, (3, 2), pads=(1, 1, 1, 1)))


@pytest.mark.parametrize(
    ("kernel", "strides", "pads"), [((1, 1), (9, 1), (2, 0, 0, 0)), ((6, 1), (1, 1), (0, 0, 0, 0))]
)
def test_refuses_windows_that_never_touch_the_image(
    kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    with pytest.raises(ValueError, match="touches the image"):
        Window(IMAGE, kernel, strides, pads)


def test_refuses_an_empty_line_buffer() -> None:
    with pytest.raises(ValueError, match="at least one beat, not 0"):
        Window(IMAGE, (3, 3), capacity=0)


# ---- for the tests of every core -----------------------------------------------------------------------------------


STRATEGIES = {"window": windows()}
DRAWS = {"window": random_window}
SMALL = Tensor((4, 4, 4), Int(8))
CASES = {
    "window": Case(Window(SMALL, (3, 3), pads=(1, 1, 1, 1), pad_value=-9, capacity=16), SlidingFolding(4, 4), depth=2),
    "narrow window": Case(Window(Tensor((9, 1, 2), Int(8)), (3, 1), capacity=4), SlidingFolding(2, 6), depth=9),
    "window of pixels": Case(  # the last ones of a row are ragged
        Window(Tensor((4, 5, 4), Int(8)), (3, 3), pads=(1, 1, 1, 1), pad_value=-9, capacity=24),
        SlidingFolding(2, 4, 2, 2),
        depth=2,
    ),
}
FAULTS = [
    *sliding_faults("window"),
    Fault("columns beyond the image are read", every_row_of_the_image_is_full, ("window of pixels",)),
]
NARROW_CORES = {
    "window": (Window(NARROW_IMAGE, (3, 3), pads=(1, 1, 1, 1)), SlidingFolding(4, 7)),
}
WIDE_CORES = {
    "window": (Window(WIDE_IMAGE, (3, 3), pads=(1, 1, 1, 1)), SlidingFolding(32, 8)),
}
