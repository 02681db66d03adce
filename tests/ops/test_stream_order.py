"""Orders: what lies where in which beat, against the definition written out as loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.stream_order import HostOrder, Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor

i8 = Int(8)
often = settings(max_examples=150)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """Lanes and pixels that divide and that do not; tiles within a row, of rows, ragged at their ends."""
    height, width, channels = draw(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)))
    pixels = draw(st.integers(1, width))
    within = list(range(pixels, width, pixels))
    rows = [width * count for count in range(1, height + 1)]
    tile = draw(st.sampled_from([0, *within, *rows]))
    times = draw(st.sampled_from([1, 1, 2, 3]))
    return Order(Tensor((height, width, channels), i8), draw(st.integers(1, channels + 2)), pixels, tile, times)


def tiles_by_loops(order: Order) -> list[list[tuple[int, list[int]]]]:
    """Per tile its pixel groups: a row and the columns of the group."""
    height, width, _ = order.tensor.shape
    rows = [
        [(row, list(range(width))[x : x + order.pixels]) for x in range(0, width, order.pixels)]
        for row in range(height)
    ]
    found = []
    if order.tile < width:
        for row in rows:
            tile: list[tuple[int, list[int]]] = []
            for group in row:
                tile.append(group)
                if len(tile) * order.pixels == order.tile:
                    found.append(tile)
                    tile = []
            if tile:
                found.append(tile)
    else:
        for first in range(0, height, order.tile // width):
            found.append([group for row in rows[first : first + order.tile // width] for group in row])
    return found


def by_loops(order: Order) -> list[list[tuple[int, int, int] | None]]:
    """Per beat of a frame, as often as it is sent, the (row, column, channel) of each place, or None."""
    channels, found = order.tensor.channels, []
    for tile in tiles_by_loops(order):
        for first in range(0, channels, order.lanes):
            for row, columns in tile:
                beat: list[tuple[int, int, int] | None] = [None] * (order.pixels * order.lanes)
                for pixel, column in enumerate(columns):
                    for lane in range(order.lanes):
                        if first + lane < channels:
                            beat[pixel * order.lanes + lane] = (row, column, first + lane)
                found.append(beat)
    return found * order.times


@often
@given(orders(), st.integers(1, 3))
def test_any_order_is_its_loops(order: Order, frames: int) -> None:
    expected = by_loops(order)
    assert (order.beats, order.width) == (len(expected), len(expected[0]))
    assert order.elements.shape == (order.beats, order.width)
    assert (
        order.used(frames * order.beats - 1).tolist()
        == ([[place is not None for place in beat] for beat in expected * frames][:-1])
    )
    for number, beat in enumerate(expected * frames):
        for index, place in enumerate(beat):
            if place is not None:
                assert order.place(number, index) == (number // len(expected), *place)
                if number % len(expected) < len(expected) // order.times:
                    assert order.places[place] == number % len(expected) * order.width + index


@often
@given(orders(), st.integers(1, 3))
def test_values_go_where_the_loops_say_and_come_back(order: Order, frames: int) -> None:
    array = np.arange(1, frames * order.tensor.size + 1).reshape(frames, *order.tensor.shape)
    beats = order.to_beats(array)
    expected = [
        [0 if at is None else array[frame, *at] for at in beat] for frame in range(frames) for beat in by_loops(order)
    ]
    assert beats.tolist() == expected
    rubbish = np.where(order.used(len(beats)), beats, -7)
    assert np.array_equal(order.from_beats(rubbish), array)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 9), st.integers(1, 11))
def test_the_usual_order_is_the_array_pixel_by_pixel(height: int, width: int, channels: int, lanes: int) -> None:
    """As ever: channels innermost, filled up to whole beats."""
    image = np.arange(height * width * channels).reshape(1, height, width, channels)
    filled = np.pad(image, [(0, 0)] * 3 + [(0, -channels % lanes)])
    assert np.array_equal(Order(Tensor(image.shape[1:], i8), lanes).to_beats(image), filled.reshape(-1, lanes))


def test_one_tile_a_frame_sends_channels_one_after_the_other() -> None:
    image = np.arange(24).reshape(1, 2, 4, 3)
    beats = Order(Tensor((2, 4, 3), i8), lanes=1, pixels=2, tile=8).to_beats(image)
    assert np.array_equal(beats.reshape(3, 2, 4), image[0].transpose(2, 0, 1))


def test_orders_with_the_same_beats_are_equal() -> None:
    row = Tensor((1, 6, 3), i8)
    assert Order(row, 2, 2) == Order(row, 2, 2, 2) != Order(row, 2, 2, 4)
    assert repr(Order(row, 2)) == "i8[1,6,3] by 2"
    assert repr(Order(row, 2, 2, 4)) == "i8[1,6,3] by 2 of 2 pixels in tiles of 4"
    assert repr(Order(row, 2, times=3)) == "i8[1,6,3] by 2, 3 times"
    assert not Order(row, 2).alike(Order(row, 2, times=2))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((0,), "a lane or more, not 0"),
        ((1, 0), r"must be 1\.\.6, those of a row, not 0"),
        ((1, 7), r"must be 1\.\.6, those of a row, not 7"),
        ((1, 2, 3), "whole groups of 2 pixels within a row, or 1..4 whole rows of 6, not 3"),
        ((1, 2, 9), "not 9 pixels"),
        ((1, 2, 30), "not 30 pixels"),
        ((1, 2, -2), "not -2 pixels"),
        ((1, 2, 0, 0), "sent once or more, not 0 times"),
    ],
)
def test_refuses_what_is_no_order(arguments: tuple[int, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Order(Tensor((4, 6, 3), i8), *arguments)


@given(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)), st.integers(1, 500), st.data())
def test_the_fewest_lanes_are_enough_and_no_fewer(shape: tuple[int, int, int], beats: int, data: st.DataObject) -> None:
    tensor, pixels = Tensor(shape, i8), data.draw(st.integers(1, shape[1]))
    enough = [lanes for lanes in range(1, shape[2] + 1) if Order(tensor, lanes, pixels).beats <= beats]
    assert fewest_lanes(tensor, beats, pixels) == (enough[0] if enough else None)


@given(st.permutations(range(12)))
def test_what_enters_leaves_as_it_was(source: list[int]) -> None:
    array = np.arange(100, 112, dtype=np.int16).reshape(2, 6)
    order = HostOrder((2, 6), np.array(source))
    stream = order.entering(array)
    assert stream.tolist() == [100 + index for index in source]
    back = order.leaving(stream)
    assert np.array_equal(back, array) and back.dtype == array.dtype


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
    lambda shape: st.tuples(st.just(shape), st.permutations(range(len(shape))))))  # fmt: skip
def test_loops_of_the_host_give_its_order(drawn: tuple[list[int], list[int]]) -> None:
    shape, axes = drawn
    source = np.arange(int(np.prod(shape))).reshape(shape).transpose(axes).reshape(-1)
    places = np.zeros(1, dtype=np.int64)
    for turns, step in HostOrder(tuple(shape), source).loops:
        places = (places[:, None] + step * np.arange(turns)).reshape(-1)
    assert np.array_equal(places, source)


def test_what_is_no_loop_nest_has_no_loops() -> None:
    for source in ([2, 1, 0], [0, 1, 3, 2], [0, 2, 1, 3, 5, 4]):
        assert HostOrder((len(source),), np.array(source)).loops == ()
