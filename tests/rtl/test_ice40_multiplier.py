"""Products as yosys maps them on an iCE40 UltraPlus: one multiplier each, even for a product that leaves at once."""

from __future__ import annotations

import json
from pathlib import Path

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from onnx_hw_rtl.arithmetic.multiplier import Multiplier, WideMultiplier
from onnx_hw_rtl.arithmetic.product import product
from onnx_hw_rtl.target import Target
from onnx_hw_tools import tools


class Products(Component):
    """Two products: one that leaves at once, and one that goes into a register first."""

    def __init__(self) -> None:
        super().__init__({name: In(8) for name in "abcd"} | {"p": Out(16), "q": Out(16)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.wide = wide = WideMultiplier(8, 8, a_signed=False, b_signed=False)
        shapes = self.c.shape(), self.d.shape()
        q = product(m, "q", self.c, self.d, shapes, latency=Multiplier.LATENCY + 1, in_logic=False)
        m.d.comb += [wide.a.eq(self.a), wide.b.eq(self.b), self.p.eq(wide.p), self.q.eq(q)]
        return m


def test_no_product_is_lost(tmp_path: Path) -> None:
    (tmp_path / "top.il").write_text(to_rtlil(Products(), Target(ICE40_UP.primitives())))
    script = "read_rtlil top.il; synth_ice40 -dsp -device u -top top; check; tee -q -o cells.json stat -json"
    tools.run(tools.find("yosys"), ["-q", "-l", "yosys.log", "-p", script], cwd=tmp_path, log=tmp_path / "output.log")
    cells = json.loads((tmp_path / "cells.json").read_text())["modules"]["\\top"]["num_cells_by_type"]
    assert cells["SB_MAC16"] == 2
    assert cells["SB_DFF"] == 16  # the last register of the product that leaves
    assert "has no driver" not in (tmp_path / "yosys.log").read_text()
