"""What drawn cores are said to cost, against real synthesis. More of them: ``benchmarks/estimates.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.estimate_cases import FAMILIES, FAR, FEW, Estimate, made_of, said_of
from support.random_cores import drawn, kinds

SEED = 5  # what was fitted, was fitted on other draws
IN_BLOCKS = ("matmul_in_blocks", "requantize_in_blocks")
"""Kinds that are offered on iCE40 alone, whose block RAMs are small."""

ON_ICE40 = ("matmul", "multiply", "requantize", "rearrange", *IN_BLOCKS)
"""Kinds that are measured there too; ``multiply`` has factors that are wider than a multiplier there."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "family"),
    [*((kind, "ecp5") for kind in kinds() if kind not in IN_BLOCKS), *((kind, "ice40") for kind in ON_ICE40)],
)
def test_said_is_made(kind: str, family: str, tmp_path: Path) -> None:
    core, chips = drawn(kind, SEED, 0), FAMILIES[family]
    one = Estimate(said_of(core, chips), made_of(core, tmp_path / "build", chips))
    assert one.exact and not one.far, f"{core}: {one}"
    assert all(
        abs(ratio - 1) <= FAR for ratio, made in zip(one.ratios, (one.made.lut, one.made.ff), strict=True) if made > FEW
    )
