"""A schedule is as short as a row of the image, and says the same as one that is written operation by operation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.schedule import Schedule
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from support.random_operators import touches_the_image


@st.composite
def slidings(draw: st.DrawFn) -> Sliding:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    shape = (draw(st.integers(1, 9)), draw(st.integers(1, 9)), 1)
    pads = draw(st.tuples(*[st.integers(0, 4)] * 4))
    return Sliding(shape, draw(pair), draw(pair), pads, draw(pair))


@settings(max_examples=300, derandomize=True)
@given(slidings(), st.integers(1, 3), st.integers(0, 200), st.integers(0, 100))
def test_numbers_between_two(sliding: Sliding, beats: int, begin: int, count: int) -> None:
    if min(sliding.output) < 1 or not touches_the_image(sliding):
        return
    buffer = sliding.buffer(2, beats, 99)
    for sequence in (buffer.waits, buffer.needs, buffer.releases, AffineSequence.every(9, 4, 3), AffineSequence(())):
        every = np.asarray(sequence)
        expected = every[(every >= begin) & (every < begin + count)]
        np.testing.assert_array_equal(sequence.between(begin, begin + count), expected)


@settings(max_examples=300, derandomize=True)
@given(slidings(), st.integers(1, 3), st.integers(1, 4))
def test_a_line_buffer_operation_by_operation(sliding: Sliding, beats_per_pixel: int, of_a_window: int) -> None:
    """The last beat a window can touch; rows that no later output row touches; what both engines need to go evenly."""
    if min(sliding.output) < 1 or not touches_the_image(sliding):
        return
    (rows, columns), (height, width, _) = sliding.output, sliding.shape
    needed, waits, needs, released = -1, [], [], []
    kept = [0]
    for row in range(rows):
        later = range((row + 1) * sliding.strides[0] - sliding.pads[0], height) if row + 1 < rows else ()
        kept.append(max(0, min(later, default=height)))
        for column in range(columns):
            y = min(height - 1, row * sliding.strides[0] - sliding.pads[0] + sliding.extent[0] - 1)
            x = min(width - 1, column * sliding.strides[1] - sliding.pads[1] + sliding.extent[1] - 1)
            beat = (y * width + x + 1) * beats_per_pixel - 1 if y >= 0 and x >= 0 else -1
            for place in range(of_a_window):
                if beat > needed:
                    waits.append((row * columns + column) * of_a_window + place)
                    needs.append(needed := beat)
                done = column == columns - 1 and place == of_a_window - 1
                released.append(kept[row + done] * width * beats_per_pixel)
    buffer = sliding.buffer(of_a_window, beats_per_pixel, 99)
    assert np.asarray(buffer.waits).tolist() == waits
    assert np.asarray(buffer.needs).tolist() == needs
    given_back = [
        next(k for k, count in enumerate(released) if count > b) for b in range(height * width * beats_per_pixel)
    ]
    assert np.asarray(buffer.releases).tolist() == given_back
    held = [
        beat + 1 - kept[wait // of_a_window // columns] * width * beats_per_pixel
        for wait, beat in zip(waits, needs, strict=True)
    ]
    assert sliding.live_capacity(beats_per_pixel) >= max(held)


@settings(max_examples=200, derandomize=True)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_rows_of_any_steps(steps: list[int], inner: list[int]) -> None:
    starts, pattern = np.cumsum(steps), np.cumsum(inner)
    numbers = AffineSequence.rows(starts, pattern)
    assert np.asarray(numbers).tolist() == (starts[:, None] + pattern).reshape(-1).tolist()
    assert len(numbers) == len(starts) * len(pattern)


def kept(schedule: Schedule) -> int:
    """Numbers that are written down."""
    lists = [numbers for engine in schedule.engines for numbers in (*engine.pops.values(), *engine.pushes.values())]
    lists += [numbers for buffer in schedule.buffers for numbers in (buffer.waits, buffer.needs, buffer.releases)]
    return sum(len(turns.pattern) for numbers in lists for turns in numbers.turns)


@pytest.mark.parametrize("size", [256, 1024])
def test_an_image_of_a_million_pixels_needs_a_few_rows(size: int) -> None:
    image = Tensor((size, size, 8), Int(8))
    window = Window(image, (3, 3), pads=(1, 1, 1, 1))
    product = MatMul(window.results()[0], np.ones((8, 72), dtype=np.int64))
    for operator, folding in (
        (window, window.folding_type(2, 9)),
        (Pool(image, "max", (3, 3), (2, 2)), Pool.folding_type(4, 2)),
        (product, MatMul.folding_type(9, 2)),
        (Gearbox(image), Gearbox.folding_type(2, 3)),
    ):
        assert kept(operator.schedule(folding)) < 40 * size, operator
