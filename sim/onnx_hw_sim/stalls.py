"""Reproducible timings of the environment: when a source offers its tokens, and when a sink is ready.

Every function depends on its arguments alone, including the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

PIECE = 1 << 18
"""Random numbers that are in memory at once."""

LONGEST_ROUND = 1 << 22
"""Cycles after which a random trace of readiness begins again: a power of two, see ``RepeatedTrace``."""


class RepeatedTrace:
    """Trace of readiness as one round of it, for a compiled loop: in cycle t < ``length`` it is ``row[t & mask]``.

    Args:
        ready: (cycles,) bool; or (rounds, cycles) bool, all rounds the same and a power of two long, which takes the
            memory of one round if it is a broadcast array.

    Attributes:
        row: one round, contiguous uint8. It must live as long as the loop.
    """

    def __init__(self, ready: np.ndarray) -> None:
        self.length, self.mask, row = ready.size, -1, ready
        if ready.ndim > 1:
            self.mask, row = ready.shape[1] - 1, ready[0]
            if ready.shape[1] & self.mask or (ready.strides[0] and (ready != row).any()):
                raise ValueError(f"rounds of a trace must be equal and a power of two long, not {len(row)} cycles")
        self.row = np.ascontiguousarray(row, dtype=bool).view(np.uint8)  # without a copy where it is bool


def at_once(tokens: int) -> np.ndarray:
    """Offer every token as soon as the one before is taken: (tokens,) int64."""
    return np.zeros(tokens, dtype=np.int64)


def paced(tokens: int, interval: int, per_frame: int) -> np.ndarray:
    """Spread ``per_frame`` tokens evenly over ``interval`` cycles, frame after frame: (tokens,) int64.

    Token k is offered from cycle ⌊k · interval / per_frame⌋.
    """
    return np.arange(tokens, dtype=np.int64) * interval // per_frame


def random_offers(tokens: int, p: float, seed: int) -> np.ndarray:
    """Offer a new token in each cycle with probability ``p``: (tokens,) int64.

    The gaps are geometric; a source held back by the circuit may offer several tokens in a row afterwards.
    """
    uniform = _Uniform(seed)
    if _probability(p) == 1:
        return np.arange(tokens, dtype=np.int64)
    gaps = np.floor(np.log1p(-uniform(tokens)) / np.log1p(-p)).astype(np.int64) + 1
    return np.cumsum(gaps) - 1


def burst_offers(tokens: int, longest: int, pause: int, seed: int) -> np.ndarray:
    """Alternate pauses of 1..``pause`` cycles and bursts of 1..``longest`` consecutive tokens: (tokens,) int64."""
    uniform = _Uniform(seed)
    bursts = uniform.integers(1, longest, tokens)  # more than enough: each has a token
    begins = np.cumsum(bursts) - bursts
    begins = begins[begins < tokens]
    gaps = np.ones(tokens, dtype=np.int64)
    gaps[begins] += uniform.integers(1, pause, len(begins))
    return np.cumsum(gaps) - 1


def held_offers(tokens: int, first: int, until: int) -> np.ndarray:
    """Offer tokens at once, but hold token number ``first`` and all after it back until a cycle: (tokens,) int64."""
    return np.where(np.arange(tokens) < first, 0, until).astype(np.int64)


def always(cycles: int = 0) -> np.ndarray:
    """Return the trace of a sink that is always ready, (cycles,) bool."""
    return np.ones(cycles, dtype=bool)


def repeated(trace: Callable[[int], np.ndarray], cycles: int) -> np.ndarray:
    """Return a trace of readiness of at least a number of cycles, in little memory.

    Args:
        trace: function that makes a trace of a number of cycles.

    Returns:
        (cycles,) bool, or (rounds, ``LONGEST_ROUND``) bool where there are more cycles than a round has.
    """
    if cycles <= LONGEST_ROUND:
        return trace(cycles)
    return np.broadcast_to(trace(LONGEST_ROUND), (-(-cycles // LONGEST_ROUND), LONGEST_ROUND))


def random_ready(cycles: int, p: float, seed: int) -> np.ndarray:
    """Be ready with probability ``p`` in each cycle, (cycles,) bool. After the trace a sink is always ready."""
    uniform, ready = _Uniform(seed), np.empty(cycles, dtype=bool)
    for piece in _pieces(ready):
        piece[:] = uniform(len(piece)) < _probability(p)
    return ready


def burst_ready(cycles: int, longest: int, pause: int, seed: int) -> np.ndarray:
    """Alternate 1..``longest`` cycles ready and 1..``pause`` cycles not ready: (cycles,) bool."""
    ready = np.zeros(cycles, dtype=bool)
    of_bursts, of_pauses, end = _Uniform(seed), _Uniform(seed, skip=cycles), 0  # a burst and a pause have a cycle each
    while end < cycles:
        count = min(PIECE, cycles - end)
        lengths = np.stack([of_bursts.integers(1, longest, count), of_pauses.integers(1, pause, count)], axis=1)
        piece = np.repeat(np.tile([True, False], count), lengths.reshape(-1))[: cycles - end]
        ready[end : end + len(piece)] = piece
        end += len(piece)
    return ready


def frozen_ready(first: int, pause: int) -> np.ndarray:
    """Be ready for ``first`` cycles, then not for ``pause`` cycles: (first + pause,) bool."""
    return np.arange(first + pause) < first


def _pieces(trace: np.ndarray) -> Iterator[np.ndarray]:
    """Return views of a trace, one after the other: random numbers take many times its memory."""
    return (trace[first : first + PIECE] for first in range(0, len(trace), PIECE))


class _Uniform:
    """Random numbers from a seed.

    Args:
        skip: number of the first ones that are left out.

    numpy guarantees the raw output of PCG64 for the future, but not that of its distributions, and a seed in a report
    should keep its meaning.
    """

    def __init__(self, seed: int, skip: int = 0):
        self._bits = np.random.PCG64(seed)
        self._bits.advance(skip)

    def __call__(self, count: int) -> np.ndarray:
        """Return (count,) float64 in [0, 1[."""
        above = np.asarray(self._bits.random_raw(count)) >> np.uint64(11)
        numbers: np.ndarray = np.ldexp(above.astype(np.float64), -53)
        return numbers

    def integers(self, low: int, high: int, count: int) -> np.ndarray:
        """Return (count,) int64 in low..high."""
        steps: np.ndarray = np.floor(self(count) * (high - low + 1)).astype(np.int64)
        return low + steps


def _probability(p: float) -> float:
    if not 0 < p <= 1:
        raise ValueError(f"a probability must be in ]0, 1], not {p}")
    return p
