"""A small chip whose netlist and bitstream are recorded: a product with its weights in a block RAM, and a deep FIFO.

``python tests/support/recorded_bitstream.py`` records it again: after a change of the circuit, the netlist that is
recorded is another one than the design's.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.exact.integers import Int
from onnx_hw.implement.route import BITSTREAM, RouteResult, Utilisation
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.ir.design import Design
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.build_folder import Made, opened
from support.hand_built_designs import alone
from support.targets import on_board

FOLDER = Path(__file__).parent.parent / "prove" / "circuit" / "recorded_bitstream"
BOARD = "ecp5"


def design_of(seed: int = 1) -> Design:
    """With other weights for another seed."""
    weights = np.random.default_rng(seed).integers(-128, 128, (18, 18))
    return on_board(alone(MatMul(Tensor((2, 2, 18), Int(6)), weights), (1, 1), 200), find_board(BOARD))


@dataclass(frozen=True)
class RecordedChip:
    """The chip, as it was recorded."""

    design: Design
    chip: Netlist
    netlist: Path
    routed: RouteResult
    data: bytes


def recorded(folder: Path) -> RecordedChip:
    """Read the record; its netlist is written into a folder."""
    design = design_of()
    netlist = folder / "netlist.json"
    netlist.write_bytes(lzma.decompress((FOLDER / "netlist.json.xz").read_bytes()))
    sites = {name: Utilisation(count, count) for name, count in json.loads((FOLDER / "sites.json").read_text()).items()}
    routed = RouteResult(100.0, 80.0, sites, (), find_board(BOARD), netlist, Made(folder, "", False, {}))
    data = lzma.decompress((FOLDER / "top.bit.xz").read_bytes())
    return RecordedChip(design, flow.assemble(design), netlist, routed, data)


def bare(module: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a module what no cell needs."""
    cells = {
        name: {key: value for key, value in cell.items() if key != "attributes"}
        for name, cell in module["cells"].items()
    }
    return {**module, "cells": cells, "netnames": {}}


def record() -> None:
    chip = flow.assemble(design_of())
    with tempfile.TemporaryDirectory() as place, opened(Path(place)) as folder:
        synthesized = synthesize(folder, chip.rtlil, chip.family)
        routed = flow.route(synthesized, chip, folder)
        data = (flow.pack(routed, folder).folder / BITSTREAM).read_bytes()
        write(synthesized.netlist.read_text(), {name: sites.used for name, sites in routed.utilisation.items()}, data)


def write(netlist: str, sites: dict[str, int], data: bytes) -> None:
    modules = {name: bare(module) for name, module in json.loads(netlist)["modules"].items() if name.startswith("top")}
    text = json.dumps({"modules": modules}, separators=(",", ":"))
    (FOLDER / "netlist.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
    (FOLDER / "sites.json").write_text(json.dumps({name: count for name, count in sites.items() if count}) + "\n")
    (FOLDER / "top.bit.xz").write_bytes(lzma.compress(data, preset=9))
    with tempfile.TemporaryDirectory() as place:  # Project Trellis' own reading of it
        (Path(place) / "top.bit").write_bytes(data)
        command = ["yowasp-ecpunpack", "--input", "top.bit", "--textcfg", "top.config"]
        subprocess.run(command, cwd=place, check=True, capture_output=True)
        (FOLDER / "ecpunpack.config.xz").write_bytes(lzma.compress((Path(place) / "top.config").read_bytes(), preset=9))


if __name__ == "__main__":
    record()
