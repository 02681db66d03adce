"""Bits of a bitstream drawn at random, of each kind of setting in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

Place = TypeVar("Place")


def drawn_flips(kinds: Mapping[str, Sequence[Place]], count: int, seed: int) -> Iterator[Place]:
    """Draw bits: of each kind of setting in turn.

    Args:
        kinds: places of the bits, by kind of setting.
    """
    draw = np.random.default_rng(seed)
    names = sorted(kinds)
    for k in range(count):
        places = kinds[names[k % len(names)]]
        yield places[int(draw.integers(len(places)))]
