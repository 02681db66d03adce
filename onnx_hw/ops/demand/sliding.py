"""Demand of a window that slides over a streamed image, whatever is done with its elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np

from onnx_hw.ops.demand.blocks import (
    MAX_GATE_TABLE_WORDS,
    changing,
    copied,
    counted,
    decoded,
    delayed,
    engine,
    memories,
    memory_parts,
    memory_reach,
    position,
    shared_buffer,
)
from onnx_hw.ops.folding import SlidingFolding
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.stream_order import Order
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Memory, Multiplexer, Register, Unseen

MAX_MERGED_WORDS = 64
"""Words of a table that is made of gates, some of which other tables have, too."""


MAX_TABLE_WORDS = 1024
"""Words of the largest table of places that is stored as a whole, and not as that of the first channels alone."""


@dataclass(frozen=True)
class Fetch:
    """Elements that a reader fetches under its windows.

    Attributes:
        sliding: of single pixels.
        folding: of the core.
        fetched: elements of each of the windows side by side that an operation takes.
        bits: of an element.
        capacity: beats of the ring.
        inner: counts of the loops within a window.
        taps: elements of the kernel of which an operation takes the same channels; 0 where it takes elements across
            them.
        turns: of the first inner loop in which the same channels are fetched.
        pushes: whether every operation pushes a result.
    """

    sliding: Sliding
    folding: SlidingFolding
    fetched: int
    bits: int
    capacity: int
    inner: tuple[int, ...]
    taps: int
    turns: int
    pushes: bool

    @property
    def group(self) -> int:
        """Lanes that are never cut."""
        return gcd(self.sliding.shape[2], self.folding.in_lanes, self.fetched // max(1, self.taps))

    @property
    def word(self) -> int:
        """Bits of a beat of the image."""
        return self.folding.in_lanes * self.folding.in_pixels * self.bits

    @property
    def ring(self) -> int:
        """Beats of the memory."""
        return max(2, 1 << (self.capacity - 1).bit_length())


@lru_cache(maxsize=4096)
def sliding_demand(fetch: Fetch, wide: Sliding, image: Order) -> Demand:
    """Return the demand of both engines, the rings, and the registers up to the elements of a beat.

    The windows of a beat slide over the pixel groups of the image as ``wide``; ``image`` are the beats that come.
    """
    per_pixel, address = image.groups, counted(fetch.ring)
    rows, columns = wide.output
    loops = (rows, columns, *fetch.inner)
    index = min(4, max(map(counted, loops)))
    further, released = _steps(wide, per_pixel, image.beats)
    span = 2 * image.beats + fetch.capacity + (wide.extent[0] + 1) * wide.shape[1] * per_pixel
    demand = engine((1,), conditions=1) + engine(loops, inputs=0, conditions=1, some_push=not fetch.pushes)
    demand += shared_buffer(span, further, released) + decoded(further, index) + decoded(released, index)
    demand += position(fetch.ring) + delayed(1 + address, 2 + _write_copies(fetch)) + delayed(fetch.word, 3)
    demand += _corner(wide, per_pixel, image.beats, fetch.ring, index) + delayed(address, 2)
    masks = [_masks(fetch, axis) for axis in (0, 1)]
    for axis in (0, 1):
        demand += decoded(masks[axis], counted(wide.output[axis])) + delayed(changing(masks[axis]), 2)
    tables = _tables(fetch, wide, per_pixel)
    by_step = _tables_of_steps(fetch, tables)
    if by_step is not None:
        tables, shift = by_step
        channels = counted(fetch.inner[0]) + shift.bit_length() - 1
        demand += max(1, shift.bit_count()) * Demand.of(Adder(address)) + delayed(channels, 1)
    in_gates = any(len(table.words) <= MAX_GATE_TABLE_WORDS for table in tables)
    demand += delayed(sum(map(counted, fetch.inner)), 1 + in_gates)
    padded = sum(changing(mask) > 0 for mask in masks)
    return demand + _groups(fetch, tables, padded)


def _write_copies(fetch: Fetch) -> int:
    """Return the demand of the registers that tell the copies of the ring what is written; narrow ones share them."""
    rings = fetch.folding.out_pixels * fetch.fetched // fetch.group
    parts = memory_parts(fetch.word, fetch.ring)
    return rings * parts if parts > 1 else -(-rings // (memory_reach(fetch.ring) // fetch.word))


@dataclass(frozen=True)
class GroupTable:
    """Table of a group, by beat of a window; 0 where the group has no element.

    Attributes:
        words: everything side by side.
        filled: whether the group has an element.
        used, place, row, column, slices: by operation of a window: whether it fetches an element, and the parts.
    """

    words: np.ndarray
    filled: np.ndarray
    used: np.ndarray
    place: np.ndarray
    row: np.ndarray
    column: np.ndarray
    slices: np.ndarray

    def first(self, words: int, operations: int) -> GroupTable:
        """Return the table of the first operations of a window."""
        parts = (self.used, self.place, self.row, self.column, self.slices)
        return GroupTable(self.words[:words], self.filled[:words], *(part[:operations] for part in parts))


def _groups(fetch: Fetch, tables: list[GroupTable], padded: int) -> Demand:
    """Return the demand of table, address, ring and slice of each group; registers that hold the same are made once.

    Args:
        padded: axes along which windows leave the image.
    """
    size, address, demand = fetch.group * fetch.bits, counted(fetch.ring), Demand()
    most, known_tables = fetch.word // size, set[tuple[str, bytes]]()

    def new(kind: str, what: bytes) -> bool:
        key = kind, what
        fresh = key not in known_tables
        known_tables.add(key)
        return fresh

    for table in tables:
        depends = _depends(table.words, table.filled)
        if len(table.words) <= MAX_MERGED_WORDS:
            depends = {column: bits for column, bits in depends.items() if new("table", column)}
        if depends:
            demand += _table(fetch, tuple(depends.values()), len(table.words))
        parts = memory_parts(fetch.word, fetch.ring)
        if new("place", table.place.tobytes()):
            demand += Demand.of(Register(address if parts == 1 else 0), Adder(address if table.place.any() else 0))
        if parts > 1:
            demand += delayed(address, parts)
        if padded and new("inside", table.row.tobytes() + table.column.tobytes()):
            demand += Demand.of(Register(2), LogicFunction(4, 2 * padded))
        columns = [table.slices >> k & 1 for k in range(most.bit_length())]
        chosen = sum(bool(column.any() and not column.all()) and new("slices", column.tobytes()) for column in columns)
        left = reached(columns, most)
        read = tuple((k * size, (k + 1) * size) for k in left)
        demand += memories(fetch.word, fetch.ring, read if len(left) < most else ())
        demand += Demand.of(Unseen(Register(fetch.word), Register(len(left) * size)), Register(size))
        demand += Demand.of(Unseen(Multiplexer(most, size), Multiplexer(len(left), size)))
        demand += delayed(chosen, 2) + copied(1 + counted(most), size)
    return demand


def reached(columns: list[np.ndarray], most: int) -> list[int]:
    """Return the slices of a word that bits which are 0 at first may choose, whatever the others are; like ones change
    together.

    Args:
        columns: by bit of the slice's number, its values.
        most: slices; beyond the last one there is the last one.
    """
    alike: dict[bytes, int] = {}
    for k, column in enumerate(columns):
        if column.any():
            alike[column.tobytes()] = alike.get(column.tobytes(), 0) | 1 << k
    numbers = {0}
    for bits in alike.values():
        numbers |= {number | bits for number in numbers}
    return sorted({min(number, most - 1) for number in numbers})


def _table(fetch: Fetch, depends: tuple[int, ...], words: int) -> Demand:
    """Return the demand of a register behind gates, or of a memory, for an address, a row, a column or a slice."""
    reached = (
        fetch.sliding.kernel[0],
        fetch.folding.out_pixels * fetch.sliding.kernel[1],
        fetch.word // fetch.bits // fetch.group,
    )
    width = counted(fetch.ring) + sum(counted(max(2, count)) for count in reached)
    in_logic = True if words <= MAX_GATE_TABLE_WORDS else None
    table = Memory(max(width, len(depends)), words, constant=True, in_logic=in_logic, depends=depends)
    return Demand.of(table, Register(0 if in_logic else len(depends)))


def _depends(words: np.ndarray, used: np.ndarray) -> dict[bytes, int]:
    """Return, for each bit that changes, of how many address bits it is a function; bits that agree count once."""
    places = np.flatnonzero(used)
    if not places.size:  # a group behind the last element of every window
        return {}
    kept = words[places]
    changes = int(np.bitwise_or.reduce(kept ^ kept[0]))
    bits = np.array([k for k in range(changes.bit_length()) if changes >> k & 1], dtype=np.int64)[:, None]
    address = np.arange((len(words) - 1).bit_length())[:, None]
    other = places ^ 1 << address
    other = np.where(other < len(words), other, places)
    reached = np.bitwise_or.reduce(np.where(used[other], kept ^ words[other], 0), axis=1)
    columns, counts = (kept >> bits & 1).astype(np.uint8), (reached >> bits & 1).sum(axis=1)
    return {column.tobytes(): max(1, int(count)) for column, count in zip(columns, counts, strict=True)}


def _steps(wide: Sliding, per_pixel: int, beats: int) -> tuple[list[int], list[int]]:
    """Return by how much the need may grow from one operation to the next, and how many beats one may give back."""
    y, x = wide.last_touched(0), wide.last_touched(1)
    width = wide.shape[1] * per_pixel
    back = int(x[0] - x[-1]) * per_pixel
    first, last = ((int(y[k]) * wide.shape[1] + int(x[k]) + 1) * per_pixel for k in (0, -1))
    by_row = [*(np.diff(y) * width + back).tolist(), beats + first - last]
    by_column = (np.diff(x) * per_pixel).tolist()
    released = (np.diff(wide.kept_from(), prepend=0) * width).tolist()
    return [0, *by_column, *by_row], [0, *released]


def _corner(wide: Sliding, per_pixel: int, beats: int, ring: int, index: int) -> Demand:
    """Return the demand of the address of the window's first pixel."""
    rows, columns = wide.output
    column = wide.strides[1] * per_pixel
    row = wide.strides[0] * wide.shape[1] * per_pixel
    to_row, to_frame = row - (columns - 1) * column, beats - (rows - 1) * row - (columns - 1) * column
    moves = [0] + [column % ring] * (columns > 1) + [to_row % ring] * (rows > 1) + [to_frame % ring]
    address = counted(ring)
    return Demand.of(Adder(address), Register(address)) + decoded(moves, index)


def _masks(fetch: Fetch, axis: int) -> list[int]:
    """Return the demand of the masks that say which rows (columns) in reach of a beat's windows lie inside the image: a
    bit each, per output row (column).
    """
    one = fetch.sliding
    taps, step, turns = np.arange(one.kernel[axis]) * one.dilations[axis], one.strides[axis], one.output[axis]
    if axis == 1 and fetch.folding.out_pixels > 1:
        beside = np.arange(fetch.folding.out_pixels)[:, None] * step + taps
        taps, turns, step = np.unique(beside), -(-turns // fetch.folding.out_pixels), step * fetch.folding.out_pixels
    places = np.arange(turns)[:, None] * step - one.pads[axis] + taps[None, :60]
    inside = (places >= 0) & (places < one.shape[axis])
    masks: list[int] = (inside.astype(np.int64) << np.arange(inside.shape[1])).sum(axis=1).tolist()
    return masks


def _tables_of_steps(fetch: Fetch, tables: list[GroupTable]) -> tuple[list[GroupTable], int] | None:
    """Return the tables of the first channels, and by how many places those of the next ones lie behind; None where one
    table of all is stored.
    """
    if not fetch.taps or len(tables[0].words) <= MAX_TABLE_WORDS:
        return None
    chunks, steps = fetch.inner
    present = np.logical_or.accumulate([table.used for table in reversed(tables)])[::-1].reshape(-1, chunks, steps)
    places = np.array([table.place for table in tables]).reshape(-1, chunks, steps)
    others = np.array([(table.row, table.column, table.slices) for table in tables]).reshape(-1, 3, chunks, steps)
    both = present[:, 0, 0] & present[:, 1, 0]
    if not both.any():
        return None
    lane = int(np.flatnonzero(both)[0])
    shift = int(places[lane, 1, 0] - places[lane, 0, 0]) % fetch.ring
    behind = (places[:, 1:] - places[:, :-1] - shift) % fetch.ring != 0
    if (present[:, 1:] & (behind | ~present[:, :-1])).any():
        return None
    if (present[:, None, 1:] & (others[:, :, 1:] != others[:, :, :-1])).any():
        return None
    size = 1 << counted(max(2, steps))
    return [table.first(size, steps) for table in tables], shift


def _tables(fetch: Fetch, wide: Sliding, per_pixel: int) -> list[GroupTable]:
    one, group, channels = fetch.sliding, fetch.group, fetch.sliding.shape[2]
    (down, _), kernel = wide.dilations, one.kernel
    turns = np.stack(np.meshgrid(*map(np.arange, fetch.inner), indexing="ij"), -1).reshape(-1, len(fetch.inner))
    numbers = np.zeros(len(turns), dtype=np.int64)
    for k, count in enumerate(fetch.inner):
        numbers = (numbers << counted(max(2, count))) + turns[:, k]
    tables = []
    for lane in range(0, fetch.folding.out_pixels * fetch.fetched, group):
        window, first = divmod(lane, fetch.fetched)
        if fetch.taps:
            lanes = fetch.fetched // fetch.taps
            tap = turns[:, 1] * fetch.taps + first // lanes
            row, column = np.divmod(tap, kernel[1])
            channel = turns[:, 0] // fetch.turns * lanes + first % lanes
            used = (channel < channels) & (tap < one.taps)
        else:
            element = turns[:, 0] * fetch.fetched + first
            row, column, channel = (
                element // (kernel[1] * channels),
                element // channels % kernel[1],
                element % channels,
            )
            used = element < kernel[0] * kernel[1] * channels
        at = window * one.strides[1] + column * one.dilations[1] - one.pads[1]
        groups, pixel = np.divmod(at, fetch.folding.in_pixels)
        beat, offset = np.divmod(channel, fetch.folding.in_lanes)
        address = ((row * down * wide.shape[1] + groups) * per_pixel + beat) % fetch.ring
        slices = (pixel * fetch.folding.in_lanes + offset) // group
        address, row, column, slices = (np.where(used, part, 0) for part in (address, row, column, slices))
        fields = address << 24 | slices << 12 | (row << 6 | column if any(one.pads) else 0)
        words, filled = np.zeros(numbers[-1] + 1, dtype=np.int64), np.zeros(numbers[-1] + 1, dtype=bool)
        words[numbers], filled[numbers] = fields, used
        tables.append(GroupTable(words, filled, used, address, row, column, slices))
    return tables
