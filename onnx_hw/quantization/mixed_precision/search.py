"""Search for the bit widths that reach a quality goal at the least cost.

A goal, samples, and the sensitivity and cost of each tensor go in; a scheme with the bits of every tensor comes out.
``post_training`` calls it.

The cost of each tensor at each width is known, and so, nearly, is the noise that it adds (``cost.py``,
``sensitivity.py``): a knapsack problem. It is solved with a price of noise (Lagrange multiplier); then the integers are
chosen, and the error on hold-out samples says by how much the noise was misjudged. This is repeated a few times; the
cheapest widths that reached the goal are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.quantization.decisions import IntegerDecisions
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.mixed_precision.sensitivity import NoiseTable, TensorKey
from onnx_hw.quantization.ranges.batched_run import Frame
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.samples.sqnr import MIN_POWER

WIDTHS = (4, 6, 8, 9, 10, 12, 16)
"""Offered widths, in bits."""

MAX_TRIES = 6
"""Greatest number of times that integers are chosen."""

TOLERANCE_DB = 0.25
"""Excess over the goal, in dB, at which the search stops."""

MIN_SAMPLES_TO_SPLIT = 4
"""Greatest number of samples that are not split: all of them both teach and judge."""

HOLD_OUT_STRIDE = 2
"""Hold-out split: of more samples, each one at this stride judges and the others teach. The final integers learn from
all samples, so new samples fare about as well.
"""

MAX_SQNR_SAMPLES = 64
"""Greatest number of samples for an SQNR goal; an accuracy goal needs all samples."""

SEARCH_RANGE_DB = 4.0, 60.0
"""Range of SQNR, in dB, in which the least one that keeps the classes right is searched."""

PRIOR_WEIGHT = 0.3
"""Weight of the prior that both kinds of noise are misjudged alike."""

CostTable = Mapping[TensorKey, Mapping[int, float]]


@dataclass(frozen=True)
class ChosenWidths:
    """Result of a search for bit widths.

    Attributes:
        scheme: scheme with the bits of every value and all weights.
        costs: look-up tables, as ``cost.py`` estimates them.
        sqnr_db: SQNR on the hold-out samples, less one standard error; infinite where nothing differs.
        accuracy_loss: loss in percentage points, as in ``Goal``; None without such a goal.
    """

    scheme: Scheme
    costs: float
    sqnr_db: float
    accuracy_loss: float | None = None

    def __str__(self) -> str:
        bits = [p.bits for p in (*self.scheme.data_overrides.values(), *self.scheme.weight_overrides.values())]
        reached = f"{min(bits)} to {max(bits)} bits reach {self.sqnr_db:.1f} dB"
        return (
            reached if self.accuracy_loss is None else f"{reached} and lose {self.accuracy_loss:.2f} points of accuracy"
        )


Quantize = Callable[[Scheme, Sequence[Frame], Sequence[Frame]], IntegerDecisions]
"""Function that chooses integers, from a scheme, samples to learn from, and hold-out samples."""


def _standard_error_factor(noises: np.ndarray | None) -> float:
    """Return the factor of noise for one standard error of its mean over samples.

    Of few samples, a rare one may make most of the noise, or be missing.
    """
    if noises is None or len(noises) < 2 or not noises.any():
        return 1.0
    return 1.0 + float(noises.std(ddof=1) / np.sqrt(len(noises)) / noises.mean())


@dataclass
class WidthSearch:
    """Search for the widths that reach a goal.

    Attributes:
        goal: quality that is to be reached.
        scheme: scheme whose overrides are kept.
        frames: samples, by graph input.
        labels: (samples,) classes; None where they are not known.
        ends: names of the logits.
        noises: noise that each tensor adds at each width.
        costs: cost of each tensor at each width.
        quantize: function that chooses the integers of a scheme.
        tried: widths that were measured so far.
        known: noise of each try: predicted of data and of weights, and measured.
    """

    goal: Goal
    scheme: Scheme
    frames: Sequence[Frame]
    labels: np.ndarray | None
    ends: Sequence[str]
    noises: NoiseTable
    costs: CostTable
    quantize: Quantize
    tried: list[ChosenWidths] = field(default_factory=list, init=False)
    known: list[tuple[float, float, float]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        numbers = np.arange(len(self.frames))
        if self.goal.sqnr_db is not None:
            numbers = numbers[:: -(-len(numbers) // MAX_SQNR_SAMPLES)]
        judges = numbers if len(numbers) <= MIN_SAMPLES_TO_SPLIT else numbers[HOLD_OUT_STRIDE - 1 :: HOLD_OUT_STRIDE]
        learned = numbers if len(numbers) <= MIN_SAMPLES_TO_SPLIT else np.setdiff1d(numbers, judges)
        if self.goal.sqnr_db is None:
            judges = numbers
        self.learned, self.judges = [self.frames[k] for k in learned], [self.frames[k] for k in judges]
        self.labels = None if self.labels is None else self.labels[judges]
        fixed = {TensorKey("data", name): p.bits for name, p in self.scheme.data_overrides.items()}
        fixed |= {TensorKey("weights", name): p.bits for name, p in self.scheme.weight_overrides.items()}
        self.offered = {place: (fixed[place],) if place in fixed else WIDTHS for place in self.noises}

    def run(self) -> ChosenWidths:
        """Return the cheapest widths that reach the goal.

        Raises:
            UserError: no width reaches it; the message says how near they come.
        """
        if self.goal.accuracy_loss is not None:
            chosen = self.search_accuracy(self.goal.accuracy_loss)
        else:
            assert self.goal.sqnr_db is not None
            chosen = self.search_sqnr(self.goal.sqnr_db)
        if chosen is None:
            raise self._missed()
        return chosen

    def _missed(self) -> UserError:
        best = max(self.tried, key=lambda one: (-(one.accuracy_loss or 0.0), one.sqnr_db))
        if self.goal.sqnr_db is None:
            asked = f"{self.goal.accuracy_loss:g} points of accuracy are to be lost at most"
            reached, option = f"{best.accuracy_loss:.2f}", "--accuracy-loss"
        else:
            asked = f"the outputs are to have {self.goal.sqnr_db:g} dB"
            reached, option = f"{best.sqnr_db:.1f} dB", "--sqnr"
        return user_error(
            "goal-missed",
            f"{asked}; integers of up to {WIDTHS[-1]} bits reach only {reached} on hold-out samples",
            where=option,
            hint="give more samples with --calibration, like the data; or ask for less",
            stage="quantize",
        )

    def search_sqnr(self, sqnr_db: float) -> ChosenWidths | None:
        """Return the cheapest widths that reach an SQNR; None if no widths do."""
        aim, seen = 10 ** (-(sqnr_db + TOLERANCE_DB / 3) / 10), set[tuple[int, ...]]()
        for last in (*[False] * (MAX_TRIES - 1), True):
            good = [one for one in self.tried if one.sqnr_db >= sqnr_db]
            widths = self._widest() if last and not good else self._cheapest(aim)
            if tuple(widths.values()) in seen or any(one.sqnr_db <= sqnr_db + TOLERANCE_DB for one in good):
                break
            seen.add(tuple(widths.values()))
            self._try(widths)
        good = [one for one in self.tried if one.sqnr_db >= sqnr_db]
        return min(good, key=lambda one: one.costs, default=None)

    def search_accuracy(self, most: float) -> ChosenWidths | None:
        """Return the cheapest widths that keep the loss of accuracy; less noise is assumed to lose less."""
        low, high = SEARCH_RANGE_DB
        good = []
        for _ in range(MAX_TRIES):
            one = self._try(self._cheapest(10 ** (-(low + high) / 20)))
            if one.accuracy_loss is not None and one.accuracy_loss <= most:
                good.append(one)
                high = (low + high) / 2
            else:
                low = (low + high) / 2
        if not good:
            self._try(self._widest())
            good = [one for one in self.tried if one.accuracy_loss is not None and one.accuracy_loss <= most]
        return min(good, key=lambda one: one.costs, default=None)

    def _try(self, widths: Mapping[TensorKey, int]) -> ChosenWidths:
        """Choose integers of these widths, measure them and remember the result."""
        single = {
            kind: {p.name: replace(usual, bits=bits) for p, bits in widths.items() if p.kind == kind}
            for kind, usual in (("data", self.scheme.data), ("weights", self.scheme.weights))
        }
        scheme = replace(self.scheme, goal=None, data_overrides=single["data"], weight_overrides=single["weights"])
        decisions = self.quantize(scheme, self.learned, self.judges)
        ends = {name: decisions.held[name].held for name in self.ends if name in decisions.held}
        noise = max(
            (
                _standard_error_factor(decisions.noises.get(name)) * end.noise / max(end.signal, MIN_POWER)
                for name, end in ends.items()
            ),
            default=0.0,
        )
        predicted = [sum(self.noises[p][bits] for p, bits in widths.items() if p.kind == kind) for kind in single]
        if noise > 0 and sum(predicted) > 0:
            self.known.append((predicted[0], predicted[1], noise))
        loss = None
        if self.goal.accuracy_loss is not None and decisions.classes is not None:
            floats, integers = decisions.classes
            right = floats if self.labels is None else self.labels
            loss = 100 * float((floats == right).mean() - (integers == right).mean())
        costs = sum(self.costs[place][bits] for place, bits in widths.items())
        self.tried.append(ChosenWidths(scheme, costs, -10 * np.log10(noise) if noise else np.inf, loss))
        return self.tried[-1]

    def _factors(self) -> dict[str, float]:
        """Estimate by which factor the noise of data and of weights exceeds the prediction, from all tries, the last
        above all.
        """
        if not self.known:
            return {"data": 1.0, "weights": 1.0}
        data, weights, noise = np.array(self.known).T
        common = noise[-1] / (data[-1] + weights[-1])
        rows = np.stack([data / noise, weights / noise], 1)
        counts = np.where(np.arange(len(rows)) == len(rows) - 1, 3.0, 1.0)[:, None]
        held = PRIOR_WEIGHT * np.eye(2) / common
        factors = np.linalg.lstsq(
            np.concatenate([rows * counts, held]), np.concatenate([counts[:, 0], np.full(2, PRIOR_WEIGHT)]), rcond=None
        )[0]
        factors = np.clip(factors, common / 8, common * 8)
        factors *= noise[-1] / (factors[0] * data[-1] + factors[1] * weights[-1])
        return {"data": float(factors[0]), "weights": float(factors[1])}

    def _widest(self) -> dict[TensorKey, int]:
        return {place: max(offered) for place, offered in self.offered.items()}

    def _cheapest(self, allowed: float) -> dict[TensorKey, int]:
        """Return the cheapest widths with at most the allowed noise, or the widest where that is not possible."""
        factors = self._factors()
        tables = {
            place: [(bits, self.costs[place][bits], factors[place.kind] * self.noises[place][bits]) for bits in offered]
            for place, offered in self.offered.items()
        }

        def at(price: float) -> dict[TensorKey, tuple[int, float, float]]:
            return {place: min(table, key=lambda one: one[1] + price * one[2]) for place, table in tables.items()}

        low, high = -20.0, 40.0  # base-2 logarithm of the price of all allowed noise
        for _ in range(40):
            middle = (low + high) / 2
            enough = sum(one[2] for one in at(2**middle / allowed).values()) <= allowed
            low, high = (low, middle) if enough else (middle, high)
        chosen = at(2**high / allowed)
        room = allowed - sum(one[2] for one in chosen.values())
        if room < 0:
            return self._widest()
        while True:  # spend the remaining noise
            steps = [
                (one[1] - other[1], place, other)
                for place, one in chosen.items()
                for other in tables[place]
                if other[1] < one[1] and other[2] - one[2] <= room
            ]
            if not steps:
                return {place: one[0] for place, one in chosen.items()}
            _, place, other = max(steps, key=lambda step: step[0])
            room -= other[2] - chosen[place][2]
            chosen[place] = other
