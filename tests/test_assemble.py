"""The netlist as text."""

from __future__ import annotations

import re

from onnx_hw.assemble import assemble, to_rtlil
from onnx_hw.exact.integers import Int
from onnx_hw.ops.fork import Fork
from onnx_hw.tensor import Tensor
from sketched_designs import alone


def test_no_name_can_be_taken_for_a_bit_of_another() -> None:
    """``payload[2]`` would be both the third element and the third bit of ``payload``."""
    text = to_rtlil(assemble(alone(Fork(Tensor((2, 2, 4), Int(8))), (4, 4), 2))[0])
    names = set(re.findall(r"^ *wire .*(\\\S+)$", text, re.MULTILINE))
    assert {r"\i__payload", r"\i__payload.2"} <= names
    assert not [name for name in names if "[" in name]
