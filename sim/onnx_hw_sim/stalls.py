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
    return np.cumsum(_generator(seed).geometric(_probability(p), tokens)).astype(np.int64) - 1


def burst_offers(tokens: int, longest: int, pause: int, seed: int) -> np.ndarray:
    """(tokens,) int64: bursts of 1..``longest`` tokens in consecutive cycles, 1..``pause`` cycles between them."""
    generator = _generator(seed)
    bursts = generator.integers(1, longest + 1, tokens)  # more than enough: each has a token
    gaps = np.ones(tokens, dtype=np.int64)
    begins = np.concatenate(([0], np.cumsum(bursts)))
    begins = begins[begins < tokens]
    gaps[begins] += generator.integers(1, pause + 1, len(begins))
    return np.cumsum(gaps) - 1


def always(cycles: int = 0) -> np.ndarray:
    """(cycles,) bool: a sink that is always ready."""
    return np.ones(cycles, dtype=bool)


def random_ready(cycles: int, p: float, seed: int) -> np.ndarray:
    """(cycles,) bool: ready with probability ``p`` in each cycle. After the trace a sink is always ready."""
    return _generator(seed).random(cycles) < _probability(p)


def burst_ready(cycles: int, longest: int, pause: int, seed: int) -> np.ndarray:
    """(cycles,) bool: ready for 1..``longest`` cycles, then not for 1..``pause`` cycles, and so on."""
    generator = _generator(seed)
    lengths = np.empty(2 * cycles, dtype=np.int64)
    lengths[0::2] = generator.integers(1, longest + 1, cycles)
    lengths[1::2] = generator.integers(1, pause + 1, cycles)
    return np.repeat(np.arange(2 * cycles) % 2 == 0, lengths)[:cycles]


def _generator(seed: int) -> np.random.Generator:
    # PCG64 by name: numpy may change what default_rng returns, and a seed in a report must keep its meaning.
    return np.random.Generator(np.random.PCG64(seed))


def _probability(p: float) -> float:
    if not 0 < p <= 1:
        raise ValueError(f"a probability must be in ]0, 1], not {p}")
    return p
