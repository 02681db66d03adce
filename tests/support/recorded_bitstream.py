"""A small circuit whose netlist and bitstream are recorded: a product with its weights in a block RAM, and a deep FIFO.

``python tests/support/recorded_bitstream.py`` records it again on all boards: after a change of the circuit, the
netlist that is recorded is another one than the design's. ``python tests/support/recorded_bitstream.py up5k`` does one.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
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
from onnx_hw_boards.linked_board import LinkedBoard
from support.hand_built_designs import alone
from support.targets import on_board

FOLDER = Path(__file__).parent.parent / "prove" / "circuit" / "recorded_bitstream"
_ECPUNPACK = ["yowasp-ecpunpack", "--input", "top.bit", "--textcfg", "unpacked"], "ecpunpack.config.xz"
UNPACKERS = {
    "ecp5": _ECPUNPACK,
    "ulx3s": _ECPUNPACK,
    "up5k": (["yowasp-iceunpack", "top.bit", "unpacked"], "iceunpack.asc.xz"),
}
"""By board, the other unpacker whose reading is recorded, too, and the file with it."""


def design_of(seed: int = 1, board: str = "ecp5") -> Design:
    """With other weights for another seed."""
    weights = np.random.default_rng(seed).integers(-128, 128, (18, 18))
    target = find_board(board)
    clock_mhz = target.default_clock_mhz if isinstance(target, LinkedBoard) else None
    return on_board(alone(MatMul(Tensor((2, 2, 18), Int(6)), weights), (1, 1), 200), target, clock_mhz)


@dataclass(frozen=True)
class RecordedChip:
    """The chip, as it was recorded."""

    design: Design
    chip: Netlist
    netlist: Path
    routed: RouteResult
    data: bytes


def recorded(folder: Path, board: str = "ecp5") -> RecordedChip:
    """Read the record of a board; its netlist is written into a folder."""
    design, record = design_of(board=board), FOLDER / board
    netlist = folder / "netlist.json"
    netlist.write_bytes(lzma.decompress((record / "netlist.json.xz").read_bytes()))
    sites = {name: Utilisation(count, count) for name, count in json.loads((record / "sites.json").read_text()).items()}
    routed = RouteResult(100.0, 80.0, sites, (), find_board(board), netlist, Made(folder, "", False, {}))
    data = lzma.decompress((record / "top.bit.xz").read_bytes())
    chip = flow.assemble(design)
    if chip.link is not None:  # the digest is that of the circuit as it was
        digest = bytes.fromhex((record / "digest").read_text())
        chip = replace(chip, link=replace(chip.link, digest=digest))
    return RecordedChip(design, chip, netlist, routed, data)


def unpacked_by_others(board: str) -> str:
    """Return what the other unpacker made of the bitstream."""
    return lzma.decompress((FOLDER / board / UNPACKERS[board][1]).read_bytes()).decode()


def bare(module: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a module what no cell needs."""
    cells = {
        name: {key: value for key, value in cell.items() if key != "attributes"}
        for name, cell in module["cells"].items()
    }
    return {**module, "cells": cells, "netnames": {}}


def record(board: str) -> None:
    chip = flow.assemble(design_of(board=board))
    with tempfile.TemporaryDirectory() as place, opened(Path(place)) as folder:
        synthesized = synthesize(folder, chip.rtlil, chip.family)
        routed = flow.route(synthesized, chip, folder)
        data = (flow.pack(routed, folder).folder / BITSTREAM).read_bytes()
        counts = {name: sites.used for name, sites in routed.utilisation.items()}
        write(board, synthesized.netlist.read_text(), counts, data)
        if chip.link is not None:
            (FOLDER / board / "digest").write_text(f"{chip.link.digest.hex()}\n")


def write(board: str, netlist: str, sites: dict[str, int], data: bytes) -> None:
    place = FOLDER / board
    place.mkdir(exist_ok=True)
    modules = {name: bare(module) for name, module in json.loads(netlist)["modules"].items() if name.startswith("top")}
    text = json.dumps({"modules": modules}, separators=(",", ":"))
    (place / "netlist.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
    (place / "sites.json").write_text(json.dumps({name: count for name, count in sites.items() if count}) + "\n")
    (place / "top.bit.xz").write_bytes(lzma.compress(data, preset=9))
    command, name = UNPACKERS[board]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "top.bit").write_bytes(data)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        (place / name).write_bytes(lzma.compress((Path(folder) / "unpacked").read_bytes(), preset=9))


if __name__ == "__main__":
    for board in sys.argv[1:] or UNPACKERS:
        record(board)
