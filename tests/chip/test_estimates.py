"""What drawn cores are said to cost, against real synthesis. More of them: ``benchmarks/estimates.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawn_cores import drawn
from estimated_cores import FAR, FEW, Estimate, made_of, said_of

SEED = 5  # what was fitted, was fitted on other draws
CORES = 12


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, 18 * CORES, 17))
def test_said_is_made(number: int, tmp_path: Path) -> None:
    core = drawn(SEED, number)
    one = Estimate(said_of(core), made_of(core, tmp_path / "build"))
    assert one.exact and not one.far, f"{core}: {one}"
    assert all(
        abs(ratio - 1) <= FAR for ratio, made in zip(one.ratios, (one.made.lut, one.made.ff), strict=True) if made > FEW
    )
