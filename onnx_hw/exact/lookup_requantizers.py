"""Requantizers without arithmetic, which exist for every step function: a table of values, a search of thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.step_function import Steps


@dataclass(frozen=True)
class LoadableTable:
    """Form of a table whose entries are loaded at run time.

    Attributes:
        channels: number of tables.
        clamp: the type of the arguments, each of which has an entry.
        entry: the type of an entry.
    """

    channels: int
    clamp: Int
    entry: Int

    @property
    def ends(self) -> tuple[int, int]:
        """Least and greatest result of a circuit of this form."""
        return self.entry.min, self.entry.max


@dataclass(frozen=True, eq=False)
class TableRequantizer:
    """Table with an entry for every argument: y = entries[channel, saturate(x) − clamp.min].

    Attributes:
        clamp: the type to which x saturates.
        entries: (channels, 2^clamp.bits) int64.
        low, high: bounds of the entries.
        form: types where the entries are loaded at run time; None where they are fixed.
    """

    clamp: Int
    entries: np.ndarray
    low: int
    high: int
    form: LoadableTable | None = None

    @property
    def channels(self) -> int:
        return len(self.entries)

    @property
    def entry_type(self) -> Int:
        """The type of an entry."""
        return Int.holding(self.low, self.high) if self.form is None else self.form.entry

    @property
    def bits(self) -> int:
        """Size of the memory."""
        return int(self.entries.size) * self.entry_type.bits

    def apply(self, channel: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Compute the circuit's results for pairs (channel, x); int64."""
        return self.entries[channel, np.clip(x, self.clamp.min, self.clamp.max) - self.clamp.min]


@dataclass(frozen=True, eq=False)
class ThresholdRequantizer:
    """Search of thresholds: y = low + number of thresholds that are at most saturate(x).

    The search is binary, with one comparison per bit of y.

    Attributes:
        clamp: the type to which x saturates; it holds every threshold.
        thresholds: (channels, 2^depth − 1) int64, ascending, filled up with ``clamp.max``.
        low, high: low + passed thresholds is clamped to ``high``, which makes the filling harmless.
    """

    clamp: Int
    thresholds: np.ndarray
    low: int
    high: int

    @property
    def channels(self) -> int:
        return len(self.thresholds)

    @property
    def depth(self) -> int:
        """Number of comparisons, one after the other."""
        return self.thresholds.shape[1].bit_length()

    @property
    def bits(self) -> int:
        """Size of the memories of all steps together."""
        return int(self.thresholds.size) * self.clamp.bits

    def apply(self, channel: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Compute the circuit's results for pairs (channel, x); int64."""
        saturated = np.clip(x, self.clamp.min, self.clamp.max)
        passed = np.zeros(saturated.shape, dtype=np.int64)
        for step in reversed(range(self.depth)):
            middle = passed + (1 << step) - 1
            passed += np.where(saturated >= self.thresholds[channel, middle], 1 << step, 0)
        return np.minimum(self.low + passed, self.high)


def table(exact: Steps, form: LoadableTable | None = None) -> TableRequantizer:
    """Build the table of the values of every argument that matters; of every argument of a form, if there is one."""
    clamp = Int.holding(*exact.active_range) if form is None else form.clamp
    x = np.clip(np.arange(clamp.min, clamp.max + 1), exact.first, exact.last)
    entries = np.stack([exact.at(np.full(len(x), c), x) for c in range(exact.channels)])
    return TableRequantizer(clamp, entries, exact.low, exact.high, form)


def table_in_form(exact: Steps, form: LoadableTable) -> TableRequantizer | None:
    """Build the table of a form; None where the function has other channels, arguments or values."""
    fits = form.clamp.min <= exact.first <= exact.last <= form.clamp.max
    fits = fits and form.entry.min <= exact.low <= exact.high <= form.entry.max
    return table(exact, form) if fits and exact.channels == form.channels else None


def thresholds(exact: Steps) -> ThresholdRequantizer:
    """Build the search of the step function's thresholds, whose number is that of the search's places.

    A threshold that no argument reaches stands behind the last argument, so that then nothing saturates at the top.
    """
    low, high = exact.active_range
    clamp = Int.holding(low, high if exact.reached.all() else exact.last + 1)
    depth = max(1, (exact.high - exact.low).bit_length())
    rows = np.full((exact.channels, (1 << depth) - 1), clamp.max, dtype=np.int64)
    rows[:, : exact.high - exact.low] = np.clip(exact.thresholds, clamp.min, clamp.max)
    return ThresholdRequantizer(clamp, rows, exact.low, exact.high)
