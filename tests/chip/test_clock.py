"""Circuits that close timing: a convolution on 24 multipliers, requantized, routed on the real chip."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.board import find_board
from onnx_hw.build_folder import opened
from onnx_hw.chip.fit import check_fit
from onnx_hw.chip.netlist import netlist_of
from onnx_hw.chip.route import route
from onnx_hw.chip.synthesize import synthesize
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.window import Window
from onnx_hw.passes.budget import Budget
from onnx_hw.passes.schedule_network import schedule_network
from onnx_hw.tensor import Tensor
from sketched_designs import Sketch


@pytest.mark.slow
def test_24_lanes_reach_100_mhz(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    sketch = Sketch()
    name = sketch.input("x", Tensor((16, 16, 16), Int(8)))
    for label, operator in (
        ("window", lambda t: Window(t, (3, 3), pads=(1, 1, 1, 1), pad_value=-3)),
        ("conv", lambda t: MatMul(t, generator.integers(-128, 128, (16, 144)))),
        ("quantize", lambda t: Requantize(t, scales(generator), (Fraction(0),), Grid.over(Int(8), zero_point=5))),
    ):
        (name,) = sketch.add(label, operator(sketch.tensors[name]), [name], (1, 1), 1)
    board = find_board("ecp5")
    design, _ = schedule_network(sketch.design().network, Budget(mac_lanes=24), clock_mhz=100)
    assert design.resources().mac_lanes == 24
    netlist = netlist_of(design, board)
    with opened(tmp_path / "build") as folder:
        synthesized = synthesize(folder, netlist.rtlil, board.family)
        check_fit(synthesized.used, board)
        routed = route(folder, synthesized, board, netlist.constraints, netlist.clock_mhz)
    assert routed.fmax_mhz >= 100, routed.critical_path


def scales(generator: np.random.Generator) -> tuple[Fraction, ...]:
    return tuple(Fraction(float(np.float32(s))) for s in generator.uniform(1e-4, 3e-4, 16))
