"""Orders in which the elements of a tensor follow each other on a stream, beat by beat.

A beat holds ``pixels`` neighbouring pixels of a row, and of each ``lanes`` neighbouring channels. Channel c of a pixel
belongs to *channel group* ``c // lanes``, column x of a row to *pixel group* ``x // pixels``. A beat is one pixel group
and one channel group; the element of its pixel p and its channel c lies at ``p · lanes + c`` of the payload. A beat
crosses neither the channels of a pixel nor a row of the image: the last ones may be *ragged*, with anything in the
places beyond.

The beats of a frame are a loop nest over the *tiles* of the image:

    for each tile (in the order of the pixels)
        for each channel group
            for each pixel group of the tile
                one beat

With one pixel group a tile, which is usual, all channels of a pixel come before the next one: NHWC. With one tile a
frame, all pixels come before the next channels. A tile is whole pixel groups of one row, or whole rows; the last one of
a row, or of the frame, may be smaller.

Whoever reads a frame over and over and does not keep it is sent it several *times*: all its beats, then all again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.tensor import Tensor

UNUSED = -1
"""Instead of an element: the place in the beat lies beyond the tensor."""


@dataclass(frozen=True)
class Order:
    """How the frames of a tensor become beats. See above.

    Attributes:
        tensor: what is sent.
        lanes: channels side by side in a beat; may be more than there are.
        pixels: pixels side by side in a beat.
        tile: pixels of a tile; by default one pixel group.
        times: how often a frame is sent.

    >>> from onnx_hw.exact.integers import Int
    >>> from onnx_hw.ops.tensor import Tensor
    >>> image = Tensor((1, 3, 3), Int(8))  # a row of three pixels of three channels
    >>> image_of_numbers = np.array([[[[10, 11, 12], [20, 21, 22], [30, 31, 32]]]])
    >>> Order(image, lanes=2).to_beats(image_of_numbers).tolist()
    [[10, 11], [12, 0], [20, 21], [22, 0], [30, 31], [32, 0]]
    >>> Order(image, lanes=2, pixels=2).to_beats(image_of_numbers).tolist()
    [[10, 11, 20, 21], [12, 0, 22, 0], [30, 31, 0, 0], [32, 0, 0, 0]]
    >>> Order(image, lanes=2, tile=3).to_beats(image_of_numbers).tolist()
    [[10, 11], [20, 21], [30, 31], [12, 0], [22, 0], [32, 0]]
    """

    tensor: Tensor
    lanes: int
    pixels: int = 1
    tile: int = 0
    times: int = 1

    def __post_init__(self) -> None:
        height, width, _ = self.tensor.shape
        if self.lanes < 1:
            raise ValueError(f"a beat must have a lane or more, not {self.lanes}")
        if self.times < 1:
            raise ValueError(f"a frame must be sent once or more, not {self.times} times")
        if not 1 <= self.pixels <= width:
            raise ValueError(f"the pixels of a beat must be 1..{width}, those of a row, not {self.pixels}")
        if not self.tile:
            object.__setattr__(self, "tile", self.pixels)
        whole = self.tile % self.pixels == 0 if self.tile < width else self.tile % width == 0
        if not whole or not 1 <= self.tile <= height * width:
            raise ValueError(
                f"a tile must be whole groups of {self.pixels} pixels within a row, or 1..{height} whole rows of "
                f"{width}, not {self.tile} pixels"
            )

    def alike(self, other: Order) -> bool:
        """Return whether a tensor sent in one of the orders arrives correctly in the other."""
        mine, its = ((o.tensor.shape, o.lanes, o.pixels, o.tile, o.times) for o in (self, other))
        return mine == its

    # ---- how much ---------------------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Integers per beat: the length of the payload."""
        return self.pixels * self.lanes

    @property
    def groups(self) -> int:
        """Channel groups of a pixel."""
        return -(-self.tensor.channels // self.lanes)

    @property
    def row_groups(self) -> int:
        """Pixel groups of a row."""
        return -(-self.tensor.shape[1] // self.pixels)

    @property
    def pixel_groups(self) -> int:
        """Pixel groups of a frame."""
        return self.tensor.shape[0] * self.row_groups

    @property
    def beats(self) -> int:
        """Beats of a frame, as often as it is sent."""
        return self.pixel_groups * self.groups * self.times

    @property
    def tile_groups(self) -> int:
        """Pixel groups of a tile that is not smaller than the others."""
        columns = self.tensor.shape[1]
        return self.tile // columns * self.row_groups if self.tile >= columns else self.tile // self.pixels

    @property
    def even_tiles(self) -> bool:
        """Whether all tiles have the same number of pixel groups."""
        within_a_row = self.tile < self.tensor.shape[1]
        return (self.row_groups if within_a_row else self.pixel_groups) % self.tile_groups == 0

    # ---- what is where ----------------------------------------------------------------------------------------------

    @cached_property
    def elements(self) -> np.ndarray:
        """(beats, width) int64: the flat index in a frame of what lies in each place of each beat, or ``UNUSED``."""
        if self._as_stored:
            return np.arange(self.tensor.size).reshape(-1, self.lanes)
        _, columns, channels = self.tensor.shape
        pixel_group, group = (index.reshape(-1) for index in np.indices((self.pixel_groups, self.groups)))
        if self.tile != self.pixels:  # the usual order is the one they are in
            nest = np.lexsort((pixel_group, group, self._tile_of(pixel_group)))  # the innermost loop comes first
            pixel_group, group = pixel_group[nest], group[nest]
        pixel_group, group = pixel_group[:, None, None], group[:, None, None]
        row = pixel_group // self.row_groups
        column = pixel_group % self.row_groups * self.pixels + np.arange(self.pixels)[:, None]
        channel = group * self.lanes + np.arange(self.lanes)
        flat = (row * columns + column) * channels + channel
        real = (column < columns) & (channel < channels)
        return np.tile(np.where(real, flat, UNUSED).reshape(-1, self.width), (self.times, 1))

    @property
    def _as_stored(self) -> bool:
        """Whether all elements of a frame come once, one after the other, and nothing in between."""
        return self.tile == self.times == 1 and self.tensor.channels % self.lanes == 0

    def _tile_of(self, pixel_group: np.ndarray) -> np.ndarray:
        """Return the number of the tile of each pixel group; ascending, not all numbers are used."""
        in_row = pixel_group % self.row_groups
        if self.tile >= self.tensor.shape[1]:
            return pixel_group // self.tile_groups
        return pixel_group - in_row % self.tile_groups

    @cached_property
    def places(self) -> np.ndarray:
        """(height, width, channels) int64: where each element of a frame lies: ``beat · width + payload index``.

        Of a frame that is sent several times, where it lies first.
        """
        if self._as_stored:
            return np.arange(self.tensor.size).reshape(self.tensor.shape)
        flat = self.elements[: self.beats // self.times].reshape(-1)
        tiles = np.empty(self.tensor.size, dtype=np.int64)
        tiles[flat[flat != UNUSED]] = np.flatnonzero(flat != UNUSED)
        return tiles.reshape(self.tensor.shape)

    def used(self, beats: int, first: int = 0) -> np.ndarray:
        """Return which places of consecutive beats hold an element: (beats, width) bool.

        Args:
            first: number of the first of these beats, counted over all frames.
        """
        if not self._ragged:
            return np.broadcast_to(np.True_, (beats, self.width))
        number = np.arange(first, first + beats) % self.beats
        if self.tile != self.pixels:
            return self.elements[number] != UNUSED
        _, columns, channels = self.tensor.shape
        pixel_group, group = np.divmod(number, self.groups)
        column = (pixel_group % self.row_groups * self.pixels)[:, None] + np.arange(self.pixels)
        channel = (group * self.lanes)[:, None] + np.arange(self.lanes)
        return ((column < columns)[:, :, None] & (channel < channels)[:, None, :]).reshape(-1, self.width)

    @property
    def _ragged(self) -> bool:
        """Whether a place of a beat lies beyond the tensor."""
        return self.beats * self.width != self.tensor.size * self.times

    def place(self, beat: int, index: int) -> tuple[int, int, int, int]:
        """Return (frame, row, column, channel) at ``index`` in the payload of a beat, counted over all frames."""
        frame, beat = divmod(beat, self.beats)
        row, column, channel = np.unravel_index(self.elements[beat, index], self.tensor.shape)
        return frame, int(row), int(column), int(channel)

    # ---- there and back ---------------------------------------------------------------------------------------------

    def to_beats(self, frames: np.ndarray) -> np.ndarray:
        """Convert (frames, height, width, channels) to (frames · beats, width), in the same type; unused places are
        0.
        """
        if self._as_stored:
            return frames.reshape(-1, self.lanes)
        count, (rows, columns, channels) = len(frames), self.tensor.shape
        if self.tile != self.pixels:
            flat = np.column_stack([frames.reshape(count, -1), np.zeros(count, dtype=frames.dtype)])
            return flat[:, self.elements].reshape(-1, self.width)  # UNUSED is the last
        across, deep = self.row_groups * self.pixels, self.groups * self.lanes
        if (across, deep) != (columns, channels):
            frames = np.pad(frames.reshape(count, rows, columns, channels), _behind(across - columns, deep - channels))
        split = frames.reshape(count, rows, self.row_groups, self.pixels, self.groups, self.lanes)
        once = split.transpose(0, 1, 2, 4, 3, 5).reshape(count, -1, self.width)
        return np.tile(once, (1, self.times, 1)).reshape(-1, self.width)

    def from_beats(self, beats: np.ndarray) -> np.ndarray:
        """Convert (frames · beats, width) to (frames, height, width, channels); unused places are left out."""
        return beats.reshape(-1, self.beats * self.width)[:, self.places]

    def __repr__(self) -> str:
        beside = f" of {self.pixels} pixels" if self.pixels > 1 else ""
        tiled = f" in tiles of {self.tile}" if self.tile != self.pixels else ""
        again = f", {self.times} times" if self.times > 1 else ""
        return f"{self.tensor!r} by {self.lanes}{beside}{tiled}{again}"


def _behind(columns: int, channels: int) -> tuple[tuple[int, int], ...]:
    """Return the padding of frames behind their last column and their last channel."""
    return ((0, 0), (0, 0), (0, columns), (0, channels))


def fewest_lanes(tensor: Tensor, beats: int, pixels: int = 1) -> int | None:
    """Return the fewest lanes with which a frame takes at most ``beats``; None if not even all lanes are enough."""
    rows, columns, _ = tensor.shape
    per_pixel_group = beats // (rows * -(-columns // pixels))
    return -(-tensor.channels // per_pixel_group) if per_pixel_group else None


def least_pixels(tensor: Tensor, beats: int) -> int | None:
    """Return the fewest pixels, a power of two or a whole row, for at most ``beats`` a frame; or None."""
    pixels, (rows, row, _) = 1, tensor.shape
    while rows * -(-row // pixels) > beats:
        if pixels == row:
            return None
        pixels = min(2 * pixels, row)
    return pixels


@dataclass(frozen=True)
class HostOrder:
    """The other kind of order: the one in which the host sends and takes the elements of an ONNX array. It is free.

    Attributes:
        shape: of the array.
        source: (size,) int64, a permutation: position on the stream (in NHWC order) -> flat index in the array.
    """

    shape: tuple[int, ...]
    source: np.ndarray = field(repr=False, compare=False)

    @property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """Loop nest of the order over the flat array, outermost first: (turns, step). Empty where no loop nest
        describes it.

        >>> HostOrder((3, 4), np.arange(12).reshape(3, 4).T.reshape(-1)).loops
        ((4, 1), (3, 4))
        """
        loops: list[tuple[int, int]] = []
        places = self.source
        if places.size == 1:
            return ((1, 1),)
        if places[0] != 0:
            return ()
        while places.size > 1:
            steps = np.diff(places)
            turns = int(np.gcd.reduce([places.size, *(np.flatnonzero(steps != steps[0]) + 1)]))
            if turns == 1:
                return ()
            loops.append((turns, int(steps[0])))
            places = places[::turns]
        return tuple(reversed(loops))

    def entering(self, array: np.ndarray) -> np.ndarray:
        """Return the array's elements as the stream carries them: (size,)."""
        return array.reshape(-1)[self.source]

    def leaving(self, elements: np.ndarray) -> np.ndarray:
        """Return the array of what a stream carried."""
        array = np.empty(self.source.size, dtype=elements.dtype)
        array[self.source] = elements.reshape(-1)
        return array.reshape(self.shape)


def channel_words(operand: Tensor, lanes: int) -> Order:
    """Return the words; their elements are the numbers of the channels."""
    channels = operand.channels
    return Order(Tensor((1, 1, channels), Int.holding(0, channels - 1)), lanes)


def channels_of(words: Order) -> np.ndarray:
    """Return the channels, (words, lanes) int64; unused places have the last one, whose constants are there anyway."""
    return np.where(words.elements == UNUSED, words.tensor.channels - 1, words.elements)
