"""Several pixels in a beat: cores that take them, and the cores between neighbours that do not agree."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ops.add import Add, AddFolding
from onnx_hw.ops.convert_order import conversion
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.folding import ElementFolding, Folding, SlidingFolding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.multiply import Multiply, MultiplyFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.requantize import RequantizeFolding
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.size_fifos import size_fifos
from support import core_tests
from support.design_bench import assert_proven, prove
from support.hand_built_designs import Sketch
from support.random_cases import Case
from support.random_operators import element_foldings

requantizers = core_tests.load("requantize")

SCALES = tuple(Fraction(k, 30) for k in (1, 7, 20, 33, 50))
WEIGHTS = np.random.default_rng(0).integers(-8, 8, (5, 5))
TABLES = np.random.default_rng(0).integers(-8, 8, (5, 16))


def cores(columns: int, pixels: int) -> list[tuple[Operator, Folding]]:
    """Each with constants per channel where it has constants; lanes are ragged."""
    x = Tensor((2, columns, 5), Int(4))
    lanes = ElementFolding(3, pixels)
    constants = SCALES, (Fraction(1, 2),), Grid.over(Int(3))
    return [
        (Add(x, x, (3, -1)), AddFolding(3, pixels)),
        (Add(x, x, (7, -3)), AddFolding(3, pixels, steps=2)),
        (Multiply(x, x, (1, 0)), MultiplyFolding(3, pixels)),
        (Fork(x), lanes),
        (Lookup(x, TABLES, Int(4)), lanes),
        (requantizers.ByArithmetic(x, *constants), RequantizeFolding(3, pixels=pixels)),
        (requantizers.ByArithmetic(x, *constants), RequantizeFolding(2, 2, pixels)),
        (requantizers.ByTable(x, *constants), RequantizeFolding(3, pixels=pixels)),
        (requantizers.ByThresholds(x, *constants), RequantizeFolding(2, pixels=pixels)),
        (MatMul(x, WEIGHTS), MatMulFolding(2, 3, pixels)),
        (MatMul(x, WEIGHTS), MatMulFolding(5, 5, pixels)),
        (Gearbox(x), GearboxFolding(2, 3, pixels)),
        (Gearbox(x), GearboxFolding(5, 2, pixels)),
    ]


@pytest.mark.parametrize(("columns", "pixels"), [(5, 2), (8, 4)])
def test_every_core_that_takes_several(columns: int, pixels: int) -> None:
    """Also where the last group of a row is smaller; a frame takes as much less as the beats are wider."""
    for seed, (operator, folding) in enumerate(cores(columns, pixels)):
        assert operator.illegal(folding) == ""
        groups = 2 * -(-columns // pixels)
        single = type(folding)(**{**folding.numbers(), "pixels": 1})
        assert operator.cycles(folding) * 2 * columns == operator.cycles(single) * groups
        Case(operator, folding, seed=seed).check()


@pytest.mark.parametrize("tile", [2, 4, 8, 16])
def test_constants_follow_tiles_of_one_size(tile: int) -> None:
    """Within a row and of whole rows; the channels of a tile come one group after the other."""
    for operator, folding in cores(8, 2)[4:9]:
        Case(operator, replace(folding, tile=tile), frames=2, seed=tile).check()  # type: ignore[call-arg]


def test_tiles_that_are_no_tiles_are_refused() -> None:
    for operator, folding in cores(5, 1)[4:9]:
        tiled = (replace(folding, tile=tile) for tile in (2, 5, 7, 10))  # type: ignore[call-arg]
        told = [operator.illegal(folding) for folding in tiled]
        assert told[0] == "all tiles must have the same number of pixels here"
        assert (told[1], told[3]) == ("", "") and "a tile must be whole groups" in told[2]


def test_more_pixels_than_a_row_has_are_refused() -> None:
    for operator, folding in cores(4, 4):
        wider = type(folding)(**{**folding.numbers(), "pixels": 5})
        assert operator.illegal(wider) == "pixels must be 1..4 here"


@pytest.mark.parametrize("pixels", [2, 4])
def test_as_many_multipliers_as_pixels(pixels: int) -> None:
    matmul = MatMul(Tensor((2, 8, 5), Int(4)), WEIGHTS)
    one, several = (matmul.resources(MatMulFolding(2, 3, p)) for p in (1, pixels))
    assert (several.mac_lanes, several.dsp) == (pixels * one.mac_lanes, pixels * one.dsp)
    assert several.bram <= pixels * one.bram


@settings(max_examples=12, derandomize=True)
@given(st.data())
def test_neighbours_that_do_not_agree(data: st.DataObject) -> None:
    """In lanes, in pixels, in tiles: what lies between them is put in and proven with them."""
    x = Tensor(data.draw(st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 6))), Int(4))
    sketch = Sketch()
    name = sketch.input("x", x)
    for k in range(3):
        (name,) = sketch.add(f"copy{k}", Fork(x, 1), [name], data.draw(element_foldings(x)), 1)
    drawn = sketch.design()
    network, foldings = insert_gearboxes(drawn.network, drawn.foldings)
    design = Design(network, foldings)
    fifos = {edge.tensor: FifoSize(data.draw(st.integers(1, 5)), 1, 1) for edge in design.edges() if edge.producer}
    assert_proven(prove(Design(network, foldings, fifos), seed=data.draw(st.integers(0, 99))))


def test_what_lies_between() -> None:
    x = Tensor((2, 8, 6), Int(4))

    def between(given: Order, wanted: Order) -> str:
        return " ".join(f"{operator!r} {folding!r}" for operator, folding in conversion(given, wanted))

    assert between(Order(x, 2, 2), Order(x, 2, 2)) == ""
    assert between(Order(x, 2, 2), Order(x, 3, 2)) == "Gearbox 2×3, 2 pixels"
    assert between(Order(x, 2), Order(x, 2, 4)) == "Regroup 2, 1 to 4 pixels"
    assert between(Order(x, 2, 4), Order(x, 3)) == "Gearbox 2×3, 4 pixels Regroup 3, 4 to 1 pixels"
    assert between(Order(x, 3), Order(x, 2, 4)) == "Regroup 3, 1 to 4 pixels Gearbox 3×2, 4 pixels"
    assert between(Order(x, 2, 2), Order(x, 2, 4)) == "Regroup 2, 2 to 4 pixels"
    assert between(Order(x, 2, 4), Order(x, 2, 6)) == "Regroup 2, 4 to 2 pixels Regroup 2, 2 to 6 pixels"
    assert between(Order(x, 2, tile=4), Order(x, 2, tile=4)) == ""
    assert between(Order(x, 2, tile=4), Order(x, 3, 2)) == (
        "Rearrange 2×2, 1 to 2 pixels, in tile 4, out tile 2 Gearbox 2×3, 2 pixels"
    )


@pytest.mark.parametrize("pixels", [2, 4])
def test_a_convolution_takes_less_than_a_cycle_per_pixel(pixels: int) -> None:
    """3×3 over an image of one channel, requantized and pooled, at the FIFO depths that are computed."""
    sketch = Sketch()
    x = sketch.input("x", Tensor((4, 8, 1), Int(4)))
    window = Window(sketch.tensors[x], (3, 3), pads=(1, 1, 1, 1))
    (columns,) = sketch.add("window", window, [x], (1, 9, pixels, pixels), 1)
    weights = np.random.default_rng(0).integers(-8, 8, (3, 9))
    (sums,) = sketch.add("conv", MatMul(sketch.tensors[columns], weights), [columns], (9, 3, pixels), 1)
    scale = (Fraction(1, 9),)
    requantize = requantizers.ByArithmetic(sketch.tensors[sums], scale, (Fraction(0),), Grid.over(Int(4)))
    (y,) = sketch.add("requantize", requantize, [sums], (3, 3, 1, pixels), 1)
    sketch.add("pool", Pool(sketch.tensors[y], "max", (1, 1), (2, 2)), [y], (3, 3, pixels, pixels // 2), 1)
    design = size_fifos(sketch.design())
    assert design.interval == 4 * 8 // pixels
    run = prove(design, frames=6, stalls=False)
    assert_proven(run)
    assert run.interval_cycles == design.interval
    assert_proven(prove(design, seed=pixels))


IMAGE, ODD = Tensor((4, 8, 3), Int(4)), Tensor((3, 7, 2), Int(4))
PADDED = {"pads": (1, 1, 0, 2), "pad_value": -3}
KERNELS = np.random.default_rng(0).integers(-8, 8, (4, 2, 3))


@pytest.mark.parametrize(
    "operator",
    [
        Window(IMAGE, (3, 3)),
        Pool(IMAGE, "sum", (2, 3), (2, 3), (1, 2, 1, 2)),
        Window(ODD, (2, 2), dilations=(1, 3), **PADDED),
        Pool(ODD, "max", (2, 3), (1, 2), **PADDED),
        Depthwise(ODD, KERNELS, (1, 2), dilations=(2, 1), **PADDED),
        Depthwise(ODD, KERNELS[:2], dilations=(1, 2), **PADDED),
    ],
)
def test_windows_side_by_side(operator: Window | Pool | Depthwise) -> None:
    """All numbers of pixels that are legal, in and out; the last ones of a row ragged on either side, or on both."""
    found, (_, columns, _) = set[Any](), operator.operand.shape
    for pair in product(range(1, columns + 1), range(1, operator.sliding.output[1] + 1)):
        folding = operator.folding_type(2, 2, *pair)
        whole_row = pair[1] == operator.sliding.output[1]
        legal = whole_row or pair[1] * operator.sliding.strides[1] % pair[0] == 0
        assert bool(operator.illegal(folding)) != legal
        ragged = columns % pair[0] > 0, operator.sliding.output[1] % pair[1] > 0
        if legal and max(pair) > 1 and (ragged, pair[0] > 1) not in found:
            Case(operator, folding, frames=2, seed=len(found)).check()
            found.add((ragged, pair[0] > 1))
    assert len(found) >= 4


def test_windows_that_do_not_step_by_whole_beats_are_refused() -> None:
    operator = Window(Tensor((4, 9, 3), Int(4)), (3, 3))
    assert "in_pixels must divide out_pixels · 1," in operator.illegal(SlidingFolding(1, 1, 3, 2))
    assert operator.illegal(SlidingFolding(1, 1, 2, 2)) == operator.illegal(SlidingFolding(1, 1, 3, 3)) == ""
    assert "out_pixels must be 1..7" in operator.illegal(SlidingFolding(1, 1, 1, 8))
