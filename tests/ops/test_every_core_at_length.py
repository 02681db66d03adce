"""More examples for all cores."""

from __future__ import annotations

import pytest

from support.long_runs import CORES, prove_core


@pytest.mark.slow
@pytest.mark.parametrize("name", CORES)
def test_core(name: str) -> None:
    prove_core(CORES[name], 30)
