"""Intervals of FINN's example networks, with as many lanes as FINN's own foldings have.

    nice python benchmarks/finn_shapes.py [NAME ...] [--simulate FRAMES]

The networks have the layers of FINN's examples and random weights, as Brevitas exports them. FINN's multipliers and
cycles are those of its folding files (finn-examples, build/*/folding_config) by its own cycle model: the slowest layer
counts. Prints the interval of the fastest design with no more lanes, its share of FINN's, and the share of the lanes
that does useful work: products / (lanes · interval); then the lanes that 98 % of FINN's interval takes at least, by
arithmetic, with whole products and with each made by one core or two. With --simulate, the circuit runs FRAMES random
frames, and is compared with the golden model and the predicted cycles.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.ir.target import DesignTarget
from onnx_hw.ops.operator import Operator
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_for_board import clock_of
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.search_latency import cycles_of_frame_alone
from support.random_qonnx_models import Qonnx

SHARE = 0.98
"""Share of FINN's interval that is asked for."""

BOARD = "verilog"
"""Target of the designs, which only their lanes bound: the larger two need larger chips than those known here."""


@dataclass(frozen=True)
class FinnExample:
    """One of FINN's examples.

    Attributes:
        layers: adds the layers to a graph; returns the shape of the input and the name of the output.
        multipliers: lanes of FINN's folding.
        cycles: interval by FINN's cycle model.
    """

    layers: Callable[[Qonnx], tuple[list[int], str]]
    multipliers: int
    cycles: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(EXAMPLES)}; all if none is given")
    parser.add_argument("--simulate", type=int, default=0, metavar="FRAMES")
    asked = parser.parse_args()
    above = 0
    for name in asked.names or EXAMPLES:
        above += not print_example(name, EXAMPLES[name], asked.simulate)
    return above


def print_example(name: str, example: FinnExample, frames: int) -> bool:
    """Print a line; return whether the interval is at most 98 % of FINN's."""
    graph, began = Qonnx(seed=0), time.process_time()
    shape, output = example.layers(graph)
    with tempfile.TemporaryDirectory() as folder:
        model = flow.read(graph.written(Path(folder) / "model.onnx", shape, output))
    network = flow.quantized(model, None).network
    board, only_lanes = find_board(BOARD), Budget(mac_lanes=example.multipliers)
    target = DesignTarget(board, clock_of(board, None))
    design, _ = schedule_network(network, only_lanes, target=target)
    products = sum(node.operator.macs for node in design.network.nodes)
    lanes = design.resources().mac_lanes
    print(
        f"{name:12} {products:11,} products  FINN: {example.multipliers:5,} lanes, {example.cycles:6,} cycles, "
        f"{products / example.multipliers / example.cycles:6.1%}  here: {lanes:5,} lanes, {design.interval:6,} cycles, "
        f"{products / lanes / design.interval:6.1%}; {design.interval / example.cycles:6.1%} of FINN's; "
        f"latency {cycles_of_frame_alone(design):,}; {time.process_time() - began:.0f} s",
        flush=True,
    )
    least = [lanes_at_least(node.operator, SHARE * example.cycles) for node in network.nodes if node.operator.macs]
    whole, in_two = map(sum, zip(*least, strict=True))
    print(f"{'':12} {SHARE:.0%} of FINN's cycles take at least {whole:,} lanes, {in_two:,} with products in two parts")
    if frames:
        samples = {"x": graph.draw.uniform(-1, 1, (frames, *shape)).astype(np.float32)}
        print(f"{'':12} {flow.simulate(design, samples)}", flush=True)
    return design.interval <= SHARE * example.cycles


def lanes_at_least(operator: Operator[Any], cycles: float) -> tuple[int, int]:
    """Return the fewest lanes of a product of matrices in a number of cycles, by one core, and by one or two.

    A core takes some pixels and some inputs in a beat and makes some outputs at once, of each as many as it likes; two
    cores share the outputs.
    """
    (rows, columns, inputs), outputs = operator.operands()[0].shape, operator.results()[0].channels
    whole = fewest_lanes(rows * columns, inputs, outputs, int(cycles))
    pairs = ((first, outputs - first) for first in range(1, outputs // 2 + 1))
    return whole, min(
        [whole, *(sum(fewest_lanes(rows * columns, inputs, part, int(cycles)) for part in pair) for pair in pairs)]
    )


@cache
def fewest_lanes(pixels: int, inputs: int, outputs: int, cycles: int) -> int:
    """Return the least product of pixels, inputs and outputs at once that keeps a number of cycles."""
    least = pixels * inputs * outputs
    for at_once in different_parts(pixels):
        turns = cycles // -(-pixels // at_once)
        for taken in different_parts(inputs):
            groups = turns // -(-inputs // taken)
            if groups:
                least = min(least, at_once * taken * -(-outputs // groups))
    return least


def different_parts(whole: int) -> list[int]:
    """Return the least number at once for each number of turns in which a whole is done."""
    return sorted({-(-whole // turns) for turns in range(1, whole + 1)})


def weights(s: Qonnx, shape: Sequence[int], bits: int) -> str:
    """Return weights of a number of bits; those of 1 bit are -1 and 1."""
    values = s.floats(s.draw.normal(0, 1, tuple(shape)))
    return s.bipolar(values) if bits == 1 else s.quant(values, 2.0 ** (2 - bits), bits, op_type="Quant", narrow=1)


def data(s: Qonnx, x: str, channels: int, bits: int) -> str:
    """Return quantized data behind a BatchNormalization, and behind a Relu where there is more than one bit."""
    size = 1 / float(np.sqrt(channels))
    numbers = (np.full(channels, size), s.draw.normal(0, 0.3, channels), np.zeros(channels), np.ones(channels))
    x = s.node("BatchNormalization", x, *map(s.floats, numbers))
    if bits == 1:
        return s.bipolar(x)
    return s.quant(s.node("Relu", x), 4.0 / (1 << bits), bits, op_type="Quant", signed=0)


def dense(s: Qonnx, x: str, sizes: Sequence[int], bits: int) -> str:
    """Add products of vectors, the last of which is not quantized."""
    for k, (given, made) in enumerate(pairwise(sizes)):
        x = s.node("MatMul", x, s.node("Transpose", weights(s, (made, given), bits), perm=[1, 0]))
        x = x if k == len(sizes) - 2 else data(s, x, made, bits)
    return x


def tfc(s: Qonnx) -> tuple[list[int], str]:
    """Three hidden layers of 64 neurons for handwritten digits, 1 bit."""
    return [1, 784], dense(s, s.bipolar("x"), (784, 64, 64, 64, 10), 1)


def keywords(s: Qonnx) -> tuple[list[int], str]:
    """Three hidden layers of 256 neurons for spoken words, 3 bits, data of 8 bits at the input."""
    return [1, 490], dense(s, s.quant("x", 1 / 128, 8, op_type="Quant"), (490, 256, 256, 256, 12), 3)


def cnv(s: Qonnx) -> tuple[list[int], str]:
    """Six convolutions and three dense layers for pictures of 32 × 32, 1 bit, data of 8 bits at the input."""
    x = s.quant("x", 1 / 128, 8, op_type="Quant")
    for k, (given, made) in enumerate(((3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256))):
        x = data(s, s.node("Conv", x, weights(s, (made, given, 3, 3), 1)), made, 1)
        if k in (1, 3):
            x = s.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    s.rank = 2
    return [1, 3, 32, 32], dense(s, s.node("Flatten", x), (256, 512, 512, 10), 1)


def vgg10(s: Qonnx) -> tuple[list[int], str]:
    """Seven 1-D convolutions and three dense layers for radio signals, 4 bits, data of 8 bits at the input."""
    x, given = s.quant("x", 1 / 128, 8, op_type="Quant"), 2
    for _ in range(7):
        x = data(s, s.node("Conv", x, weights(s, (32, given, 3), 4), pads=[1, 1]), 32, 4)
        x, given = s.node("MaxPool", x, kernel_shape=[2], strides=[2]), 32
    s.rank = 2
    return [1, 2, 1024], dense(s, s.node("Flatten", x), (256, 128, 128, 24), 4)


EXAMPLES = {
    "TFC-w1a1": FinnExample(tfc, 992, 64),
    "KWS-w3a3": FinnExample(keywords, 840, 392),
    "VGG10-w4a4": FinnExample(vgg10, 3368, 1024),
    "CNV-w1a1": FinnExample(cnv, 2273, 32768),
}

if __name__ == "__main__":
    sys.exit(main())
