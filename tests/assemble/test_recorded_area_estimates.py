"""What many cores are said to cost stays what was written down, so that a change of any price or demand is seen.

Whether it is right is another question, which real synthesis answers (``benchmarks/estimates.py``). Where a change is
meant, ``python benchmarks/estimates.py --record`` writes the figures anew, and the difference shows what it does.
"""

from __future__ import annotations

from support.recorded_estimates import RECORDED, lines


def test_estimates_are_those_written_down() -> None:
    written, now = RECORDED.read_text(encoding="utf-8").splitlines(), list(lines())
    others = [f"- {then}\n+ {said}" for then, said in zip(written, now, strict=True) if then != said]
    told = "\n".join(others[:5])
    assert not others, f"{len(others)} of {len(now)} lines are others; if so meant, record them\n{told}"
