"""What products of look-up tables take of a chip: yosys' count beside what the compiler reckons with.

    python benchmarks/soft_multipliers.py [--family NAME] [--widest BITS] [--constants N]

One row for each width of an operand, one column for each of the other: look-up tables, and the estimate behind them.
Then N known integers of 8 bits, drawn.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib.wiring import Component

import onnx_hw_boards
from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand.soft_multipliers import known_products_demand, product_demand
from onnx_hw.ops.operator import priced
from onnx_hw.runtime.options import DEFAULT_BOARD
from onnx_hw_rtl.arithmetic.constant_multiplier import ConstantMultiplier
from onnx_hw_rtl.arithmetic.soft_multiplier import SoftMultiplier
from onnx_hw_rtl.target import Target
from onnx_hw_tools import tools

CELLS = {"LUT4": 1, "CCU2C": 2, "SB_LUT4": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--family",
        default=onnx_hw_boards.board(DEFAULT_BOARD).family.folder,
        help="that yosys has a synth_ command for",
    )
    parser.add_argument("--widest", type=int, default=8, help="bits of an operand")
    parser.add_argument("--constants", type=int, default=20, metavar="N")
    given = parser.parse_args()
    bits = range(1, given.widest + 1)
    print("bits" + "".join(f"{b:>10}" for b in bits))
    for a in bits:
        counts = count([SoftMultiplier(a, b) for b in range(1, a + 1)], given.family)
        print(f"{a:>4}" + "".join(f"{n:>5} {estimated(a, b):>4}" for b, n in enumerate(counts, 1)), flush=True)
    known = random.Random(0).sample([c for c in range(-128, 128) if c], given.constants)
    counts = count([ConstantMultiplier(8, c) for c in known], given.family)
    estimates = [priced(known_products_demand(8, np.array([c])), 1).lut for c in known]
    for told in zip(known, counts, estimates, strict=True):
        print("times {:>4}: {:>3} look-up tables, {:>3} estimated".format(*told))
    print(f"together: {sum(counts)}, {sum(estimates)} estimated")


def estimated(a: int, b: int) -> int:
    return priced(product_demand(Int(a), Int(b), in_logic=True), 1).lut


def count(blocks: Sequence[Component], family: str) -> list[int]:
    """Look-up tables of each."""
    top = Module()
    for k, block in enumerate(blocks):
        top.submodules[f"block{k}"] = block
    ports = [port for block in blocks for name in ("a", "b", "p") if (port := getattr(block, name, None)) is not None]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        netlist = rtlil.convert(
            top,
            ports=ports,
            platform=Target(import_module(f"onnx_hw_boards.families.{family}.primitives").PRIMITIVES),
            name="top",
        )
        (place / "top.il").write_text(netlist)
        script = f"read_rtlil top.il; synth_{family} -top top -noflatten; tee -q -o cells.json stat -json"
        tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=place, log=place / "yosys.log")
        modules = json.loads((place / "cells.json").read_text())["modules"]

    def look_up_tables_in(name: str) -> int:
        cells = modules[name]["num_cells_by_type"]
        below = sum(number * look_up_tables_in(f"\\{k}") for k, number in cells.items() if f"\\{k}" in modules)
        return below + sum(CELLS.get(kind, 0) * number for kind, number in cells.items())

    return [look_up_tables_in(f"\\top.block{k}") for k in range(len(blocks))]


if __name__ == "__main__":
    main()
