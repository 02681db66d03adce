"""Intervals against their bound: how much of the lanes does useful work, with products cut in two and without.

    nice python benchmarks/intervals.py [NETWORKS] [--models FOLDER NAME ... --lanes N ...]

The bound is the least interval at which the lanes would be enough if every node could use any number of them: with as
many as its multiply-accumulates in this interval, rounded up. Draws NETWORKS small networks (30 unless given) of three
kinds and prints the mean and the least share of the bound, ``bound / interval``, for each number of lanes. For each
named model, ``FOLDER/NAME/*.onnx`` with integers, prints both intervals and what the designs take on ``ecp5``.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.ir.target import DesignTarget
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.schedule_for_board import clock_of, full_budget, target_budget
from onnx_hw.schedule.schedule_network import Designs
from support.hand_built_designs import Sketch

BOARD = "ecp5"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="?", type=int, default=30)
    parser.add_argument("--models", nargs="+", default=[], metavar="FOLDER NAME")
    parser.add_argument("--lanes", nargs="+", type=int, default=[])
    asked = parser.parse_args()
    for name in asked.models[1:]:
        (path,) = (Path(asked.models[0]) / name).glob("*.onnx")
        network = flow.quantized(flow.read(path), None).network
        for lanes in asked.lanes or [156, 320]:
            print_model(name, network, lanes)
    for lanes in asked.lanes or [40, 80, 156, 240]:
        pairs = [shares(drawn(np.random.default_rng(seed)), lanes) for seed in range(asked.networks)]
        known = np.array([pair for pair in pairs if pair is not None])
        if len(known):
            (whole, cut), (least_whole, least_cut) = known.mean(axis=0), known.min(axis=0)
            print(
                f"{len(known)} drawn networks, {lanes} lanes: {whole:.1%} of the bound without cuts (least "
                f"{least_whole:.1%}), {cut:.1%} (least {least_cut:.1%})"
            )


def bound_of(network: Network, lanes: int) -> int:
    """Return the least interval at which the lanes are enough if every node can use any number of them."""
    macs = [node.operator.macs for node in network.nodes if node.operator.macs]

    def enough(interval: int) -> bool:
        return sum(-(-count // interval) for count in macs) <= lanes

    return bisect_left(range(sum(macs) + 1), True, 1, key=enough)


def without_cuts(network: Network, lanes: int) -> Design | None:
    """Return the fastest design of whole products."""
    board = find_board(BOARD)
    target = DesignTarget(board, clock_of(board, None))
    shell = shell_cells(network, board, target.clock_mhz)
    rooms = target_budget(board, lanes, shell), full_budget(board, lanes, shell)
    fitting = Designs(insert_forks(network)).within(*rooms, target, None)
    return None if fitting is None else fitting[0]


def shares(network: Network, lanes: int) -> tuple[float, float] | None:
    """Return the shares of the bound without cuts and as scheduled; None where other things than lanes are scarce."""
    whole = without_cuts(network, lanes)
    if whole is None:
        return None
    bound = bound_of(network, lanes)
    chosen = flow.schedule(network, BOARD, ScheduleRequest(multipliers=lanes))
    return bound / whole.interval, bound / chosen.interval


def print_model(name: str, network: Network, lanes: int) -> None:
    """Print both intervals, their shares of the bound, and look-up tables and block RAMs of both designs."""
    bound = bound_of(network, lanes)
    try:
        designs = without_cuts(network, lanes), flow.schedule(network, BOARD, ScheduleRequest(multipliers=lanes))
    except UserError as error:
        print(f"{name}, {lanes} lanes: {error.problems[0].message}")
        return
    for said, design in zip(("whole", "chosen"), designs, strict=True):
        if design is not None:
            used = design.with_fifos()
            print(
                f"{name}, {lanes} lanes, {said}: interval {design.interval:,} of {bound:,}, "
                f"{bound / design.interval:.1%}; {used.mac_lanes} lanes, {used.lut:,} LUTs, {used.ff:,} flip-flops, "
                f"{used.bram} block RAMs"
            )


def drawn(random: np.random.Generator) -> Network:
    """Return products in a chain, convolutions in a chain, or depthwise and pointwise convolutions in turn."""
    sketch, kind = Sketch(), int(random.integers(3))
    side = 1 if kind == 0 else int(random.integers(5, 17))
    channels = int(random.integers(8, 161 if kind == 0 else 33))
    x = sketch.input("x", Tensor((side, side, channels), Int(8)))

    def product(outputs: int) -> MatMul:
        return MatMul(sketch.tensors[x], random.integers(-128, 128, (outputs, sketch.tensors[x].channels)))

    for _ in range(int(random.integers(3, 8))):
        if kind == 1:
            window = Window(sketch.tensors[x], (3, 3), pads=(1, 1, 1, 1))
            (x,) = sketch.add(f"core{len(sketch.nodes)}", window, [x], window.narrowest, 1)
        outputs = int(random.integers(8, 161 if kind == 0 else 97))
        operator = product(outputs)
        (x,) = sketch.add(f"core{len(sketch.nodes)}", operator, [x], operator.narrowest, 1)
        x = requantized(sketch, x)
        if kind == 2:
            kernels = random.integers(-128, 128, (outputs, 3, 3))
            depthwise = Depthwise(sketch.tensors[x], kernels, pads=(1, 1, 1, 1))
            (x,) = sketch.add(f"core{len(sketch.nodes)}", depthwise, [x], depthwise.narrowest, 1)
            x = requantized(sketch, x)
    return sketch.design().network


def requantized(sketch: Sketch, x: str) -> str:
    """Add a requantizer to 8 bits, and return its result."""
    operator = Requantize(sketch.tensors[x], (Fraction(1, 500),), (Fraction(0),), Grid.over(Int(8)))
    (result,) = sketch.add(f"core{len(sketch.nodes)}", operator, [x], operator.narrowest, 1)
    return result


if __name__ == "__main__":
    main()
