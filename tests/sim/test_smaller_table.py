"""A table of a netlist loses every input that changes nothing, so that two forms of one circuit look alike."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from onnx_hw_sim.gates.netlist import ONE, ZERO
from onnx_hw_sim.gates.program import smaller_table

NETS = (10, 11, 12)


def value(function: int, ins: list[int], levels: dict[int, int]) -> int:
    return function >> sum(levels[net] << place for place, net in enumerate(ins)) & 1


@given(st.lists(st.sampled_from((ZERO, ONE, *NETS)), max_size=4), st.integers(0, (1 << 16) - 1))
@example([ONE, *NETS], 0b1000_1000_0000_0000)  # the third changes nothing once the constant is gone
def test_no_input_is_left_that_changes_nothing(ins: list[int], function: int) -> None:
    function &= (1 << (1 << len(ins))) - 1
    left, smaller = smaller_table(ins, function)
    assert len(set(left)) == len(left) and set(left) <= set(ins).intersection(NETS)
    changed = set()
    for bits in product((0, 1), repeat=len(NETS)):
        levels = {ZERO: 0, ONE: 1, **dict(zip(NETS, bits, strict=True))}
        assert value(smaller, left, levels) == value(function, ins, levels)
        for net in left:
            if value(smaller, left, levels) != value(smaller, left, {**levels, net: 1 - levels[net]}):
                changed.add(net)
    assert changed == set(left)
