"""Cores and networks drawn, simulated and proven."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.ir.design import Design
from support import core_tests
from support.design_bench import Bench, assert_proven, no_stall, random_stall
from support.random_cases import Case, FoldedOperator, cases

STRATEGIES: dict[str, FoldedOperator] = core_tests.collect("STRATEGIES")

FRAMES = 4


def prove_core(folded: FoldedOperator, count: int) -> None:
    """Values and firings of one core agree, in ``count`` cases."""

    @settings(max_examples=count)
    @given(cases(folded))
    def agrees(case: Case) -> None:
        case.check()

    agrees()


def prove_networks(designs: st.SearchStrategy[Design], profile: settings) -> Counter[str]:
    """Values and firings of random networks agree, and those that stop do so where it is predicted."""
    seen: Counter[str] = Counter()

    @profile
    @given(designs, st.integers(0, 999))
    def every_network(design: Design, seed: int) -> None:
        bench = Bench(design)
        deadlocks = set()
        for stall in (no_stall(design, FRAMES), random_stall(design, FRAMES, seed)):
            run = bench.prove(stall, frames=FRAMES, seed=seed, false_start=seed % 50)
            assert_proven(run, live=False)
            deadlocks.add(bool(run.deadlock))
            seen["firings"] += run.firings_compared
        assert len(deadlocks) == 1, "liveness does not depend on time"
        seen["networks"] += 1
        seen["deadlocks"] += deadlocks.pop()

    every_network()
    return seen
