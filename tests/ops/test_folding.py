"""Folding types: their fields are their text; every operator has a narrowest one and knows what is too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onnx_hw.ops.folding import EvenFolding, MultiplierKind, SlidingFolding, spelled
from onnx_hw.ops.matmul import MatMulFolding
from onnx_hw.ops.rearrange import RearrangeFolding
from onnx_hw.ops.requantize import RequantizeFolding
from support import core_tests
from support.operator_facts import beside

CASES = core_tests.collect("CASES")
EVERY = core_tests.operator_files()


def test_what_is_said() -> None:
    assert RequantizeFolding(3).said() == {"lanes": 3}
    assert RequantizeFolding(3, 7).said() == {"lanes": 3, "steps": 7}
    assert RequantizeFolding(3).numbers() == {"lanes": 3, "steps": 1, "pixels": 1, "tile": 0, "blocks": 0, "quick": 0}
    assert RequantizeFolding.required() == ("lanes",)
    some = (EvenFolding(4), SlidingFolding(4, 7), RequantizeFolding(1, 7, 2))
    assert [repr(folding) for folding in some] == ["4", "4×7", "1, 2 pixels, 7 steps"]
    assert repr(RequantizeFolding(2, blocks=1, quick=1)) == "2, in block RAM, of few stages"
    several = (SlidingFolding(1, 9, 2, 2), SlidingFolding(1, 9, 4, 2), RearrangeFolding(2, 3, in_tile=4))
    assert [repr(folding) for folding in several] == ["1×9, 2 pixels", "1×9, 4 to 2 pixels", "2×3, in tile 4"]
    assert repr(RearrangeFolding(2, 3, in_tile=1, out_tile=2)) == "2×3, out tile 2"
    kinds = (MatMulFolding(4, 7), MatMulFolding(4, 7, 2, multiplier=MultiplierKind.LOGIC))
    assert [repr(folding) for folding in kinds] == ["4×7", "4×7, 2 pixels, in logic"]
    assert kinds[1].said() == {"in_lanes": 4, "out_lanes": 7, "pixels": 2, "multiplier": MultiplierKind.LOGIC}
    assert spelled({"in_lanes": 2, "out_lanes": 1, "steps": 1}) == "2×1"


@pytest.mark.parametrize("core", EVERY)
def test_every_operator_knows_its_own(core: str) -> None:
    operator = CASES[core].operator
    narrow, limits = operator.narrowest, operator.limits()
    assert type(narrow) is type(CASES[core].folding) is operator.folding_type
    assert set(narrow.names()) - set(limits) <= {"tile", "in_tile", "out_tile", "multiplier", "blocks", "quick"}
    assert operator.illegal(narrow) == ""
    for name, most in limits.items():
        for number in (0, most + 1):
            assert name in operator.illegal(replace(narrow, **{name: number}))


@pytest.mark.parametrize("core", EVERY)
def test_the_narrowest_is_the_slowest_and_the_search_knows_it(core: str) -> None:
    operator = CASES[core].operator
    slowest = operator.cycles(operator.narrowest)
    found = list(operator.foldings(slowest, *beside(operator, 1, 1)))
    assert found and all(operator.cycles(folding) <= slowest for folding in found)
    assert all(operator.illegal(folding) == "" for folding in found)
