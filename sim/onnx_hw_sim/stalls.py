"""Reproducible timings of the outside: when a source offers its tokens, when a sink is ready.

Every function depends on its arguments alone, the seed among them.
"""

from __future__ import annotations

import numpy as np


def at_once(tokens: int) -> np.ndarray:
    """(tokens,) int64: every token is offered as soon as the one before is taken."""
    return np.zeros(tokens, dtype=np.int64)


def paced(tokens: int, interval: int, per_frame: int) -> np.ndarray:
    """(tokens,) int64: ``per_frame`` tokens spread evenly over ``interval`` cycles, frame after frame.

    Token k is offered from cycle ⌊k · interval / per_frame⌋.
    """
    return np.arange(tokens, dtype=np.int64) * interval // per_frame


def random_offers(tokens: int, p: float, seed: int) -> np.ndarray:
    """(tokens,) int64: a source that in each cycle has a new token with probability ``p``.

    The gaps are geometric; a source held back by the circuit may offer several tokens in a row afterwards.
    """
    uniform = _Uniform(seed)
    if _probability(p) == 1:
        return np.arange(tokens, dtype=np.int64)
    gaps = np.floor(np.log1p(-uniform(tokens)) / np.log1p(-p)).astype(np.int64) + 1
    return np.cumsum(gaps) - 1


def burst_offers(tokens: int, longest: int, pause: int, seed: int) -> np.ndarray:
    """(tokens,) int64: 1..``pause`` cycles of nothing, 1..``longest`` tokens in consecutive cycles, and so on."""
    uniform = _Uniform(seed)
    bursts = uniform.integers(1, longest, tokens)  # more than enough: each has a token
    begins = np.cumsum(bursts) - bursts
    begins = begins[begins < tokens]
    gaps = np.ones(tokens, dtype=np.int64)
    gaps[begins] += uniform.integers(1, pause, len(begins))
    return np.cumsum(gaps) - 1


def held_offers(tokens: int, first: int, until: int) -> np.ndarray:
    """(tokens,) int64: at once, but that token number ``first`` and all after it are held back until a cycle."""
    return np.where(np.arange(tokens) < first, 0, until).astype(np.int64)


def always(cycles: int = 0) -> np.ndarray:
    """(cycles,) bool: a sink that is always ready."""
    return np.ones(cycles, dtype=bool)


def random_ready(cycles: int, p: float, seed: int) -> np.ndarray:
    """(cycles,) bool: ready with probability ``p`` in each cycle. After the trace a sink is always ready."""
    return _Uniform(seed)(cycles) < _probability(p)


def burst_ready(cycles: int, longest: int, pause: int, seed: int) -> np.ndarray:
    """(cycles,) bool: ready for 1..``longest`` cycles, then not for 1..``pause`` cycles, and so on."""
    uniform = _Uniform(seed)
    lengths = np.empty(2 * cycles, dtype=np.int64)
    lengths[0::2] = uniform.integers(1, longest, cycles)
    lengths[1::2] = uniform.integers(1, pause, cycles)
    return np.repeat(np.arange(2 * cycles) % 2 == 0, lengths)[:cycles]


def frozen_ready(first: int, pause: int) -> np.ndarray:
    """(first + pause,) bool: ready for so many cycles, then not for ``pause`` cycles."""
    return np.arange(first + pause) < first


class _Uniform:
    """Numbers from a seed. numpy promises that the raw output of PCG64 stays as it is, of its distributions it does
    not, and a seed in a report should keep its meaning.
    """

    def __init__(self, seed: int):
        self._bits = np.random.PCG64(seed)

    def __call__(self, count: int) -> np.ndarray:
        """(count,) float64 in [0, 1[."""
        above = np.asarray(self._bits.random_raw(count)) >> np.uint64(11)
        numbers: np.ndarray = np.ldexp(above.astype(np.float64), -53)
        return numbers

    def integers(self, low: int, high: int, count: int) -> np.ndarray:
        """(count,) int64 in low..high."""
        steps: np.ndarray = np.floor(self(count) * (high - low + 1)).astype(np.int64)
        return low + steps


def _probability(p: float) -> float:
    if not 0 < p <= 1:
        raise ValueError(f"a probability must be in ]0, 1], not {p}")
    return p
