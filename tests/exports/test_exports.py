"""Networks as people have them: they are taken, and mean what onnxruntime computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.border_models import rearranged_at_the_border
from support.exports.verdicts import Comparison, compared, judged, proven
from support.random_exported_models import draw

SEEDS = (0, 2, 3, 4, 9, 13, 16, 21, 31)
MANY = range(1000, 1008)


def assert_near(comparison: Comparison) -> None:
    """One step at most; but for an average, the tie of which may fall the other way and be one in the next layers."""
    if comparison.averages:
        assert comparison.worst <= 4
    else:
        assert comparison.near >= 0.999 * comparison.values


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_networks(tmp_path: Path, seed: int) -> None:
    drawn = draw(seed, tmp_path)
    verdict = judged(drawn, samples=False)
    assert verdict.design is not None, (drawn, verdict.problems)
    assert_near(compared(drawn, verdict.network))
    assert not rearranged_at_the_border(verdict.network, mirrors=True)


def test_a_seed_is_one_network(tmp_path: Path) -> None:
    first, again = (draw(5, tmp_path / name) for name in ("first", "again") if not (tmp_path / name).mkdir())  # type: ignore[func-returns-value]
    assert first.path.read_bytes() == again.path.read_bytes() and repr(first) == repr(again)


@pytest.mark.slow
def test_most_of_many(tmp_path: Path) -> None:
    """With the quantizer's samples at hand; two circuits are proven."""
    verdicts = {drawn: judged(drawn, samples=True) for drawn in (draw(seed, tmp_path) for seed in MANY)}
    accepted = {drawn: verdict.network for drawn, verdict in verdicts.items() if verdict.design is not None}
    refused = {drawn: verdict.problems for drawn, verdict in verdicts.items() if verdict.design is None}
    assert len(accepted) >= 0.85 * len(MANY), refused
    for drawn, network in accepted.items():
        assert_near(compared(drawn, network))
        assert not rearranged_at_the_border(network, mirrors=True), drawn
    for drawn, network in list(accepted.items())[:2]:
        assert proven(drawn, network).agrees, drawn
