"""Look-up tables and flip-flops for each lane of a network, by operator.

    nice python benchmarks/cells_per_lane.py MODEL [--lanes N ...] [--board NAME] [--synthesized FOLDER]

Schedules the model, an ONNX file with integers, at each number of lanes, and prints what the design takes as estimated:
in all and for each lane, then for all cores of an operator together and for the FIFOs. With ``--synthesized`` yosys
counts the cells of the cores, with the FIFOs behind them; what it makes is kept in the folder.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import assemble, module_names, to_rtlil
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.ir.design import Design
from onnx_hw.ops.outbox import outbox_demand
from onnx_hw.runtime.build_folder import opened
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.families.family import Family
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.target import Target

FIFOS = "FIFOs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--lanes", nargs="+", type=int, default=[156, 300])
    parser.add_argument("--board", default="ecp5")
    parser.add_argument("--synthesized", type=Path, metavar="FOLDER", help="folder for what yosys makes")
    asked = parser.parse_args()
    network = flow.quantized(flow.read(asked.model), None).network
    family = find_board(asked.board).device.family
    for lanes in asked.lanes:
        design = flow.schedule(network, asked.board, ScheduleRequest(multipliers=lanes))
        if asked.synthesized is None:
            cells = estimated(design, family)
        else:
            cells = synthesized(design, family, asked.synthesized / str(lanes))
        print_table(design, cells)


def estimated(design: Design, family: Family) -> dict[str, Cells]:
    """Return the estimated cells of all cores of an operator, and of all FIFOs."""
    cells: dict[str, Cells] = defaultdict(Cells)
    for node in design.network.nodes:
        cells[type(node.operator).__name__] += family.cost(node.operator.demand(design.folding(node)))
    for edge in design.edges():
        if edge.producer is not None:
            demand = outbox_demand(edge.bits, design.fifos[edge.tensor].depth, family.deepest_at_once)
            cells[FIFOS] += family.cost(demand)
    return cells


def synthesized(design: Design, family: Family, folder: Path) -> dict[str, Cells]:
    """Return the cells that yosys makes of all cores of an operator."""
    assembly, _ = assemble(design)
    with opened(folder) as build:
        counted = synthesize(build, to_rtlil(Shell(assembly), Target(family.primitives())), family).cores
    modules, cells = module_names(design), defaultdict[str, Cells](Cells)
    for node in design.network.nodes:
        cells[type(node.operator).__name__] += counted[modules[node.name]]
    return cells


def print_table(design: Design, cells: dict[str, Cells]) -> None:
    """Print the interval, the cells of a lane, and those of each kind of core."""
    lanes, total = design.with_fifos().mac_lanes, sum(cells.values(), Cells())
    print(
        f"{lanes} lanes, {design.interval:,} cycles a frame: "
        f"{total.lut:,} look-up tables ({total.lut / lanes:.1f} a lane), "
        f"{total.ff:,} flip-flops ({total.ff / lanes:.1f} a lane), {total.dsp} multipliers, {total.bram} block RAMs"
    )
    for name, its_own in sorted(cells.items(), key=lambda item: -item[1].lut):
        print(f"  {name:12} {its_own.lut:7,} {its_own.ff:7,} {its_own.dsp:4} {its_own.bram:4}")


if __name__ == "__main__":
    main()
