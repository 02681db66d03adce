"""Cycles a step of recurrent layers, against what the products of a step take at least.

    nice python benchmarks/recurrent_cells.py [CELL ...] [--steps N]

A cell is ``GRU:units:lanes``, ``GRU0:units:lanes`` (without ``linear_before_reset``), ``LSTM:units:lanes`` or
``RNN:units:lanes``; it has 10 inputs and random weights, and is scheduled for ``ecp5``. Prints the lanes that it takes,
the cycles of a step, by the firing law, the products with the state divided by the lanes, plus 80 cycles, and the
cycles from frame to frame divided by the steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_hw import flow
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.runtime.schedule_request import ScheduleRequest
from support.recurrent_models import GATES, RecurrentNode

CELLS = ("GRU:32:32", "GRU0:32:32", "GRU:64:66", "GRU0:64:66")

INPUTS, AROUND = 10, 80
"""Channels of the data; cycles that a step may take beside those of its products."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--steps", type=int, default=49)
    asked = parser.parse_args()
    for cell in asked.cells:
        kind, units, lanes = cell.split(":")
        op_type = kind.rstrip("0")
        network = quantized(op_type, int(units), asked.steps, linear=kind == "GRU")
        design = flow.schedule(network, "ecp5", ScheduleRequest(multipliers=int(lanes)))
        products = GATES[op_type] * int(units) ** 2
        print(f"{cell}: {said(design, products, asked.steps)}", flush=True)


def quantized(op_type: str, units: int, steps: int, *, linear: bool) -> Network:
    """Return a layer in integers."""
    attributes = {"linear_before_reset": 1} if linear else {}
    node = RecurrentNode(op_type, steps, INPUTS, units, attributes=attributes)
    frames = {"x": np.random.default_rng(0).normal(0, 1, (8, steps, 1, INPUTS)).astype(np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        return flow.quantize(flow.read(node.write(Path(folder))), frames)


def said(design: Design, products: int, steps: int) -> str:
    """Return the figures of a design in words."""
    lanes = design.resources().mac_lanes
    step = max(loop.step_cycles for loop in design.loops)
    return (
        f"{lanes} lanes, {step} cycles a step round the loop (products / lanes + {AROUND}: "
        f"{products // lanes + AROUND}), {design.interval / steps:.1f} cycles a step of a frame"
    )


if __name__ == "__main__":
    main()
