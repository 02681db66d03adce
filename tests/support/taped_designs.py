"""Designs whose products take their weights from a tape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.requantize import Requantize, RequantizeFolding
from onnx_hw.ops.tape import Tape, weights_edge
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.tiles import beats_of, tiles_of
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.write_tape import with_tape, write_tape
from onnx_hw_boards.memory import WeightMemory
from onnx_hw_boards.sdram import SdramMemory
from onnx_hw_link.flash_tape import FlashTiming
from onnx_hw_link.sdram_tape import SdramTiming
from support.hand_built_designs import Sketch
from support.random_designs import chains, residuals

MOST_ON_TAPE = 4

FAST_FLASH = FlashTiming(1, 2, 5, 20, 2)
"""Flash of a clock half as fast as the circuit's, which wakes up soon."""


def on_tape(design: Design, capacities: dict[str, int | None]) -> Design:
    """Take the weights of some products from a tape that is not written yet, with buffers of some groups."""
    nodes = tuple(
        replace(node, operator=replace(node.operator, taped=True, capacity=capacities[node.name]))  # type: ignore[type-var]
        if node.name in capacities
        else node
        for node in design.network.nodes
    )
    return replace(design, network=replace(design.network, nodes=nodes))


SMALL_SDRAM = replace(
    SdramMemory(2, 16, 64, WeightMemory(1 << 24, 1 << 20), interval_ns=600, power_up_us=0.1).timing(50),
    flash=FAST_FLASH,
)
"""SDRAM of short rows, at the clock of a design without a board, which is soon ready and often refreshed."""


def in_tiles(design: Design, tiles: Mapping[str, int]) -> Design:
    """Let some products on a tape hold tiles of pixels, where their foldings allow that, with what puts their results
    back in the order of pixels.
    """
    nodes, foldings = [], dict(design.foldings)
    for node in design.network.nodes:
        operator, folding = node.operator, design.foldings[node.name]
        if node.name in tiles and isinstance(operator, MatMul) and isinstance(folding, MatMulFolding):
            beats = beats_of(tiles[node.name], folding.pixels, operator.operand)
            tiled = replace(operator, tile=tiles[node.name])
            if beats is not None and not tiled.illegal(replace(folding, tile=beats)):
                operator, foldings[node.name] = tiled, replace(folding, tile=beats)
        nodes.append(replace(node, operator=operator))
    network, foldings = insert_gearboxes(replace(design.network, nodes=tuple(nodes)), foldings)
    new = {tensor for node in network.nodes for tensor in node.outputs if tensor not in design.fifos}
    fifos = {**design.fifos, **dict.fromkeys(new, FifoSize(2, 1, 1))}
    return replace(design, network=network, foldings=foldings, fifos=fifos)


@st.composite
def taped_designs(draw: st.DrawFn, size: int, operations: int) -> Design:
    """Random networks of which one to four products take their weights from a tape, pixel by pixel or once for a tile:
    from outside, or from a flash.
    """
    design = draw(st.one_of(chains(size, operations), residuals(size, operations)))
    products = [node.name for node in design.network.nodes if isinstance(node.operator, MatMul)]
    assume(products)
    chosen = draw(st.permutations(products))[: draw(st.integers(1, MOST_ON_TAPE))]
    design = on_tape(design, {name: draw(st.sampled_from([None, 1, 2, 3])) for name in chosen})
    operands = {node.name: node.operator.operands()[0] for node in design.network.nodes}
    design = in_tiles(design, {name: draw(st.sampled_from(tiles_of(operands[name]))) for name in chosen})
    memory = draw(st.sampled_from([{}, {"flash": FAST_FLASH}, {"sdram": SMALL_SDRAM}]))
    design = write_tape(replace(design, **memory))
    deeper = {weights_edge(name): FifoSize(draw(st.integers(1, 3)), 1, 1) for name in chosen}
    return replace(design, fifos={**design.fifos, **deeper})


def perceptron(
    sizes: Sequence[int],
    lanes: Sequence[tuple[int, int]],
    *,
    flash: FlashTiming | None = None,
    sdram: SdramTiming | None = None,
    capacity: int | None = 2,
    taped: bool = True,
) -> Design:
    """A row of products with a requantizer behind each, all of them on a tape that is not written yet.

    Args:
        lanes: of inputs and results of each product; a neighbour takes what the one before gives.
        taped: False for weights on the chip.
    """
    sketch, tensor = Sketch(), Tensor((1, 1, sizes[0]), Int(8))
    x = sketch.input("x", tensor)
    for k, (outputs, (taken, given)) in enumerate(zip(sizes[1:], lanes, strict=True)):
        weights = np.random.default_rng(k).integers(-128, 128, (outputs, tensor.channels))
        product = MatMul(tensor, weights, taped=taped, capacity=capacity if taped else None)
        (x,) = sketch.add(f"product{k}", product, [x], MatMulFolding(taken, given), 2)
        grid = Grid.over(Int(8), zero_point=0)
        requantize = Requantize(product.results()[0], (Fraction(1, 16 * tensor.channels),), (Fraction(0),), grid)
        (x,) = sketch.add(f"requantize{k}", requantize, [x], RequantizeFolding(given), 2)
        tensor = requantize.results()[0]
    return replace(sketch.design(), flash=flash, sdram=sdram)


def in_order(design: Design, runs: Sequence[tuple[int, int]]) -> Design:
    """Deal the words of a design in an order of one's own."""
    return with_tape(design, Tape(design.taped_ports(), tuple(runs)))


def shuffled(design: Design, draw: Random) -> Design | None:
    """Return the design with the groups of its tape in a random order, in which those of each core stay in theirs; None
    where it has only one order.
    """
    assert design.tape is not None
    order = [which for which, groups in design.tape.runs for _ in range(groups)]
    if len(set(order)) < 2:
        return None
    draw.shuffle(order)
    return in_order(design, [(which, 1) for which in order])
