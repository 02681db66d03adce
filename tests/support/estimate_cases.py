"""What a drawn core is said to cost, and what yosys makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx_hw.assemble.elaborate import assemble, to_rtlil
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.ops.operator import OWN_RESET
from onnx_hw.ops.outbox import outbox_demand
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Demand
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.families.gowin.recipes import GOWIN
from onnx_hw_boards.families.gw5a.recipes import ARORA_V, ARORA_V_25
from onnx_hw_boards.families.ice40.recipes import ICE40_HX, ICE40_UP
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.target import Target
from support.random_cores import Drawn
from support.targets import with_deepest

FAMILIES = {"ecp5": ECP5, "ice40": ICE40_UP, "ice40hx": ICE40_HX, "gowin": GOWIN, "gw5a": ARORA_V, "gw5a25": ARORA_V_25}

CLOSE, FAR = 0.15, 0.30
FEW = 100
"""Cells of which so many more or less matter to nobody."""

OF_THE_SHELL = 2
"""Flip-flops, for the reset."""


@dataclass(frozen=True)
class Estimate:
    """Of one core."""

    said: Cells
    made: Cells

    @property
    def ratios(self) -> tuple[float, float]:
        """What is said over what is made: look-up tables, flip-flops."""
        return self.said.lut / max(1, self.made.lut), self.said.ff / max(1, self.made.ff)

    @property
    def close(self) -> bool:
        return all(abs(ratio - 1) <= CLOSE for ratio in self.ratios)

    @property
    def far(self) -> bool:
        pairs = zip(self.ratios, (self.made.lut, self.made.ff), strict=True)
        return any(abs(ratio - 1) > FAR for ratio, made in pairs if made > FEW)

    @property
    def exact(self) -> bool:
        """Multipliers and block RAMs, which are few."""
        return (self.said.dsp, self.said.bram) == (self.made.dsp, self.made.bram)

    def __str__(self) -> str:
        lut, ff = self.ratios
        said = f"LUT {self.said.lut:5}/{self.made.lut:5} {lut:5.2f}  FF {self.said.ff:5}/{self.made.ff:5} {ff:5.2f}"
        blocks = "" if self.exact else f"  {self.said.dsp}/{self.made.dsp} DSP, {self.said.bram}/{self.made.bram} BRAM"
        return said + ("" if self.close else "  far" if self.far else "  -") + blocks


def said_of(core: Drawn, family: Family = ECP5) -> Cells:
    """The estimate, with the FIFOs behind it."""
    demand: Demand = core.operator.demand(core.folding) + OWN_RESET
    for edge in core.design.edges():
        if edge.producer is not None:
            demand += outbox_demand(edge.bits, core.depth, family.deepest_at_once)
    return family.cost(demand)


def made_of(core: Drawn, folder: Path, family: Family = ECP5) -> Cells:
    """The cells that are left, as in a build."""
    assembly, _ = assemble(with_deepest(core.design, family.deepest_at_once))
    with opened(folder) as build:
        used = synthesize(build, to_rtlil(Shell(assembly), Target(family.primitives())), family).used
    return Cells(used.lut, used.ff - OF_THE_SHELL, used.dsp, used.bram)
