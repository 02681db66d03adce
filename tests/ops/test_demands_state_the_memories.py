"""The memories that a core demands are those of its circuit: which of them are block RAMs depends on each one."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from drawn_cores import KINDS, drawn
from onnx_hw.assemble import to_rtlil
from onnx_hw_boards.demand import Memory
from onnx_hw_rtl.target import Target

WRITTEN = re.compile(r"^  memory width (\d+) size (\d+) \\(?:ring|vector|weights)\w*", re.M)
WITH_SOME = ("window", "pool", "depthwise", "matmul", "product_of_two", "rearrange")


@pytest.mark.parametrize("kind", WITH_SOME)
def test_memories_that_are_written(kind: str) -> None:
    for turn in range(2):
        core = drawn(41, list(KINDS).index(kind) + turn * len(KINDS))
        stated = core.operator.demand(core.folding).all(Memory)
        said = Counter[tuple[int, int]]()
        for part, count in stated:
            if not part.constant:
                said[part.width, part.depth] += count
        depths = dict.fromkeys(core.operator.outputs, 2)
        rtlil = to_rtlil(core.operator.core(core.folding, depths), Target("ice40"))
        assert said == Counter((int(width), int(size)) for width, size in WRITTEN.findall(rtlil)), core
