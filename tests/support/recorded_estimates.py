"""A table of what cores of every kind are said to cost on every family: one line a core, four counts a family."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from support.estimate_cases import FAMILIES, said_of
from support.random_cores import drawn, kinds

RECORDED = Path(__file__).parents[1] / "assemble" / "recorded_estimates.txt"
SEED, OF_EACH_KIND = 1, 15


def lines() -> Iterator[str]:
    yield "look-up tables, flip-flops, multipliers, block RAMs on " + ", ".join(FAMILIES)
    for kind, number in product(kinds(), range(OF_EACH_KIND)):
        core = drawn(kind, SEED, number)
        counts = (said_of(core, family) for family in FAMILIES.values())
        columns = "  ".join(f"{said.lut:5} {said.ff:5} {said.dsp:3} {said.bram:3}" for said in counts)
        yield f"{core.name:16}{number:2} {columns}"
