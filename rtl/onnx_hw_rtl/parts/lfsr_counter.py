"""Counter without a carry chain: a linear feedback shift register, which runs through all numbers but one in some
order.

If only certain numbers of a counter matter, it takes one look-up table this way instead of one per bit. It begins at
zero; a register of ones would stay as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from amaranth.hdl import Cat, Value

_TAPS: dict[int, tuple[int, ...]] = {
    2: (2, 1), 3: (3, 2), 4: (4, 3), 5: (5, 3), 6: (6, 5), 7: (7, 6), 8: (8, 6, 5, 4), 9: (9, 5), 10: (10, 7),
    11: (11, 9), 12: (12, 6, 4, 1), 13: (13, 4, 3, 1), 14: (14, 5, 3, 1), 15: (15, 14), 16: (16, 15, 13, 4),
    17: (17, 14), 18: (18, 11), 19: (19, 6, 2, 1), 20: (20, 17), 21: (21, 19), 22: (22, 21), 23: (23, 18),
    24: (24, 23, 22, 17), 25: (25, 22), 26: (26, 6, 2, 1), 27: (27, 5, 2, 1), 28: (28, 25), 29: (29, 27),
    30: (30, 6, 4, 1), 31: (31, 28), 32: (32, 22, 2, 1),
}  # fmt: skip
"""Taps by width: bits, counted from 1, whose sum is fed back (AMD XAPP052, table 3)."""


def width_for(count: int) -> int:
    """Return the width of a register that runs through at least ``count`` numbers."""
    return max(2, count.bit_length())


def next_state(state: Value) -> Value:
    """Return the number that follows."""
    fed: Value = ~state[-1]
    for tap in _TAPS[len(state)][1:]:
        fed = fed ^ state[tap - 1]
    return Cat(fed, state[:-1])


def state_after(steps: int, width: int) -> int:
    """Return the number that is reached from zero after some steps."""
    return next(islice(states(width), steps, None))


def states(width: int) -> Iterator[int]:
    """Yield the numbers in their order, from zero on."""
    state = 0
    while True:
        yield state
        fed = 1 ^ sum(state >> tap - 1 for tap in _TAPS[width]) & 1
        state = (state << 1 | fed) & (1 << width) - 1
