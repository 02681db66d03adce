"""A requantizer takes what it is said to take: no multipliers, the block RAMs, about as many look-up tables."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest

from onnx_hw.assemble.elaborate import assemble, to_rtlil
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.requantize import Requantize, RequantizeFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.target import Target
from support.estimate_cases import FAMILIES, Estimate, made_of, said_of
from support.hand_built_designs import alone
from support.random_cores import Drawn


def requantize(channels: int) -> Requantize:
    """As after a convolution: 21-bit sums, of which each channel uses another part."""
    draw = random.Random(channels)
    scales = tuple(Fraction(draw.randrange(400, 3000), 1000003) for _ in range(channels))
    offsets = tuple(Fraction(draw.randrange(-(10**5), 10**5), 10**3) for _ in range(channels))
    return Requantize(Tensor((6, 6, channels), Int(21)), scales, offsets, Grid.over(Int(8), zero_point=-128))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channels", "folding"),
    [
        (16, RequantizeFolding(1)),
        (16, RequantizeFolding(4, 7)),
        (64, RequantizeFolding(1, 13)),
        (256, RequantizeFolding(1, 5)),
    ],
    ids=str,
)
def test_size(channels: int, folding: Folding, tmp_path: Path) -> None:
    operator = requantize(channels)
    assembly, _ = assemble(alone(operator, folding, 4))
    with opened(tmp_path / "build") as folder:
        made = synthesize(folder, to_rtlil(Shell(assembly), Target(ECP5.primitives())), ECP5)
    told = operator.resources(folding)
    assert (made.used.dsp, made.used.bram) == (0, told.bram)
    assert 1 / 1.3 < made.used.lut / told.lut < 1.3


@pytest.mark.slow
def test_pixels_side_by_side_have_one_table_of_constants_where_copies_are_merged(tmp_path: Path) -> None:
    core = Drawn("requantize", requantize(64), RequantizeFolding(1, 12, 4), 3)
    one = Estimate(said_of(core, FAMILIES["ice40"]), made_of(core, tmp_path / "build", FAMILIES["ice40"]))
    assert one.close and one.exact, one
