"""How a rearrangement walks over its result: loops whose tables are small, and what each turn of them waits for.

Output beats are numbered in stream order, 0 .. n - 1. Any three factors of n are loops over them, (rows, columns, beats
of a pixel) being the natural ones. Loops *separate* the data when the stored beat that an operation reads is the sum of
three numbers, one per loop; then three short tables replace one of n words. (1, 1, n) always does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, prod

import numpy as np

from onnx_hw.exact.requantization import BLOCK_RAMS, LUTS_PER_BLOCK_RAM
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.operator import Resources
from onnx_hw.ops.stream_order import Order
from onnx_hw_boards.families.yosys_mapping import fewest_blocks

FILL, UNUSED = -1, -2
"""Numbers instead of a stored beat: the lane gets a constant; the lane is behind the last channel of its pixel."""

Loops = tuple[int, int, int]

DEEPEST_IN_LOGIC = 256
"""Words of a table made of look-up tables."""

MAX_COMBINATION_BITS = 10
"""Bits that choose what a beat is made of, when more than one loop has a say."""

MAX_CANDIDATES = 12
"""Loops whose cost is computed, those with the shortest tables."""

MAX_BLOCK_RAMS = 512
"""Block RAMs beyond which the cost of the tables does not matter; no chip has that many."""

_SOME = np.random.Generator(np.random.PCG64(0)).integers(1 << 40, size=512)
"""Operations at which most loops that do not separate the data show it."""

_FACTORS = np.random.Generator(np.random.PCG64(1)).integers(1 << 63, size=4096, dtype=np.uint64)
"""Factors with which the entries of a short row make a number that most other rows do not make."""


def places(source: np.ndarray, given: Order, made: Order) -> tuple[np.ndarray, np.ndarray]:
    """Return (operations, out_lanes) int32 twice: the stored beat of each lane (or FILL, UNUSED), and its lane."""
    flat = np.where(made.elements < 0, UNUSED, source[made.elements])
    there, constant = np.maximum(flat, 0), flat < 0
    of_operand = np.divmod(given.places.reshape(-1).astype(np.int32), np.int32(given.width))
    beats, lanes = (np.where(constant, flat, part[there]).astype(np.int32) for part in of_operand)
    return beats, lanes


@dataclass(frozen=True)
class RingPort:
    """Output lanes that always come out of the same stored beat: one copy of the ring, one address.

    Attributes:
        beats: (operations,) the beat that is read, negative where none is.
        stored: lanes of a beat that some output lane wants.
    """

    beats: np.ndarray
    stored: frozenset[int]

    @cached_property
    def reads(self) -> np.ndarray:
        """(operations,) bool: whether one is."""
        return self.beats >= 0


def ports(streams: np.ndarray, lanes: np.ndarray) -> list[RingPort]:
    """Assign each lane to the first port that agrees, else to a new one. Lanes that are always constant have none.

    Args:
        streams: the beats of each lane.
        lanes: see ``places``.
    """
    ports: list[RingPort] = []
    for stream, lane in zip(streams, lanes.T, strict=True):
        real = stream >= 0
        if not real.any():
            continue
        wanted = frozenset(np.flatnonzero(np.bincount(lane[real])).tolist())
        for k, port in enumerate(ports):
            if ((stream == port.beats) | ~(real & port.reads)).all():
                merged = np.maximum(port.beats, stream)
                ports[k] = RingPort(merged, port.stored | wanted)
                break
        else:
            ports.append(RingPort(np.maximum(stream, FILL), wanted))
    return ports


@dataclass(frozen=True, eq=False)
class RearrangeTrace:
    """Needs of a folding, whatever the loops.

    Attributes:
        beats, lanes: see ``places``.
        stored: beats of the operand.
        bits: of an element.
    """

    beats: np.ndarray
    lanes: np.ndarray
    stored: int
    bits: int

    @property
    def operations(self) -> int:
        return len(self.beats)

    @cached_property
    def _streams(self) -> np.ndarray:
        """(out_lanes, operations) int32: ``beats``, lane by lane."""
        return np.ascontiguousarray(self.beats.T)

    @cached_property
    def ports(self) -> list[RingPort]:
        return ports(self._streams, self.lanes)

    @cached_property
    def patterns(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct rows of ``lanes``: what a beat is made of; and which of them each operation has."""
        kinds = int(self.lanes.max()) - UNUSED + 1
        if kinds ** self.lanes.shape[1] < 1 << 62:  # a row as one number
            rows = np.zeros(self.operations, dtype=np.int64)
            for column in self.lanes.T:
                rows = rows * kinds + (column - UNUSED)
        else:
            rows = np.ascontiguousarray(self.lanes).view(f"V{4 * self.lanes.shape[1]}").reshape(-1)
        _, first, index = np.unique(rows, return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(first))  # in the order of their first appearance
        number = number.astype(np.min_scalar_type(len(first)))
        return self.lanes[np.sort(first)], number[index]

    @cached_property
    def choices(self) -> int:
        """Bits that choose a pattern: lanes that change together share them."""
        columns = [column for column in self.patterns[0].T if len(set(column.tolist()) - {UNUSED}) > 1]
        return sum(max(labels).bit_length() for labels in {_numbered(column) for column in columns})

    @cached_property
    def selected(self) -> int:
        """Inputs of the multiplexers, all lanes together, beyond the first of each lane."""
        return sum(max(0, len(set(column.tolist()) - {UNUSED}) - 1) for column in self.patterns[0].T)

    def turns(self, count: int) -> OuterTurns:
        """Return the needs and releases of an outer loop of ``count`` turns."""
        if count not in self._turns:
            last, first = self._reach[0].reshape(count, -1).max(axis=1), self._reach[1].reshape(count, -1).min(axis=1)
            later = np.minimum.accumulate(np.append(first[1:], self.stored)[::-1])[::-1].astype(np.int64)
            needs = np.maximum.accumulate(np.maximum(last, -1)).astype(np.int64)
            self._turns[count] = OuterTurns(needs, later, self.operations // count, self.stored)
        return self._turns[count]

    @cached_property
    def _turns(self) -> dict[int, OuterTurns]:
        return {}

    @cached_property
    def _reach(self) -> tuple[np.ndarray, np.ndarray]:
        """Per operation the last beat it reads, negative if none, and the first, ``stored`` if none."""
        return self._streams.max(axis=0), np.where(self._streams < 0, self.stored, self._streams).min(axis=0)

    def classes(self, loops: Loops) -> tuple[int, int, int]:
        """Return, per loop, how many kinds of turns there are as far as patterns go."""
        if not self.choices:
            return 1, 1, 1
        outer, middle, inner = (self._kinds(prod(loops[:axis]), count) for axis, count in enumerate(loops))
        return outer, middle, inner

    def _kinds(self, before: int, count: int) -> int:
        """Return the kinds of turns of a loop of some turns within others of ``before`` turns."""
        key = before, count
        if key not in self._known_kinds:
            grid = self.patterns[1].reshape(before, count, -1)
            self._known_kinds[key] = _distinct(np.moveaxis(grid, 1, 0).reshape(count, -1))
        return self._known_kinds[key]

    @cached_property
    def _known_kinds(self) -> dict[tuple[int, int], int]:
        return {}


@dataclass(frozen=True)
class RearrangePlan:
    """The loops of a folding and their cost.

    Attributes:
        loops: outer, middle, inner; their product is the number of output beats.
        turns: of the outer loop.
        tables: LUTs and block RAMs of what says where data lie.
    """

    walk: RearrangeTrace
    loops: Loops
    turns: OuterTurns
    tables: Resources

    def resources(self, capacity: int) -> Resources:
        """Estimate the cost with a ring of ``capacity`` beats, roughly, to compare loops."""
        walk = self.walk
        address = (max(2, capacity) - 1).bit_length()
        used = Resources(lut=70 + walk.bits * walk.selected * 9 // 8)
        for port in walk.ports:
            width = walk.bits * len(port.stored)
            blocks = _blocks(width, capacity)
            memory = 0 if blocks else -(-width // 4) * -(-capacity // 16) * 6
            used += Resources(lut=memory + address, bram=blocks)
        return used + self.tables


def plan(walk: RearrangeTrace, natural: Loops) -> RearrangePlan:
    """Return the cheapest of the loops that separate the data; the natural ones where they do and have many turns."""
    plans = []
    for loops in _candidates(walk.operations, natural):
        tables = _tables(walk, loops)
        if tables is None:
            continue
        one = RearrangePlan(walk, loops, walk.turns(loops[0]), tables)
        if loops == natural and 8 <= loops[0] <= DEEPEST_IN_LOGIC:
            return one
        if one.resources(one.turns.rate_capacity).bram >= MAX_BLOCK_RAMS:
            return one
        plans.append(one)
        if len(plans) == MAX_CANDIDATES:
            break
    plans.append(
        RearrangePlan(walk, last := (1, 1, walk.operations), walk.turns(1), _tables(walk, last) or Resources())
    )

    def cost(one: RearrangePlan) -> int:
        used = one.resources(one.turns.rate_capacity)
        return used.lut + LUTS_PER_BLOCK_RAM * used.bram

    return min(plans, key=cost)


def plan_of_loops(walk: RearrangeTrace, loops: Loops) -> RearrangePlan:
    """Return the plan with loops that separate the data."""
    tables = _tables(walk, loops)
    assert tables is not None
    return RearrangePlan(walk, loops, walk.turns(loops[0]), tables)


def _candidates(operations: int, natural: Loops) -> Iterator[Loops]:
    """Yield the natural loops, then all others, those with short tables first."""
    yield natural
    small = [d for d in range(1, isqrt(operations) + 1) if operations % d == 0]
    divisors = sorted({*small, *(operations // d for d in small)})
    triples = [(a, b, operations // a // b) for a in divisors for b in divisors if operations // a % b == 0]
    yield from sorted((t for t in triples if t != natural), key=lambda t: (sum(t), t))


def _tables(walk: RearrangeTrace, loops: Loops) -> Resources | None:
    """Return the cost of the tables that say where data lie; None unless the loops separate it."""
    parts = []
    for port in walk.ports:
        if (split := separate(port, loops)) is None:
            return None
        parts.append(split)
    classes = walk.classes(loops)
    wide = [(count - 1).bit_length() for count in classes]
    several = sum(count > 1 for count in classes) > 1
    if several and sum(wide) > MAX_COMBINATION_BITS:
        return None
    used = _table(walk.choices, 1 << sum(wide)) if several else Resources()
    address = max(1, (walk.turns(loops[0]).rate_capacity - 1).bit_length())
    for axis, length in enumerate(loops):
        moving = [split[axis] for split in parts if split[axis].any()]
        distinct = len({each.tobytes() for each in moving}) if len(moving) > 1 else len(moving)
        chosen = wide[axis] if several else walk.choices if classes[axis] > 1 else 0
        used += _table(distinct * address + chosen, length)
    steps = walk.turns(loops[0])
    changes = sum(_irregular(np.diff(values, prepend=0)) for values in (steps.needs, steps.released))
    return used + Resources(lut=2 * changes)


def separate(port: RingPort, loops: Loops) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return three tables whose sum is the beat that is read, wherever one is; None if no such tables exist."""
    grid = port.beats.reshape(loops)
    real = port.reads.reshape(loops)
    r, c, b = np.unravel_index(int(real.argmax()), loops)
    outer = np.where(real[:, c, b], grid[:, c, b] - grid[r, c, b], 0)
    middle = np.where(real[r, :, b], grid[r, :, b] - grid[r, c, b], 0)
    inner = np.where(real[r, c, :], grid[r, c, :], 0)
    some = np.unravel_index(_SOME % grid.size, loops)
    if (outer[some[0]] + middle[some[1]] + inner[some[2]] != grid[some])[real[some]].any():
        return None
    total = outer[:, None, None] + middle[:, None] + inner
    return (outer, middle, inner) if ((total == grid) | ~real).all() else None


def _distinct(rows: np.ndarray) -> int:
    """Return how many different rows there are."""
    if rows.shape[1] <= _FACTORS.size:
        sums = rows.astype(np.uint64) @ _FACTORS[: rows.shape[1]]
        _, first, like = np.unique(sums, return_index=True, return_inverse=True)
        if np.array_equal(rows, rows[first][like]):
            return len(first)
    return len({row.tobytes() for row in rows})


def _numbered(column: np.ndarray) -> tuple[int, ...]:
    """Return the distinct entries in the order of their first appearance: alike for columns that change together."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(entry, len(numbers)) for entry in column.tolist())


def _table(width: int, words: int) -> Resources:
    if width == 0 or words == 1:
        return Resources()
    if words <= DEEPEST_IN_LOGIC:
        return Resources(lut=width * -(-words // 32))
    return Resources(bram=_blocks(width, words))


def _blocks(width: int, depth: int) -> int:
    """Return the block RAMs of a memory; small ones are distributed memory."""
    return 0 if depth * width <= 16 * 64 or depth <= 32 else fewest_blocks(BLOCK_RAMS, width, depth)[0]


def _irregular(steps: np.ndarray) -> int:
    """Return the turns that take another step than most."""
    return len(steps) - int(np.unique(steps, return_counts=True)[1].max())


@dataclass(frozen=True)
class OuterTurns:
    """Needs and releases of each turn of the outer loop: what all its operations wait for, and what has been given back
    after it.

    Attributes:
        needs: (turns,) the last beat that this turn or one before it reads, -1 if none.
        released: (turns,) beats that no later turn reads, as a prefix; all of them after the last turn.
        operations: of a turn.
        stored: beats of the operand.
    """

    needs: np.ndarray
    released: np.ndarray
    operations: int
    stored: int

    @property
    def kept_from(self) -> np.ndarray:
        """The first beat that is still held during each turn."""
        return np.concatenate([[0], self.released[:-1]])

    def numbers(self) -> tuple[AffineSequence, AffineSequence, AffineSequence]:
        """Return the operations that wait for a later beat, these beats, and per beat the operation that returns it."""
        waiting = np.flatnonzero(np.diff(self.needs, prepend=-1) > 0)
        starts, beats = waiting * self.operations, self.needs[waiting]
        counts = np.diff(self.released, prepend=0)
        (freeing,) = counts.nonzero()
        releases = AffineSequence.repeated((freeing + 1) * self.operations - 1, counts[freeing])
        return AffineSequence.rows(starts, [0]), AffineSequence.rows(beats, [0]), releases

    @property
    def live_capacity(self) -> int:
        return max(1, int(np.max(self.needs + 1 - self.kept_from)))

    @cached_property
    def rate_capacity(self) -> int:
        """Beats with which neither engine waits at the interval of the busier one; a power of two, as memory is.

        Enough is what admits one schedule without a pause: beat b is written in cycle b · I // N, operation k fires in
        cycle d + k · I // n, with d the least that lets no turn begin before its last beat is there. Then, before the
        end of each turn, the writer must have had room for all it wrote. In addition, a turn finds room to the end of
        what the next one reads, so that bursts do.
        """
        turns, stored = len(self.needs), self.stored
        n = turns * self.operations
        interval = max(n, stored)
        begins = np.arange(turns) * self.operations * interval // n
        ends = ((np.arange(turns) + 1) * self.operations - 1) * interval // n
        waits = self.needs >= 0
        delay = int(np.max((self.needs * interval // stored + 1 - begins)[waits]))
        evenly = -(-(delay + ends + 1) * stored // interval) - self.kept_from
        following = np.append(self.needs[1:], stored + self.needs[0]) + 1 - self.kept_from
        return 1 << (max(2, int(evenly.max()), int(following.max())) - 1).bit_length()
