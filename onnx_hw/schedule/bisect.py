"""Find the least number that is good, where more is never worse: with few questions, since each is a simulation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def least(holds: Callable[[int], bool], first: int, last: int, guess: int | None = None) -> int:
    """The least of first..last that holds; every later one does, and ``last``, which is not asked.

    From a guess on (without one, from ``first``) in strides that double, then by halves: a good guess costs two
    questions.
    """
    fails, good = first - 1, last
    guess = first if guess is None else min(max(first, guess), last)
    stride = 1
    if guess == last or holds(guess):
        good = guess
        while good > first:
            number = max(good - stride, first)
            if not holds(number):
                fails = number
                break
            good, stride = number, 2 * stride
    else:
        fails = guess
        while (number := fails + stride) < last:
            if holds(number):
                good = number
                break
            fails, stride = number, 2 * stride
    return fails + 1 + bisect_left(range(fails + 1, good), True, key=holds)
