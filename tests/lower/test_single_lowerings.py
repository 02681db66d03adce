"""Single steps of the lowering, each called by itself: whole models mostly pass them in one way only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding
from onnx_hw.lower.kernel import kernel_of
from onnx_hw.lower.network_builder import NetworkBuilder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.binary import _broadcast_shape
from onnx_hw.lower.ops.concat import concat
from onnx_hw.lower.ops.matmul_operand import OperandColumns
from onnx_hw.lower.ops.qdq import dequantized_constant
from onnx_hw.lower.ops.reshape import _axis_after, reshape
from onnx_hw.lower.ops.resize_linear import _half_pixel_taps
from onnx_hw.lower.quantizers import Rounded
from onnx_hw.lower.values.channel_steps import requantize_per_channel
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.function_table import fine_table
from onnx_hw.lower.values.padded import pads_of_image
from onnx_hw.lower.values.real import Real, tabled
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.tensor import Tensor


def node(op_type: str, version: int = 13, **attributes: Any) -> Node:
    return Node("n", op_type, "", version, ("x",), ("y",), attributes)


def real(shape: tuple[int, ...], **more: Any) -> Real:
    return Real("t", shape, np.arange(int(np.prod(shape))), **more)


def builder(**answers: Any) -> Any:
    """What a step asks of the importer, and nothing else."""
    return SimpleNamespace(**answers)


def flat_builder(values: dict[str, Real], **answers: Any) -> Any:
    """One that turns a value of 2 × 2 into one of four numbers, and puts it into ``values``."""
    return builder(
        shape=lambda name: (4,),
        constants={},
        constant=lambda name: None,
        values=values,
        elements=lambda node, partial: real((2, 2)),
        **answers,
    )


@pytest.mark.parametrize(("mode", "begin", "end"), [("SAME_UPPER", 1, 2), ("SAME_LOWER", 2, 1)])
def test_an_odd_pad_is_behind_or_before(mode: str, begin: int, end: int) -> None:
    kernel = kernel_of(node("Conv", auto_pad=mode), (4, 4), (8, 8), (8, 8))
    assert kernel.pads == (begin, begin, end, end)


@pytest.mark.parametrize(("mode", "size", "pad"), [("VALID", 6, 0), ("SAME_UPPER", 8, 1), ("NOTSET", 10, 2)])
def test_numbers_of_pads_count_where_no_mode_says_them(mode: str, size: int, pad: int) -> None:
    kernel = kernel_of(node("Conv", auto_pad=mode, pads=(2, 2, 2, 2)), (3, 3), (8, 8), (size, size))
    assert kernel.pads == (pad, pad, pad, pad)


def test_scales_of_a_constant_are_of_its_second_axis_unless_said() -> None:
    stored, scale = np.arange(6, dtype=np.int8).reshape(2, 3), np.array([0.5, -1, 2], dtype=np.float32)
    found = dequantized_constant(stored, scale, np.array([0, 1, 2], dtype=np.int8), node("DequantizeLinear"))
    assert found.axis == 1 and found.scale == (Fraction(1, 2), 1, 2)
    assert found.integers.tolist() == [[0, 0, 0], [3, -3, 3]]


@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(-128, 127, "int8"), (0, 128, "int16"), (-(1 << 15) - 1, 0, "int32")]
)
def test_a_constant_is_kept_in_the_narrowest_dtype(low: int, high: int, dtype: str) -> None:
    constant = QuantizedConstant(np.array([[low, high]]), (Fraction(1, 2),))
    assert constant.stored.dtype == dtype
    assert constant.integers.dtype == np.int64 and constant.integers.tolist() == [[low, high]]
    assert constant.exact().tolist() == [[Fraction(low, 2), Fraction(high, 2)]]


def test_equal_scales_are_one_scale() -> None:
    """Along whatever axis they are: an operator with scales per output takes those, too."""
    constant = QuantizedConstant(np.array([[1, 2, 3]]), (Fraction(1, 2),) * 3, 1)
    assert constant.scale == (Fraction(1, 2),)
    assert constant.exact().tolist() == [[Fraction(1, 2), 1, Fraction(3, 2)]]


@pytest.mark.parametrize(("shape", "axis"), [((6, 4), 0), ((2, 3, 4), None), ((1, 6, 2, 2), 1), ((4, 6), None)])
def test_the_axis_of_scales_stays_as_long_with_as_much_behind_it(shape: tuple[int, ...], axis: int | None) -> None:
    constant = QuantizedConstant(np.zeros((6, 4), dtype=np.int64), tuple(map(Fraction, range(1, 7))), 0)
    if axis is None:
        with pytest.raises(Obstacle, match="must keep the axis of its 6 scales"):
            _axis_after(constant, shape)
    else:
        assert _axis_after(constant, shape) == axis


def test_before_opset_7_tensors_that_are_broadcast_have_one_shape() -> None:
    old, new = node("Add", 6, broadcast=1), node("Add", 7)
    assert _broadcast_shape(old, real((1, 2, 3)), real((1, 2, 3))) == (1, 2, 3)
    assert _broadcast_shape(new, real((1, 2, 3)), real((1, 1, 3))) == (1, 2, 3)
    with pytest.raises(Obstacle, match="before opset 7"):
        _broadcast_shape(old, real((1, 2, 3)), real((1, 1, 3)))


@pytest.mark.parametrize("old", [False, True])
def test_only_a_dropout_can_be_in_training(old: bool) -> None:
    """Before opset 7 an attribute says that it is not."""
    values: dict[str, Real] = {}
    asked = flat_builder(values)
    reshape(asked, node("Flatten", 1 if old else 13))
    assert values["y"].shape == (4,)
    training = Node("n", "Dropout", "", 6 if old else 13, ("x",) if old else ("x", "", "training"), ("y",), {})
    with pytest.raises(Obstacle, match="training"):
        reshape(asked, training)


def test_a_mask_that_nobody_reads_is_no_obstacle() -> None:
    """Converters of old models write the mask of every Dropout."""
    values: dict[str, Real] = {}
    asked = flat_builder(values, is_read=lambda name: name == "read")
    reshape(asked, Node("n", "Dropout", "", 7, ("x",), ("y", "mask"), {}))
    assert values["y"].shape == (4,)
    with pytest.raises(Obstacle, match="mask"):
        reshape(asked, Node("n", "Dropout", "", 7, ("x",), ("y", "read"), {}))


def test_elements_that_are_all_there_take_no_core() -> None:
    value = real((2, 3))
    turned = NetworkBuilder.placed(builder(), value, np.arange(6).reshape(2, 3).T, node("Transpose"))
    assert turned.shape == (3, 2) and turned.where.tolist() == [0, 3, 1, 4, 2, 5]


def test_what_is_empty_is_not_joined() -> None:
    """With nothing, a value stays what it is, whatever would have to be known of both."""
    shapes, values = {"none": (1, 0, 2), "x": (1, 3, 2), "y": (1, 3, 2)}, dict[str, Any]()
    parts = {"x": real((1, 3, 2))}
    asked = builder(shape=shapes.__getitem__, elements=lambda node, k: parts[node.inputs[k]], values=values)
    concat(asked, Node("n", "Concat", "", 13, ("none", "x"), ("y",), {"axis": 1}))
    assert values["y"] is parts["x"]


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 2, 3), (0, 2, 0, 0)])
def test_pads_around_all_of_an_image_are_found(pads: tuple[int, int, int, int]) -> None:
    origin = np.arange(2 * 3 * 4).reshape(1, 2, 3, 4)
    top, left, bottom, right = pads
    padded = np.pad(origin, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-1)
    assert pads_of_image(padded, (1, 2, 3, 4)) == pads
    holes = np.full((1, 2, 3, 8), -1)
    holes[..., ::2] = origin
    assert pads_of_image(holes, (1, 2, 3, 4)) is None


@pytest.mark.parametrize("fewer", [2, 3, 4, 5, 6])
def test_a_smaller_picture_is_read_in_the_middle(fewer: int) -> None:
    """One element where there is a middle one, else the mean of two: half_pixel, by whole factors."""
    taps = _half_pixel_taps(4 * fewer, 4)
    assert taps is not None
    middles = [fewer * k + (fewer - 1) / 2 for k in range(4)]
    sources = taps.sources.reshape(4, -1)
    assert sources.shape[1] == 2 - fewer % 2 == len(taps.kernel)
    assert sources.mean(axis=1).tolist() == middles and np.ptp(sources, axis=1).max() <= 1


def test_bounds_of_the_numbers_are_bounds_of_the_integers_of_each_channel() -> None:
    grid = Grid.over(Int(4, False), (Fraction(1, 2), Fraction(1)))
    value = real((1, 2), low=Fraction(0), high=Fraction(3))
    staircase: Any = requantize_per_channel(Tensor((1, 1, 2), Int(5)), value, grid)
    (found,) = staircase.golden(np.stack([np.arange(-16, 16)] * 2, axis=-1)[None, None])
    assert found[0, 0, :, 0].tolist() == [min(max(2 * k, 0), 6) for k in range(-16, 16)]
    assert found[0, 0, :, 1].tolist() == [min(max(k, 0), 3) for k in range(-16, 16)]


def test_what_stands_for_a_pad_in_every_channel_or_in_none() -> None:
    """Of two scales, of which one number is the same integer and another is not."""
    steps, zero = (np.array(numbers, dtype=object) for numbers in ([Fraction(1), Fraction(1, 2)], [Fraction(3)]))
    grids = Rounded(step=steps, zero_point=zero, low=-8, high=7, rounding=Rounding.ROUND)
    assert [grids.fill(Fraction(number)) for number in (0, 9, 2, -2)] == [3, 7, None, None]


def test_weights_that_scales_of_the_data_make_too_wide_are_refused() -> None:
    weights = QuantizedConstant(np.zeros((1, 2)), (Fraction(1),), 0)
    columns = OperandColumns((Fraction(1), Fraction(1, 1 << 20)), (Fraction(0),))
    with pytest.raises(Obstacle, match="must be quantized"):
        columns.product(node("MatMul"), weights, np.array([[3, 5]]), (Fraction(0),))


def test_a_table_of_more_entries_than_memory_is_not_begun() -> None:
    def never(integers: np.ndarray) -> np.ndarray:
        raise AssertionError("nobody may ask for so many")

    answers: Mapping[str, Any] = {"materialize": lambda value: SimpleNamespace(range=(-(1 << 22), 1 << 22))}
    value: Any = SimpleNamespace(numbers=never)
    assert fine_table(builder(**answers), node("ReduceMean"), value) is None


@pytest.mark.parametrize("step", [1.0, 0.375, 2.0**-7])
def test_the_numbers_of_a_table_are_fine_beside_the_step_they_are_rounded_to(step: float) -> None:
    """Multiples of a power of two that is 2^-12 of it, or less but not half of that."""
    constants = {"scale": np.array([step], dtype=np.float32)}
    reader = Node("q", "QuantizeLinear", "", 13, ("y", "scale"), ("z",), {})
    asked = builder(
        materialize=lambda value: Tensor((1, 1, 1), Int(8)),
        graph=SimpleNamespace(nodes=[reader], constants=constants),
        add=lambda *arguments: "t",
        positions=lambda value: value.where,
    )
    found = tabled(asked, node("ReduceMean"), replace(real((1,)), slope=(4 * Fraction(step),)))
    assert found is not None and step / 2 < 2**12 * found.slope[0] <= step
