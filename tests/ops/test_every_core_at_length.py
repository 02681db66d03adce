"""More examples for all cores."""

from __future__ import annotations

import pytest

from support.long_runs import STRATEGIES, prove_core


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_core(name: str) -> None:
    prove_core(STRATEGIES[name], 3)
