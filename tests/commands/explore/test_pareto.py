"""What is in front, against the definition: each of 200 with each other."""

import numpy as np
import pytest

from onnx_hw.commands.explore.pareto import front, knee


def dominates(one: np.ndarray, other: np.ndarray) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and any(a < b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_in_front_is_dominated_and_all_else_is(seed: int) -> None:
    """Few values a respect, so that many are equal."""
    random = np.random.default_rng(seed)
    costs = random.integers(0, random.integers(3, 40), (200, 4)).tolist()
    found = front(costs)
    assert found == [not any(dominates(other, one) for other in costs) for one in costs] and any(found)
    best = [cost for cost, first in zip(costs, found, strict=True) if first]
    middle = knee(best)
    assert middle is not None and 0 <= middle < len(best)


def test_of_nothing_there_is_no_front() -> None:
    assert front([]) == [] and knee([]) is None
    assert front([[1.0, 2.0]]) == [True] and knee([[1.0, 2.0]]) == 0
