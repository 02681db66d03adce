"""Depths of FIFOs beside a tape: the least ones, one after the other, and few questions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onnx_hw.schedule.outside.size_tape_fifos import MAX_QUESTIONS, least_together
from onnx_hw.schedule.size_fifos import affordable


class Needs:
    """A design that keeps its interval if every FIFO has the depth that it needs, and some that share one have a sum.

    Attributes:
        asked: number of questions so far.
    """

    def __init__(self, least: dict[str, int], shared: tuple[str, str], total: int) -> None:
        self.least, self.shared, self.total, self.asked = least, shared, total, 0

    def keeps(self, depths: dict[str, int]) -> bool:
        self.asked += 1
        together = sum(depths[tensor] for tensor in self.shared) >= self.total
        return together and all(depths[tensor] >= least for tensor, least in self.least.items())


def one_by_one(deep: dict[str, int], now: dict[str, int], edges: dict[str, Any], needs: Needs) -> dict[str, int]:
    """Return the least depths by asking for every one that can be had, the widest stream first."""
    depths = dict(deep)
    for tensor in sorted(deep, key=lambda t: -edges[t].bits):
        steps = [now[tensor]]
        while steps[-1] < deep[tensor]:
            steps.append(min(deep[tensor], affordable(steps[-1] + 1)))
        depths[tensor] = next(step for step in steps if needs.keeps(depths | {tensor: step}))
    return depths


@pytest.mark.parametrize("seed", range(30))
def test_depths_are_those_chosen_one_by_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"t{k}" for k in range(int(random.integers(2, 12)))]
    edges: dict[str, Any] = {n: SimpleNamespace(bits=k + 1, deepest_at_once=33) for k, n in enumerate(names)}
    now = {name: affordable(int(random.integers(1, 9))) for name in names}
    deep = {name: affordable(int(now[name] + random.integers(1, 500))) for name in names}
    least = {name: int(random.integers(now[name], deep[name] + 1)) for name in names if random.random() < 0.3}
    total = int(random.integers(0, deep["t0"] + deep["t1"]))
    needs = Needs(least, ("t0", "t1"), total)
    assert least_together(deep, now, edges, needs.keeps) == one_by_one(deep, now, edges, needs)


def test_few_questions_are_asked() -> None:
    """Two of 200 FIFOs must be deep: these are looked for, not the others."""
    names = [f"t{k}" for k in range(200)]
    edges: dict[str, Any] = {name: SimpleNamespace(bits=8, deepest_at_once=33) for name in names}
    now, deep = dict.fromkeys(names, 2), dict.fromkeys(names, 4096)
    needs = Needs({"t50": 300, "t150": 30}, ("t0", "t1"), 0)
    depths = least_together(deep, now, edges, needs.keeps)
    assert depths == now | {"t50": 512, "t150": 33}
    assert needs.asked < 40


def test_questions_are_bounded() -> None:
    """Where many FIFOs must be deep, some stay deeper than they need be; the interval is kept."""
    names = [f"t{k}" for k in range(100)]
    edges: dict[str, Any] = {name: SimpleNamespace(bits=8, deepest_at_once=33) for name in names}
    now, deep = dict.fromkeys(names, 2), dict.fromkeys(names, 4096)
    needs = Needs(dict.fromkeys(names, 100), ("t0", "t1"), 0)
    depths = least_together(deep, now, edges, needs.keeps)
    assert needs.asked <= MAX_QUESTIONS and needs.keeps(depths)
