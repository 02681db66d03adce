"""A regroup with the FIFO behind it takes about as many look-up tables as is said, and no block RAM."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_hw.assemble.elaborate import assemble, to_rtlil
from onnx_hw.exact.integers import Int
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.target import Target
from support.hand_built_designs import alone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channels", "folding"),
    [(1, RegroupFolding(1, 1, 4)), (8, RegroupFolding(2, 2, 4)), (16, RegroupFolding(16, 4, 1))],
    ids=str,
)
def test_size(channels: int, folding: RegroupFolding, tmp_path: Path) -> None:
    design = alone(Regroup(Tensor((4, 8, channels), Int(8))), folding, 4)
    assembly, _ = assemble(design)
    with opened(tmp_path / "build") as folder:
        made = synthesize(folder, to_rtlil(Shell(assembly), Target(ECP5.primitives())), ECP5)
    told = design.with_fifos()
    assert (made.used.dsp, made.used.bram) == (told.dsp, told.bram) == (0, 0)
    assert 0.75 < made.used.lut / told.lut < 1.25
