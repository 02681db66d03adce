"""What drawn cores are said to cost, against real synthesis. More of them: ``benchmarks/estimates.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.estimate_cases import FAMILIES, FAR, FEW, Estimate, made_of, said_of
from support.random_cores import drawn

SEED = 5  # what was fitted, was fitted on other draws
CORES = 12

ON_ICE40 = (34, 85, 136, 187)
"""Some of them; 85 has products of factors that are wider than a multiplier there."""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, 18 * CORES, 17))
def test_said_is_made(number: int, tmp_path: Path) -> None:
    core, chips = drawn(SEED, number), FAMILIES["ice40" if number in ON_ICE40 else "ecp5"]
    one = Estimate(said_of(core, chips), made_of(core, tmp_path / "build", chips))
    assert one.exact and not one.far, f"{core}: {one}"
    assert all(
        abs(ratio - 1) <= FAR for ratio, made in zip(one.ratios, (one.made.lut, one.made.ff), strict=True) if made > FEW
    )
