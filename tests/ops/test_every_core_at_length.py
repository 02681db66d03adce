"""Other examples in every run, and many more of them, for all cores."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from drawn_cases import Case, FoldedOperator, cases
from drawn_operators import (
    argmaxes,
    concats,
    depthwise,
    forks,
    gearboxes,
    matmuls,
    matmuls_of_two,
    pools,
    products,
    reductions,
    requantizers,
    sums,
    windows,
)
from rearrangements import rearrangements

CORES = [
    windows(),
    pools(),
    depthwise(),
    reductions(),
    matmuls(),
    matmuls_of_two(),
    requantizers(),
    gearboxes(),
    forks(),
    sums(),
    concats(),
    products(),
    argmaxes(),
    rearrangements(),
]


@pytest.mark.slow
@pytest.mark.parametrize("folded", CORES, ids=str)
def test_core(folded: FoldedOperator) -> None:
    @settings(max_examples=200)
    @given(cases(folded))
    def agrees(case: Case) -> None:
        case.check()

    agrees()
