"""What whole builds are said to take of their chips, shells included, against what yosys makes of them.

    nice python benchmarks/whole_estimates.py [MODEL] [--boards NAME ...]

For each board: the estimate over the count, in look-up tables and in flip-flops, of everything and of what stands
around the network alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import onnx_hw_boards
from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.assemble.shell_area import cells_of_shell
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.runtime.build_folder import opened
from onnx_hw.schedule.schedule_for_board import schedule_for_board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.linked_board import LinkedBoard
from support.estimate_cases import Estimate
from support.fixture_paths import EXAMPLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, default=EXAMPLES / "digits" / "digits.onnx")
    parser.add_argument("--boards", nargs="+", choices=onnx_hw_boards.names(), default=list(onnx_hw_boards.names()))
    given = parser.parse_args()
    network = flow.quantize(flow.read(given.model))
    for name in given.boards:
        board = find_board(name)
        design, _ = schedule_for_board(board, network)
        told = design.with_fifos()
        said = Cells(told.lut, told.ff, told.dsp, told.bram, told.logic)
        around = Cells()
        if isinstance(board, LinkedBoard):
            around = cells_of_shell(link_of(design, design.clock_mhz), board, design.clock_mhz)
        with TemporaryDirectory() as folder, opened(Path(folder) / "build") as build:
            made = synthesize(build, netlist_of(design, board).rtlil, board.family)
        cores = sum(made.cores.values(), Cells())
        shell = Cells(made.used.lut - cores.lut, made.used.ff - cores.ff, 0, made.used.bram - cores.bram)
        print(f"{name:16} {Estimate(said + around, made.used)}", flush=True)
        print(f"{'':16} {Estimate(around, shell)} around the network", flush=True)
        if made.used.logic:
            print(f"{'':16} logic cells {said.logic + around.logic}/{made.used.logic}", flush=True)


if __name__ == "__main__":
    main()
