"""Block RAMs of designs: bits that their memories need, and bits of the block RAMs that they take.

    nice python benchmarks/block_ram.py FOLDER [NAME ...] [--board ecp5] [--multipliers N]

Schedules each model ``FOLDER/NAME/*.onnx``, or all of a folder, on a board; ``inputs.npz`` beside a model are the
samples to quantize it with, where it has floats. Prints, by model and in all, for each kind of memory in block RAM, the
bits needed and taken: ``constants`` (weights and tables), ``data`` (lines, rings and others that a core writes) and
``FIFOs``. A core needs the words of its memories, a FIFO its tokens. Memories in look-up tables count for nothing. A
folder that is not there has no models.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from onnx_hw import flow
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw_boards.demand import Demand, Memory

KINDS = ("constants", "data", "FIFOs")
SAMPLES = 32
"""Number of samples that a model in floats is quantized with."""

Bits = dict[str, tuple[int, int]]
"""Bits needed and taken, by kind of memory."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--board", default="ecp5")
    parser.add_argument("--multipliers", type=int, metavar="N", help="as of onnx-hw build")
    asked = parser.parse_args()
    paths = sorted(path for path in asked.folder.glob("*/*.onnx") if not asked.names or path.parent.name in asked.names)
    needed, taken = Counter[str](), Counter[str]()
    for path in paths:
        try:
            design = flow.schedule(quantized(path), asked.board, ScheduleRequest(multipliers=asked.multipliers))
        except UserError as error:
            print(f"{path.parent.name:36} {error.problems[0].message}", flush=True)
            continue
        bits = bits_of(design)
        for kind, (few, many) in bits.items():
            needed[kind] += few
            taken[kind] += many
        print(f"{path.parent.name:36} {row(bits)}", flush=True)
    print(f"{'all':36} {row({kind: (needed[kind], taken[kind]) for kind in KINDS})}")


def quantized(path: Path) -> Network:
    """Return the integer network of a model, with the samples beside it where it needs some."""
    model = flow.read(path)
    try:
        return flow.quantize(model)
    except UserError:
        samples = np.load(path.parent / "inputs.npz")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return flow.quantize(model, {name: samples[name][:SAMPLES] for name in samples.files})


def bits_of(design: Design) -> Bits:
    """Return the bits of the memories in block RAM that a design needs and takes, by kind."""
    needed, taken = Counter[str](), Counter[str]()
    family = design.target.board.family
    for node in design.network.nodes:
        for memory, count in node.operator.demand(design.folding(node)).all(Memory):
            blocks = family.cost(Demand.of(memory)).bram
            if blocks:
                kind = "constants" if memory.constant else "data"
                needed[kind] += count * memory.columns(1) * memory.depth
                taken[kind] += count * blocks * family.bram_bits
    edges = {edge.tensor: edge for edge in design.edges()}
    for tensor, cost in design.fifo_costs().items():
        if cost.bram:
            needed["FIFOs"] += edges[tensor].bits * design.fifos[tensor].depth
            taken["FIFOs"] += cost.bram * family.bram_bits
    return {kind: (needed[kind], taken[kind]) for kind in KINDS}


def row(bits: Bits) -> str:
    """Return a line of a table: bits needed and taken of each kind, and of all, with their share."""
    whole = tuple(map(sum, zip(*bits.values(), strict=True)))
    cells = [*bits.items(), ("all", whole)]
    return "  ".join(
        f"{kind} {few:,} / {many:,} ({few / many:.0%})" if many else f"{kind} none" for kind, (few, many) in cells
    )


if __name__ == "__main__":
    main()
