"""The widths of the integers of a float model that reach a goal at least cost.

What each tensor costs at each width is known, and so is nearly what it adds to the noise (``cost_of_widths.py``,
``noise_of_widths.py``): a knapsack. It is solved with a price of noise, the integers are chosen by their effect, and
what is lost on samples that nothing was learned from says by how much the noise was misjudged. So it goes on a few
times; the cheapest widths that reached the goal are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.messages.errors import user_error
from onnx_hw.quantization.decisions import IntegerDecisions
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.mixed_precision.sensitivity import NoiseTable, TensorKey
from onnx_hw.quantization.ranges.batched_run import Frame
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.samples.sqnr import MIN_POWER

WIDTHS = (4, 6, 8, 9, 10, 12, 16)
"""Bits."""

TRIES = 6
"""Times that integers are chosen."""

CLOSE_DB = 0.25
"""A goal that is passed by no more is reached well enough."""

FEW = 4
"""So many samples or less are not divided into those to learn from and those to judge by."""

EVERY = 2
"""Of more, every so many-th one judges: all of them teach in the end, so that new samples fare about as well."""

MOST_SAMPLES = 64
"""For a signal to noise; a share of right classes needs all there are."""

SEARCHED_DB = 4.0, 60.0
"""Signal to noise among which that is looked for at which classes stay right."""

HELD = 0.3
"""How much is held to both kinds of noise being misjudged alike."""

CostTable = Mapping[TensorKey, Mapping[int, float]]


@dataclass(frozen=True)
class ChosenWidths:
    """What was found.

    Attributes:
        scheme: with the bits of every value and all weights.
        costs: in look-up tables, as ``cost_of_widths.py`` estimates them.
        sqnr_db: on the samples that judge, less one standard error; infinite where nothing differs.
        accuracy_loss: points, as ``Goal`` says; None where that was not asked for.
    """

    scheme: Scheme
    costs: float
    sqnr_db: float
    accuracy_loss: float | None = None

    def __str__(self) -> str:
        bits = [p.bits for p in (*self.scheme.data_overrides.values(), *self.scheme.weight_overrides.values())]
        found = f"{min(bits)} to {max(bits)} bits reach {self.sqnr_db:.1f} dB"
        return found if self.accuracy_loss is None else f"{found} and lose {self.accuracy_loss:.2f} points of accuracy"


Quantize = Callable[[Scheme, Sequence[Frame], Sequence[Frame]], IntegerDecisions]
"""Chooses integers: of a scheme, learned from samples, judged by others."""


def choose_widths(
    goal: Goal,
    scheme: Scheme,
    frames: Sequence[Frame],
    labels: np.ndarray | None,
    ends: Sequence[str],
    noises: NoiseTable,
    costs: CostTable,
    quantize: Quantize,
) -> ChosenWidths:
    """The widths that reach a goal.

    Args:
        scheme: what has bits of its own there keeps them.
        frames: samples, by graph input.
        labels: (samples,) their classes, if known.
        ends: the values that are judged.

    Raises:
        UserError: no width reaches it; says how near they come.
    """
    search = _Search(goal, scheme, frames, labels, ends, noises, costs, quantize)
    found = search.found()
    if found is not None:
        return found
    best = max(search.tried, key=lambda one: (-(one.accuracy_loss or 0.0), one.sqnr_db))
    if goal.sqnr_db is None:
        asked, reached = (
            f"{goal.accuracy_loss:g} points of accuracy are to be lost at most",
            f"{best.accuracy_loss:.2f}",
        )
        option = "--accuracy-loss"
    else:
        asked, reached = f"the outputs are to have {goal.sqnr_db:g} dB", f"{best.sqnr_db:.1f} dB"
        option = "--sqnr"
    raise user_error(
        "goal-missed",
        f"{asked}; integers of up to {WIDTHS[-1]} bits come to {reached} on samples that nothing was learned from",
        where=option,
        hint="give more samples with --calibration, like the data; or ask for less",
        stage="quantize",
    )


def _doubtful(noises: np.ndarray | None) -> float:
    """By how much more noise is to be reckoned with than samples show: one standard error of their mean.

    Of few samples one that is rare may make most of the noise, or be missing.
    """
    if noises is None or len(noises) < 2 or not noises.any():
        return 1.0
    return 1.0 + float(noises.std(ddof=1) / np.sqrt(len(noises)) / noises.mean())


class _Search:
    def __init__(
        self,
        goal: Goal,
        scheme: Scheme,
        frames: Sequence[Frame],
        labels: np.ndarray | None,
        ends: Sequence[str],
        noises: NoiseTable,
        costs: CostTable,
        quantize: Quantize,
    ) -> None:
        self.goal, self.scheme, self.ends, self.quantize = goal, scheme, ends, quantize
        self.noises, self.costs = noises, costs
        numbers = np.arange(len(frames))
        if goal.sqnr_db is not None:
            numbers = numbers[:: -(-len(numbers) // MOST_SAMPLES)]
        judges = numbers if len(numbers) <= FEW else numbers[EVERY - 1 :: EVERY]
        learned = numbers if len(numbers) <= FEW else np.setdiff1d(numbers, judges)
        if goal.sqnr_db is None:
            judges = numbers
        self.learned, self.judges = [frames[k] for k in learned], [frames[k] for k in judges]
        self.labels = None if labels is None else labels[judges]
        fixed = {TensorKey("data", name): p.bits for name, p in scheme.data_overrides.items()}
        fixed |= {TensorKey("weights", name): p.bits for name, p in scheme.weight_overrides.items()}
        self.offered = {place: (fixed[place],) if place in fixed else WIDTHS for place in noises}
        self.tried: list[ChosenWidths] = []
        self.known: list[tuple[float, float, float]] = []  # noise: foreseen of data and of weights, and measured

    def found(self) -> ChosenWidths | None:
        """The cheapest of those that reach the goal; None where none does."""
        if self.goal.accuracy_loss is not None:
            return self.of_classes(self.goal.accuracy_loss)
        assert self.goal.sqnr_db is not None
        return self.of_noise(self.goal.sqnr_db)

    def of_noise(self, sqnr_db: float) -> ChosenWidths | None:
        """The cheapest that has so much signal to noise."""
        aim, seen = 10 ** (-(sqnr_db + CLOSE_DB / 3) / 10), set[tuple[int, ...]]()
        for last in (*[False] * (TRIES - 1), True):
            good = [one for one in self.tried if one.sqnr_db >= sqnr_db]
            widths = self._widest() if last and not good else self._cheapest(aim)
            if tuple(widths.values()) in seen or any(one.sqnr_db <= sqnr_db + CLOSE_DB for one in good):
                break
            seen.add(tuple(widths.values()))
            self._try(widths)
        good = [one for one in self.tried if one.sqnr_db >= sqnr_db]
        return min(good, key=lambda one: one.costs, default=None)

    def of_classes(self, most: float) -> ChosenWidths | None:
        """The cheapest that loses so many points: the less noise, the less is lost."""
        low, high = SEARCHED_DB
        good = []
        for _ in range(TRIES):
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
        """Choose integers of these widths."""
        single = {
            kind: {p.name: replace(usual, bits=bits) for p, bits in widths.items() if p.kind == kind}
            for kind, usual in (("data", self.scheme.data), ("weights", self.scheme.weights))
        }
        scheme = replace(self.scheme, goal=None, data_overrides=single["data"], weight_overrides=single["weights"])
        found = self.quantize(scheme, self.learned, self.judges)
        ends = {name: found.held[name].held for name in self.ends if name in found.held}
        noise = max(
            (_doubtful(found.noises.get(name)) * end.noise / max(end.signal, MIN_POWER) for name, end in ends.items()),
            default=0.0,
        )
        foreseen = [sum(self.noises[p][bits] for p, bits in widths.items() if p.kind == kind) for kind in single]
        if noise > 0 and sum(foreseen) > 0:
            self.known.append((foreseen[0], foreseen[1], noise))
        loss = None
        if self.goal.accuracy_loss is not None and found.classes is not None:
            floats, integers = found.classes
            right = floats if self.labels is None else self.labels
            loss = 100 * float((floats == right).mean() - (integers == right).mean())
        costs = sum(self.costs[place][bits] for place, bits in widths.items())
        self.tried.append(ChosenWidths(scheme, costs, -10 * np.log10(noise) if noise else np.inf, loss))
        return self.tried[-1]

    def _factors(self) -> dict[str, float]:
        """By which the noise of data and of weights is what was foreseen: from all tries, the last above all."""
        if not self.known:
            return {"data": 1.0, "weights": 1.0}
        data, weights, noise = np.array(self.known).T
        common = noise[-1] / (data[-1] + weights[-1])
        rows = np.stack([data / noise, weights / noise], 1)
        counts = np.where(np.arange(len(rows)) == len(rows) - 1, 3.0, 1.0)[:, None]
        held = HELD * np.eye(2) / common
        found = np.linalg.lstsq(
            np.concatenate([rows * counts, held]), np.concatenate([counts[:, 0], np.full(2, HELD)]), rcond=None
        )[0]
        found = np.clip(found, common / 8, common * 8)
        found *= noise[-1] / (found[0] * data[-1] + found[1] * weights[-1])
        return {"data": float(found[0]), "weights": float(found[1])}

    def _widest(self) -> dict[TensorKey, int]:
        return {place: max(offered) for place, offered in self.offered.items()}

    def _cheapest(self, allowed: float) -> dict[TensorKey, int]:
        """The widths that cost least with so much noise, or the widest where that is too little."""
        factors = self._factors()
        tables = {
            place: [(bits, self.costs[place][bits], factors[place.kind] * self.noises[place][bits]) for bits in offered]
            for place, offered in self.offered.items()
        }

        def at(price: float) -> dict[TensorKey, tuple[int, float, float]]:
            return {place: min(table, key=lambda one: one[1] + price * one[2]) for place, table in tables.items()}

        low, high = -20.0, 40.0  # of the price's logarithm to base 2, of all of the noise that is allowed
        for _ in range(40):
            middle = (low + high) / 2
            enough = sum(one[2] for one in at(2**middle / allowed).values()) <= allowed
            low, high = (low, middle) if enough else (middle, high)
        chosen = at(2**high / allowed)
        room = allowed - sum(one[2] for one in chosen.values())
        if room < 0:
            return self._widest()
        while True:  # what is left over spares something, too
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
