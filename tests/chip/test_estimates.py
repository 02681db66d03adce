"""What drawn cores are said to cost, against real synthesis. More of them: ``benchmarks/estimates.py``."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from drawn_cores import drawn
from estimated_cores import FAMILIES, FAR, FEW, Estimate, made_of, said_of

SEED = 5  # what was fitted, was fitted on other draws
CORES = 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "family"), list(zip(range(0, 18 * CORES, 17), cycle(("ecp5", "ecp5", "ice40")), strict=False))
)
def test_said_is_made(number: int, family: str, tmp_path: Path) -> None:
    core, chips = drawn(SEED, number), FAMILIES[family]
    one = Estimate(said_of(core, chips), made_of(core, tmp_path / "build", chips))
    assert one.exact and not one.far, f"{core}: {one}"
    assert all(
        abs(ratio - 1) <= FAR for ratio, made in zip(one.ratios, (one.made.lut, one.made.ff), strict=True) if made > FEW
    )
