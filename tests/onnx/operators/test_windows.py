"""Convolution and pooling of drawn geometries against what their formulas say, element by element."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onnx_hw.onnx.operators.convolution import conv_window, convolve
from onnx_hw.onnx.operators.windows import sliding_window
from support.single_node_models import assert_agrees, ours


@st.composite
def geometries(draw, largest_pad=2):
    """Attributes of a window over one to three spatial axes, and the lengths of these; at least one position."""
    rank = draw(st.integers(1, 3))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    spatial, kernel = each(1, 7), each(1, 3)
    pads = each(0, largest_pad) + each(0, largest_pad)
    assume(all(pad < k for pad, k in zip(pads, kernel * 2, strict=True)))
    attributes = {"strides": each(1, 3), "dilations": each(1, 2), "pads": pads}
    try:
        window = sliding_window(spatial, kernel, **attributes)
    except ValueError:
        assume(False)
    return spatial, kernel, attributes, window


def seen(x, window, position):
    """The elements of one channel that a window sees, with its taps; what lies outside is left out."""
    for tap in product(*map(range, window.kernel)):
        at = tuple(
            p * s + k * d - b
            for p, s, k, d, b in zip(position, window.strides, tap, window.dilations, window.begin, strict=True)
        )
        if all(0 <= a < n for a, n in zip(at, x.shape, strict=True)):
            yield tap, at, x[at]


@given(geometries(), st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_convolution_is_the_sum_over_its_window(geometry, group, inner, each, seed):
    """In integers, exactly; groups, of one channel too (depthwise)."""
    spatial, kernel, _, window = geometry
    random = np.random.default_rng(seed)
    x = random.integers(-9, 10, (2, group * inner, *spatial)).astype(np.float64)
    w = random.integers(-9, 10, (group * each, inner, *kernel)).astype(np.float64)
    y = convolve(x, w, window, group)
    assert y.shape == (2, group * each, *window.output)
    frame, output = random.integers(2), random.integers(group * each)
    first = output // each * inner
    for position in np.ndindex(*window.output):
        expected = sum(
            value * w[(output, channel, *tap)]
            for channel in range(inner)
            for tap, _, value in seen(x[frame, first + channel], window, position)
        )
        assert y[(frame, output, *position)] == expected


@given(geometries(), st.integers(0, 2**32 - 1))
def test_max_pool_and_its_indices(geometry, seed):
    """Random permutations, so that every maximum has one place."""
    spatial, kernel, attributes, window = geometry
    x = np.random.default_rng(seed).permutation(2 * 3 * np.prod(spatial)).reshape(2, 3, *spatial).astype(np.float32)
    y, indices = ours("MaxPool", [x], version=12, outputs=2, kernel_shape=kernel, **attributes)
    for position in np.ndindex(*window.output):
        values = [value for _, _, value in seen(x[1, 2], window, position)]
        if values:
            assert y[(1, 2, *position)] == max(values)
            assert x.reshape(-1)[indices[(1, 2, *position)]] == max(values)


@given(geometries(), st.booleans(), st.integers(0, 2**32 - 1))
def test_average_pool_counts_what_it_should(geometry, with_pads, seed):
    spatial, kernel, attributes, window = geometry
    x = np.random.default_rng(seed).integers(-9, 10, (1, 1, *spatial)).astype(np.float32)
    (y,) = ours("AveragePool", [x], version=19, kernel_shape=kernel, count_include_pad=int(with_pads), **attributes)
    for position in np.ndindex(*window.output):
        values = [value for _, _, value in seen(x[0, 0], window, position)]
        count = np.prod(kernel) if with_pads else len(values)
        if count:
            assert y[(0, 0, *position)] == pytest.approx(sum(values) / count, abs=1e-5)


@given(geometries(), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_transposed_convolution_is_the_adjoint(geometry, group, seed):
    """<conv(x), y> = <x, conv_transpose(y)>, in integers, exactly."""
    spatial, kernel, attributes, window = geometry
    random = np.random.default_rng(seed)
    x = random.integers(-9, 10, (1, 2 * group, *spatial)).astype(np.float64)
    w = random.integers(-9, 10, (3 * group, 2, *kernel)).astype(np.float64)
    y = random.integers(-9, 10, (1, 3 * group, *window.output)).astype(np.float64)
    padding = [
        n - ((out - 1) * s + (k - 1) * d + 1 - before - after)
        for n, out, s, k, d, before, after in zip(
            spatial, window.output, window.strides, kernel, window.dilations, window.begin, window.end, strict=True
        )
    ]
    (back,) = ours("ConvTranspose", [y, w], version=11, group=group, output_padding=tuple(padding), **attributes)
    assert back.shape == x.shape
    assert (convolve(x, w, window, group) * y).sum() == (x * back).sum()


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_automatic_padding_agrees_with_onnxruntime(auto_pad, stride):
    random = np.random.default_rng(1)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 7, 8), (3, 2, 3, 4)))
    attributes = {"auto_pad": auto_pad, "strides": [stride, 1]}
    assert_agrees("Conv", [x, w], version=11, **attributes)
    assert_agrees("MaxPool", [x], version=12, kernel_shape=[3, 2], **attributes)
    assert_agrees("AveragePool", [x], version=11, kernel_shape=[3, 2], ceil_mode=1, **attributes)


@pytest.mark.parametrize("sides", [(1, 1), (2, 3)])
def test_rows_of_a_large_image_are_convolved_in_blocks(sides):
    """Memory stays far below the matrix that the whole image would make."""
    import tracemalloc

    x = np.ones((1, 16, 200, 200), np.float32)
    w = np.ones((4, 16, 5, 5), np.float32)
    window = conv_window(x.shape, w.shape, strides=sides)
    tracemalloc.start()
    y = convolve(x, w, window)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (y == 400).all()
    assert peak < y.nbytes + 4e6 < 16 * 25 * y[0, 0].nbytes
