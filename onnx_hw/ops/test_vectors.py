"""Test vectors of single cores: arguments that distinguish the core's function from others, or drive its sums to their
ends.

Of a step function both sides of every threshold and both ends of the reachable range; of a table every place. Beside
them numbers all over the range, so that every bit of an argument is seen. Of sums of products, for each result the
operands that make it as small, and as large, as it can be; of sums and products of two tensors, all pairs of ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm
from typing import Any, Protocol

import numpy as np

from onnx_hw.exact.lookup_requantizers import TableRequantizer
from onnx_hw.exact.requantization import Requantizer
from onnx_hw.exact.step_function import Steps
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor

FRAMES = 4
"""Frames of every run of a core: the least result, the greatest, and two that are drawn where the whole frame makes
it."""
RUNS = 4
"""Runs of a core whose vectors take long. Each has its own; a compiled simulator takes them at once."""
MAX_ARGUMENTS = 2048
"""Arguments of a channel at most. Of functions with more thresholds some are tested, evenly chosen."""
SPREAD_ARGUMENTS = 16
SEED = 21
ONE_RUN_CYCLES = 100_000
"""Cycles of a core of sums of products whose vectors are all in one run."""
MAX_CYCLES = 1_000_000
"""Cycles of a run of such a core. Of more vectors those of the widest sums are shown."""


class _Elementwise(Protocol):
    @property
    def operand(self) -> Tensor: ...
    def input_orders(self, folding: Any) -> tuple[Order, ...]: ...
    def illegal(self, folding: Any) -> str: ...


class _Sums(_Elementwise, Protocol):
    def cycles(self, folding: Any) -> int: ...
    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]: ...


class _OfTwo(Protocol):
    def operands(self) -> tuple[Tensor, ...]: ...
    def results(self) -> tuple[Tensor, ...]: ...


@dataclass(frozen=True)
class TestVectors:
    """Test vectors of an operator.

    Attributes:
        operator: the same one, of an image in which the arguments fit; None where its folding allows no such image.
        frames: the arguments, (frames, height, width, channels) int64 for each operand; ``FRAMES`` of one run, or of
            each of ``RUNS`` runs.
        thresholds, of_thresholds: of all functions, those of which both sides are among the arguments, and all.
        places, of_places: the same of the places of tables.
        ends, of_ends: of the reachable ranges, channel by channel: of arguments of functions, of sums of products, of
            what two tensors make.
        lanes: products per cycle; 0 for a function of one integer.
    """

    operator: Any
    frames: Sequence[np.ndarray]
    thresholds: int = 0
    of_thresholds: int = 0
    places: int = 0
    of_places: int = 0
    ends: int = 0
    of_ends: int = 0
    lanes: int = 0


def of_steps(operator: _Elementwise, folding: Any, exact: Steps, circuit: Requantizer) -> TestVectors:
    """Return test vectors of a step function; ``circuit``, its arithmetic, may be a table."""
    (first, last), rows, covered, real, places, of_places = operator.operand.range, [], 0, 0, 0, 0
    for thresholds in exact.thresholds:
        inner = np.unique(thresholds[(thresholds > first) & (thresholds <= last)])
        shown = at_most(MAX_ARGUMENTS // 2, inner)
        row = [shown, shown - 1, _beyond_the_ends(inner, first, last)]
        real, covered = real + len(inner), covered + len(shown)
        if isinstance(circuit, TableRequantizer):
            inside = np.arange(max(first, circuit.clamp.min), min(last, circuit.clamp.max) + 1)
            row.append(at_most(MAX_ARGUMENTS, inside))
            places, of_places = places + len(row[-1]), of_places + len(inside)
        rows.append(_with_spread(np.concatenate(row), first, last))
    ends = 2 * len(rows)
    return _shown(operator, folding, rows, TestVectors(None, (), covered, real, places, of_places, ends, ends))


def _beyond_the_ends(thresholds: np.ndarray, first: int, last: int) -> np.ndarray:
    """Return arguments next to where another step would be if the function did not saturate: (n,) within the range."""
    if len(thresholds) < 2:
        return np.zeros(0, dtype=np.int64)
    low, high = 2 * thresholds[0] - thresholds[1], 2 * thresholds[-1] - thresholds[-2]
    beside = np.array([end + off for end in (low, high) for off in (-2, -1, 0, 1, 2)])
    return beside[(beside >= first) & (beside <= last)]


def at_most(count: int, arguments: np.ndarray) -> np.ndarray:
    """Return all of the parts, or an equal number of each if there are more than that."""
    return arguments[:: max(1, -(-len(arguments) // count))]


def of_table(operator: _Elementwise, folding: Any, functions: int) -> TestVectors:
    """Return test vectors of tables of every argument, one for each function."""
    first, last = operator.operand.range
    every = np.arange(first, last + 1)
    shown = at_most(MAX_ARGUMENTS, every)
    ends, places = 2 * functions, functions * len(shown)
    counts = TestVectors(None, (), 0, 0, places, functions * len(every), ends, ends)
    return _shown(operator, folding, [_with_spread(shown, first, last)], counts)


def of_vectors(operator: _Sums, folding: Any, weights: np.ndarray, lanes: int) -> TestVectors:
    """Return test vectors of products of vectors with constant ``weights``, (results, inputs)."""
    pixels, cycles = operator.input_orders(folding)[0].tensor.pixels, operator.cycles(folding)
    runs = 1 if 2 * len(weights) * cycles <= ONE_RUN_CYCLES * pixels else RUNS
    together = runs * FRAMES * folding.pixels  # vectors at the same place of all frames, which take the same cycles
    most = max(1, MAX_CYCLES * pixels // (cycles * FRAMES * folding.pixels)) * together
    vectors = _vectors_of_ends(weights, operator.operand.range, most)
    width = -(-len(vectors) // together) * folding.pixels
    frames = np.resize(vectors, (runs * FRAMES, 1, width, weights.shape[1]))
    wide: Any = replace(operator, operand=replace(operator.operand, shape=frames.shape[1:]))  # type: ignore[type-var]
    counts = TestVectors(None if wide.illegal(folding) else wide, (frames,), lanes=lanes)
    return _with_ends(counts, wide.operand.range, wide.golden(frames)[0], weights)


def _vectors_of_ends(weights: np.ndarray, span: tuple[int, int], most: int) -> np.ndarray:
    """Return vectors of operands in ``span`` that make each sum of products least or greatest: (vectors, inputs).

    If there are more than ``most``, the widest sums come first: they need the most bits. A vector then makes the ends
    of several sums where these do not disagree about an operand, as those of different groups of a convolution.
    """
    (low, high), inputs = span, weights.shape[1]
    ends = np.stack(_ends_of_sums(weights, span), axis=1).ravel()  # of result k // 2, the greatest where k is odd
    if len(ends) <= most:
        return np.where(np.repeat(weights > 0, 2, axis=0) == (np.arange(len(ends)) % 2 == 1)[:, None], high, low)
    upward, decided = np.zeros((most, inputs), dtype=bool), np.zeros((most, inputs), dtype=bool)
    used = 0
    for end in np.argsort(-np.abs(ends), kind="stable"):
        needed = weights[end // 2] != 0
        wanted = (weights[end // 2] > 0) == (end % 2 == 1)
        free = np.flatnonzero(~(decided[:used] & needed & (upward[:used] != wanted)).any(axis=1))
        place = int(free[0]) if len(free) else used
        if place < most:
            upward[place, needed], decided[place, needed] = wanted[needed], True
            used = max(used, place + 1)
    return np.where(upward[:used], high, low)


def _ends_of_sums(weights: np.ndarray, span: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest sum of products of operands in ``span`` with each of (results, ...) weights."""
    (low, high), flat = span, weights.reshape(len(weights), -1)
    positive, negative = np.maximum(flat, 0).sum(axis=1), np.minimum(flat, 0).sum(axis=1)
    return positive * low + negative * high, positive * high + negative * low


def of_windows(operator: _Sums, weights: np.ndarray, places: np.ndarray, lanes: int) -> TestVectors:
    """Return test vectors of products of windows with constants, channel by channel; of several results of a channel,
    for the first.

    Args:
        weights: (results, rows, columns).
        places: (windows, rows, columns): which pixel of the image lies there in every window; -1 outside the image.
    """
    (low, high), (height, width, channels) = operator.operand.range, operator.operand.shape
    inside = (places >= 0).sum(axis=(1, 2))
    best = np.flatnonzero(inside == inside.max())
    window = places[best[len(best) // 2]]
    positive = np.moveaxis(weights[:: len(weights) // channels] > 0, 0, -1)[window >= 0]  # (pixels, channels)
    frames = np.empty((FRAMES, height * width, channels), dtype=np.int64)
    for frame, ends in enumerate(((low, high), (high, low))):
        frames[frame] = ends[1]
        frames[frame, window[window >= 0]] = np.where(positive, *ends)
    drawn = np.random.Generator(np.random.PCG64(SEED))
    frames[2] = np.where(drawn.integers(0, 2, frames[2].shape), low, high)
    frames[3] = drawn.integers(low, high + 1, frames[3].shape)
    images = frames.reshape(FRAMES, height, width, channels)
    return _with_ends(TestVectors(operator, (images,), lanes=lanes), (low, high), operator.golden(images)[0], weights)


def of_pairs(operator: _OfTwo, folding: Any, lanes: int = 0, divisors: Sequence[int] = ()) -> TestVectors:
    """Return test vectors of what is computed of two elements at the same place: all pairs of ends, and numbers all
    over both ranges.

    The result is linear in each operand, so it is least and greatest at such a pair; a quotient also where the divisor
    is next to 0.

    Args:
        lanes: products per cycle.
        divisors: further numbers of the second operand, where they are in its range.
    """
    spans, (result,) = [operand.range for operand in operator.operands()], operator.results()
    inside = {*spans[1], *(number for number in divisors if spans[1][0] <= number <= spans[1][1])}
    corners = np.array(list(product(spans[0], sorted(inside))))
    over = [
        [first + (last - first) * (7 * k % SPREAD_ARGUMENTS) // (SPREAD_ARGUMENTS - 1) for k in range(SPREAD_ARGUMENTS)]
        for first, last in spans
    ]
    across = np.stack([sorted(over[0]), over[1]], axis=1)
    pairs = np.concatenate([corners, across]).astype(np.int64)
    pixels = -(-len(pairs) // (FRAMES * folding.pixels)) * folding.pixels
    pairs = np.resize(pairs, (FRAMES * pixels, 2))
    channels = operator.operands()[0].channels
    turned = np.stack([np.roll(pairs, channel, axis=0) for channel in range(channels)], axis=1)  # each has its own
    frames = tuple(turned[:, :, k].reshape(FRAMES, 1, pixels, channels) for k in range(2))
    a, b = (replace(operand, shape=(1, pixels, channels)) for operand in operator.operands())
    wide: Any = replace(operator, a=a, b=b)  # type: ignore[type-var]
    results = wide.golden(*frames)[0]
    ends = sum(int((results == end).any(axis=(0, 1, 2)).sum()) for end in result.range)
    shown = None if wide.illegal(folding) else wide
    return TestVectors(shown, frames, ends=ends, of_ends=2 * channels, lanes=lanes)


def _with_ends(counts: TestVectors, span: tuple[int, int], sums: np.ndarray, weights: np.ndarray) -> TestVectors:
    """Return the counts with those of the ends that sums reach, for operands in ``span`` and (results, ...) weights."""
    least, greatest = _ends_of_sums(weights, span)
    places = (0, 1, 2)
    ends = (sums.min(axis=places) == least).sum() + (sums.max(axis=places) == greatest).sum()
    return replace(counts, ends=int(ends), of_ends=2 * len(weights))


def _with_spread(arguments: np.ndarray, first: int, last: int) -> np.ndarray:
    """Return the numbers, ascending, with others all over the range and with both its ends: (n,) int64."""
    spread = [first + (last - first) * k // (SPREAD_ARGUMENTS - 1) for k in range(SPREAD_ARGUMENTS)]
    return np.unique(np.concatenate([arguments, spread]).astype(np.int64))


def _shown(operator: _Elementwise, folding: Any, rows: Sequence[np.ndarray], counts: TestVectors) -> TestVectors:
    """Return the counts with the frames; channels with fewer arguments than others have theirs repeated."""
    channels = operator.operand.channels
    beside = lcm(folding.pixels, getattr(folding, "tile", 0) or 1)
    pixels = -(-max(map(len, rows)) // (FRAMES * beside)) * beside
    columns = np.stack([np.resize(row, FRAMES * pixels) for row in rows], axis=1)
    frames = np.broadcast_to(columns, (FRAMES * pixels, channels)).reshape(FRAMES, 1, pixels, channels)
    wide: Any = replace(operator, operand=replace(operator.operand, shape=(1, pixels, channels)))  # type: ignore[type-var]
    return replace(counts, operator=None if wide.illegal(folding) else wide, frames=(frames,))
