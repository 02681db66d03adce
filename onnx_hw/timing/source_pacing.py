"""How the outside offers frames: all at once, or evenly, one every so many cycles."""

from __future__ import annotations

from math import gcd

import numpy as np

from onnx_hw.ops.stream_order import Order

SHORTEST_ROUND = 128
"""Cycles. Rounds last a whole number of them; what a frame's cycles leave over is a pause after its last round."""


def rounds_of(order: Order, interval: int) -> int:
    """Equal parts of a frame, as many as there are rows (or pixels of the only row), that last whole cycles each.

    A part that does not last a whole number of cycles by itself has ``SHORTEST_ROUND`` of them or more, so that what
    is rounded does not matter. With an interval of 0 all tokens are offered at once.
    """
    height, width, _ = order.tensor.shape
    whole = gcd(height if height > 1 else width, order.beats)
    divisors = (parts for parts in range(whole, 0, -1) if whole % parts == 0)
    return next(
        parts for parts in divisors if interval % parts == 0 or parts * SHORTEST_ROUND <= interval or parts == 1
    )


def offers(order: Order, interval: int, frames: int) -> np.ndarray:
    """(frames · beats,) int64: the cycle from which each token is offered: evenly within each round of a frame."""
    rounds = rounds_of(order, interval)
    beats, cycles = order.beats // rounds, interval // rounds
    frame, token = np.divmod(np.arange(frames * order.beats), order.beats)
    return frame * interval + token // beats * cycles + token % beats * cycles // beats
