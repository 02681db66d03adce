"""Find the least number that is good, where more is never worse: with few questions, since each is a simulation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def least(good: Callable[[int], bool], most: int, start: int = 1) -> int:
    """The least number from ``start`` to ``most`` that is good, where more is never worse and ``most`` is good."""
    bad, number = start - 1, start
    while number < most and not good(number):
        bad, number = number, min(2 * number, most)
    while number - bad > 1:
        middle = (bad + number) // 2
        if good(middle):
            number = middle
        else:
            bad = middle
    return number


def least_step(holds: Callable[[int], bool], last: int, guess: int) -> int:
    """The least of 0..last that holds; every later one does, and ``last``, which is not asked.

    From a guess on in strides that double, then by halves: a good guess costs two questions.
    """
    fails, good = -1, last
    guess = min(guess, last)
    stride = 1
    if guess == last or holds(guess):
        good = guess
        while good > 0:
            step = max(good - stride, 0)
            if not holds(step):
                fails = step
                break
            good, stride = step, 2 * stride
    else:
        fails = guess
        while (step := fails + stride) < last:
            if holds(step):
                good = step
                break
            fails, stride = step, 2 * stride
    return bisect_left(range(last + 1), True, fails + 1, good, key=holds)
