"""Requantization with one multiplication: y = clamp((saturate(x)·m + c) >> S, low, high), and the search for m, c, S.

The zero point, the bias and the rounding are all in c. S is common to the layer, m and c belong to a channel. Equality
with the thresholds T_k of the exact function is, for every k that some x reaches or misses,

    T_k·m + c ≥ D_k     and     (T_k − 1)·m + c < D_k,     D_k = k·2^S,

so for a given m the addends form the interval max(D_k − T_k·m) ≤ c ≤ min(D_k − 1 − (T_k − 1)·m). Its length is a
concave function of m, so the least m with a non-empty one is found by Newton's method from the left, in integers. It is
as short as can be. Of the multipliers no longer than the longest of the layer, the one whose interval is widest is
taken: it contains an addend with more zeros at its end, and those need not be stored.

Ties. With multipliers like 2^−5 every step of the exact function is a tie (half to even), and the thresholds lie
alternately on and behind a line: no m and c exist. The circuit then subtracts 2^e from the sum before the shift where
bit S of the sum shows a value k of the parity that a tie does not reach. That only moves those steps,
D_k = k·2^S + 2^e, and the search stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnx_hw.exact.convex_hull import corners
from onnx_hw.exact.integers import Int
from onnx_hw.exact.loadable_line import LoadableLine, digits_of, greatest_multiplier
from onnx_hw.exact.step_function import Steps

WIDEST_MULTIPLIER = 36
"""Greatest width of a multiplier, in bits; real networks with results of 8 bits need 33 at most."""

WIDEST_FOR_WIDE_RESULTS = 48
"""Greatest width on a second try, for results of more than 8 bits: 65,535 steps that share one line take wider ones."""

_INT64_SAFE = 60
"""Bound of every product of the search: below 2^60 it, and twice its sum, stays within int64."""

TieBit = Callable[[int], int | None]
"""Bit e of the tie correction for a shift S; None without correction."""


@dataclass(frozen=True, eq=False)
class MultiplyAddShift:
    """Requantizer y = clamp((t − correction) >> shift, low, high) with t = saturate(x)·multiplier + addend.

    Attributes:
        clamp: the type to which x saturates.
        multipliers: (channels,) object array of ints, not negative.
        addends: (channels,) object array of ints.
        shift: S.
        low, high: the result is clamped to this range.
        tie_bit: e; None where no correction is needed, so that ``correction`` is 0.
        tie_parity: the correction is 2^e where bit S of t equals this, else 0.
        form: widths of the constants where they are loaded at run time; None where they are fixed.
    """

    clamp: Int
    multipliers: np.ndarray
    addends: np.ndarray
    shift: int
    low: int
    high: int
    tie_bit: int | None = None
    tie_parity: int = 1
    form: LoadableLine | None = None

    @property
    def channels(self) -> int:
        return len(self.multipliers)

    @cached_property
    def multiplier_type(self) -> Int:
        """Type that holds every multiplier."""
        if self.form is not None:
            return Int.holding(0, greatest_multiplier(self.form.digits))
        return Int.holding(0, int(self.multipliers.max()))

    @cached_property
    def addend_type(self) -> Int:
        """Type that holds every addend."""
        if self.form is not None:
            return self.form.addend
        return Int.holding(int(self.addends.min()), int(self.addends.max()))

    @property
    def bounds_type(self) -> Int | None:
        """Type of the bounds where they are loaded at run time; None where they are fixed."""
        return Int.holding(self.form.low, self.form.high) if self.form is not None and self.form.loads_bounds else None

    @cached_property
    def sum_type(self) -> Int:
        """Type of x·m, t and the corrected t for every saturated x and every channel; always signed."""
        if self.form is not None:
            return Int(self.form.addend.bits + 1)
        correction = 0 if self.tie_bit is None else 1 << self.tie_bit
        pairs = list(zip(self.multipliers, self.addends, strict=True))
        low = min(self.clamp.min * m + min(c, 0) for m, c in pairs) - correction
        high = max(self.clamp.max * m + max(c, 0) for m, c in pairs)
        return Int(Int.holding(min(low, -1), max(high, 0)).bits)

    @cached_property
    def addend_bits(self) -> int:
        """Number of bits of an addend, without those that are 0 in every channel."""
        if self.form is not None:
            return self.form.addend.bits - self.form.zeros
        places = [(int(c) & -int(c)).bit_length() - 1 for c in self.addends if c]
        return max(1, self.addend_type.bits - min(places, default=0))

    @cached_property
    def digits(self) -> int:
        """Number of digits of the longest multiplier."""
        if self.form is not None:
            return self.form.digits
        return digits_of(int(self.multipliers.max()))

    @cached_property
    def mean_nonzero_digits(self) -> float:
        """Number of digits other than 0 in a multiplier, on average over the channels."""
        rest, count = self.multipliers.astype(np.int64), 0
        while rest.any():
            count += int(np.count_nonzero(rest % 4))
            rest = (rest + 1) // 4  # after the digits −1, 0, 1, 2
        return count / self.channels

    def rows(self, steps: int) -> int:
        """Return the number of digits multiplied at the same time when a beat takes this number of steps."""
        return -(-self.digits // steps)

    @cached_property
    def useful_steps(self) -> tuple[int, ...]:
        """Numbers of steps, ascending, that fewer steps with the same number of rows cannot replace."""
        return tuple(sorted({-(-self.digits // rows) for rows in range(1, self.digits + 1)}))

    def apply(self, channel: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Compute the circuit's results for pairs (channel, x), with its exact integers; int64."""
        dtype = np.int64 if self.sum_type.bits <= 63 else object
        saturated = np.clip(x, self.clamp.min, self.clamp.max).astype(dtype)
        t = saturated * self.multipliers.astype(dtype)[channel] + self.addends.astype(dtype)[channel]
        if self.tie_bit is not None:
            t = t - np.where((t >> self.shift) % 2 == self.tie_parity, 1 << self.tie_bit, 0)
        return np.clip(t >> self.shift, self.low, self.high).astype(np.int64)


def find(exact: Steps, clamp: Int | None = None) -> MultiplyAddShift | None:
    """Find the circuit with the least shift, hence the narrowest multipliers.

    None if ``WIDEST_MULTIPLIER`` is too narrow; results of more than 8 bits may have multipliers of
    ``WIDEST_FOR_WIDE_RESULTS``.

    Args:
        clamp: the type to which x saturates; None for the narrowest one beyond which the function is constant.
    """
    clamp = clamp or Int.holding(*exact.active_range)
    circuit = _find_within(exact, WIDEST_MULTIPLIER, clamp)
    if circuit is None and exact.high - exact.low >= 1 << 8:
        circuit = _find_within(exact, WIDEST_FOR_WIDE_RESULTS, clamp)
    return circuit


def _find_within(exact: Steps, widest: int, clamp: Int) -> MultiplyAddShift | None:
    """Search with multipliers of at most ``widest`` bits."""
    if exact.low == exact.high:
        zeros = np.zeros(exact.channels, dtype=object)
        return MultiplyAddShift(clamp, zeros, zeros + exact.low, 0, exact.low, exact.high)
    constraints = _Constraints.of(exact, widest, clamp)
    for tie_bit in constraints.tie_bits():
        solution = constraints.least_shift(tie_bit)
        if solution is None:
            continue
        shift, multipliers = solution
        bit = tie_bit(shift)
        multipliers = constraints.roomiest_multipliers(multipliers, shift, bit)
        addends = constraints.addends(multipliers, shift, bit)
        return MultiplyAddShift(
            clamp, multipliers.astype(object), addends, shift, exact.low, exact.high, bit, exact.parity
        )
    return None


def find_in_form(exact: Steps, form: LoadableLine) -> MultiplyAddShift | None:
    """Find constants of a form for which its circuit computes a function; None where there are none."""
    if not form.admits(exact):
        return None
    constraints = _Constraints.of(exact, greatest_multiplier(form.digits).bit_length(), form.clamp)
    try:
        least = constraints.least_multipliers(form.shift, None)
    except _TooWide:
        return None
    if least is None:
        return None
    multipliers = constraints.roomiest_multipliers(least, form.shift, None)
    addends = constraints.addends(multipliers, form.shift, None, form.addend)
    fits = [
        m <= greatest_multiplier(form.digits) and c is not None and c % (1 << form.zeros) == 0
        for m, c in zip(multipliers.tolist(), addends.tolist(), strict=True)
    ]
    if not all(fits):
        return None
    return MultiplyAddShift(
        form.clamp,
        multipliers.astype(object),
        addends,
        form.shift,
        exact.low,
        exact.high,
        tie_parity=exact.parity,
        form=form,
    )


def _deepest_shift(exact: Steps, widest: int) -> int:
    """Return a shift at which some channel needs a multiplier wider than ``widest``, if any does.

    n steps from T_j to T_k take a slope of more than (n − 1)/(T_k − T_j + 1); a tie correction moves one of them.
    """
    real = exact.reached & exact.missed
    count = real.sum(axis=1)
    first = np.where(real, exact.thresholds, exact.last + 1).min(axis=1)
    last = np.where(real, exact.thresholds, exact.first).max(axis=1)
    widths = [(int(b - a) + 1) // max(int(n) - 2, 1) for a, b, n in zip(first, last, count, strict=True) if n > 1]
    return widest + min(widths, default=0).bit_length()


def _alternation(exact: Steps) -> int:
    """Return how far, in x, steps to odd values and to even ones are apart; in a rounded line by 1 at most."""
    row = exact.thresholds[0][(exact.reached & exact.missed)[0]]
    return int(np.median(np.abs(np.diff(row, 2)))) // 2 if len(row) > 2 else 0


class _TooWide(Exception):
    """Error: every feasible multiplier is wider than the search allows."""


@dataclass(frozen=True, eq=False)
class _Constraints:
    """Linear constraints of one layer: a row per channel, a column per value k that may bind.

    Attributes:
        thresholds: T_k.
        levels: k, ascending.
        odd: bool, whether k has the parity that a tie does not reach.
        reached, missed: bool, whether the constraint on T_k and the one on T_k − 1 exist.
        deepest: the greatest shift that is tried.
        steps_per_level: the steps of x to one of y.
        moved: the distance in x by which every second step is moved already.
        widest: the greatest width of a multiplier, in bits.
    """

    thresholds: np.ndarray
    levels: np.ndarray
    odd: np.ndarray
    reached: np.ndarray
    missed: np.ndarray
    deepest: int
    steps_per_level: int
    moved: int
    widest: int

    @classmethod
    def of(cls, exact: Steps, widest: int, clamp: Int | None = None) -> _Constraints:
        clamp = clamp or Int.holding(*exact.active_range)
        low, high = max(exact.first, clamp.min), min(exact.last, clamp.max)  # what x is after saturation
        levels = np.arange(exact.low + 1, exact.high + 1, dtype=np.int64)
        deepest = _deepest_shift(exact, widest)
        product = max(abs(low), abs(high) + 1).bit_length() + widest
        target = int(np.abs(levels).max()).bit_length() + deepest
        dtype = np.int64 if max(product, target) < _INT64_SAFE else object
        thresholds = np.clip(exact.thresholds, low, high + 1)
        odd = levels % 2 == exact.parity
        columns = corners(thresholds, odd, exact.reached, exact.missed)
        real = np.where(exact.reached & exact.missed, thresholds, thresholds.min())
        return cls(
            np.take_along_axis(thresholds, columns, axis=1).astype(dtype),
            levels[columns].astype(dtype),
            odd[columns],
            np.take_along_axis(exact.reached, columns, axis=1),
            np.take_along_axis(exact.missed, columns, axis=1),
            deepest,
            int((real.max(axis=1) - real.min(axis=1)).max()) // len(levels),
            _alternation(exact),
            widest,
        )

    def tie_bits(self) -> Iterator[TieBit]:
        """Return the corrections to try, the plainest first.

        Bit 0 serves multipliers that are exact (m = M·2^S). Others, such as 1/36, need a correction of about M/2, half
        a step of x.
        """
        yield lambda shift: None
        yield lambda shift: 0
        if self.moved > 1:
            behind = (self.steps_per_level // self.moved).bit_length()
            for below in range(behind - 1, behind + 1):
                yield lambda shift, below=below: max(0, shift - below)  # type: ignore[misc]
        bits = self.steps_per_level.bit_length()
        for below in range(bits, bits + 3):
            yield lambda shift, below=below: max(0, shift - below)  # type: ignore[misc]

    def least_shift(self, tie_bit: TieBit) -> tuple[int, np.ndarray] | None:
        """Find the least shift for which every channel has a multiplier, and the least multipliers for it.

        By bisection: a solution for S, doubled, is one for S + 1.
        """
        low, high, best = 0, self.deepest, None
        while low <= high:
            shift = (low + high) // 2
            try:
                multipliers = self.least_multipliers(shift, tie_bit(shift))
            except _TooWide:
                high = shift - 1
                continue
            if multipliers is None:
                low = shift + 1
            else:
                best, high = (shift, multipliers), shift - 1
        return best

    def least_multipliers(self, shift: int, tie_bit: int | None) -> np.ndarray | None:
        """Return the least feasible multipliers, (channels,); None if some channel has none for this shift."""
        channels = np.arange(len(self.thresholds))
        multipliers = np.zeros(len(channels), dtype=self.thresholds.dtype)
        while True:
            lower, upper = self.bounds(multipliers, shift, tie_bit)
            j, k = lower.argmax(axis=1), upper.argmin(axis=1)
            two_sided = self.reached[channels, j] & self.missed[channels, k]
            gap = np.where(two_sided, lower[channels, j] - upper[channels, k], 0)
            empty = gap > 0
            if not empty.any():
                return multipliers
            # the gap is convex in m, so a unit of m closes at most what it closes here: a tangent
            closes = (self.thresholds[channels, j] - self.thresholds[channels, k] + 1)[empty]
            if (closes <= 0).any():
                return None
            multipliers[empty] += -(-gap[empty] // closes)
            if (multipliers >> self.widest).any():
                raise _TooWide

    def roomiest_multipliers(self, least: np.ndarray, shift: int, tie_bit: int | None) -> np.ndarray:
        """Return the multipliers that leave the addends most room, (channels,).

        They are sought from the least on and are not wider than the widest of those. The room is concave in m, and the
        two constraints that bound it show on which side of m it grows.
        """
        channels = np.arange(len(least))
        widest = int(least.max())
        highest = min((1 << widest.bit_length()) - 1, greatest_multiplier(digits_of(widest)))
        low, high = least.copy(), np.where(self.reached.any(axis=1) & self.missed.any(axis=1), highest, least)
        while (high - low > 1).any():
            middle = (low + high) // 2
            lower, upper = self.bounds(middle, shift, tie_bit)
            j, k = lower.argmax(axis=1), upper.argmin(axis=1)
            grows = self.thresholds[channels, j] - self.thresholds[channels, k] + 1 > 0
            low, high = np.where(grows, middle, low), np.where(grows, high, middle)
        rooms = []
        for multipliers in (low, high):
            lower, upper = self.bounds(multipliers, shift, tie_bit)
            rooms.append(upper.min(axis=1) - lower.max(axis=1))
        return np.where(rooms[1] > rooms[0], high, low)

    def bounds(self, multipliers: np.ndarray, shift: int, tie_bit: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the greatest c that every constraint allows."""
        targets = self.levels * (1 << shift) + self.odd * (0 if tie_bit is None else 1 << tie_bit)
        at_least = targets - self.thresholds * multipliers[:, np.newaxis]
        at_most = at_least + multipliers[:, np.newaxis] - 1
        beyond = 1 << 62 if self.thresholds.dtype == np.int64 else 1 << 512
        return np.where(self.reached, at_least, -beyond), np.where(self.missed, at_most, beyond)

    def addends(
        self, multipliers: np.ndarray, shift: int, tie_bit: int | None, within: Int | None = None
    ) -> np.ndarray:
        """Return the feasible addends with the most trailing zeros, (channels,): what is added is narrow.

        Args:
            within: their type, None for any; where it has no feasible addend, there is None.
        """
        lower, upper = self.bounds(multipliers, shift, tie_bit)
        intervals = list(zip(lower.max(axis=1).tolist(), upper.min(axis=1).tolist(), strict=True))
        if within is not None:
            intervals = [(max(low, within.min), min(high, within.max)) for low, high in intervals]
        return np.array([roundest_within(low, high) if low <= high else None for low, high in intervals], dtype=object)


def roundest_within(low: int, high: int) -> int:
    """Return the multiple of the greatest power of two within ``low..high``."""
    bits = 0
    while -(-low >> bits + 1) << bits + 1 <= high:
        if bits > 600:
            return 0
        bits += 1
    return -(-low >> bits) << bits
