"""Functions of one tensor, element by element: Sigmoid, HardSwish, x · Sigmoid(x) ... as exact tables.

Whatever chain of such nodes lies between the integers of a tensor and the QuantizeLinear that follows is one function
of an integer: it is computed once, for every integer that can occur, in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.requantization import LARGEST_TABLE
from onnx_hw.exact.step_function import Steps
from onnx_hw.lower.builder import Builder, Obstacle
from onnx_hw.lower.ops.constants import aligned, per_channel
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values import FunctionValue, IntegerStream, Pieces, Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Staircase
from onnx_hw.ops.tensor import Tensor

FINE_BITS, FINEST_BITS = 20, 26
"""Of the integers of a function that is summed up: a mean of them is off by at most 2^-19 of the greatest. More, up to
the finest, where that is too much for the integers that the mean becomes."""

FINER = 12
"""A table's numbers are multiples of 2^-12 of what they are rounded to, or of less."""

FAR = 1 << 20
"""Exponent of a step that any number is fine enough for."""

UNCHANGED = frozenset((Effect.KEEPS, Effect.JOINS, Effect.BOUNDS, Effect.ADDS))
"""What leaves the numbers, and how far off they are, as they are."""

RISING = frozenset(
    ("LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign",
     "Atan", "Asinh", "ThresholdedRelu", "Floor", "Ceil", "Round", "Sign")
)  # fmt: skip
"""Functions that never fall, unless ``alpha`` or ``gamma`` is negative."""

MANY = 1 << 18
"""Arguments, of all channels together: of as many the steps of a function that rises are found by halves."""

LARGEST_FUNCTION = 1 << 24
"""Arguments, of all channels together, for which a function is computed."""


@lowers(
    *("Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "Mish", "Swish"),
    *("Softplus", "Softsign", "ThresholdedRelu", "Shrink"),
    *("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Log", "Sqrt", "Reciprocal", "Erf"),
    *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"),
)
def function(builder: Builder, node: Node) -> None:
    """of quantized data, as an exact table"""
    builder.values[node.outputs[0]] = function_of(builder, node)


@lowers("PRelu", "Pow", "Mod")
def function_with_constants(builder: Builder, node: Node) -> None:
    """of quantized data and constants of one value per channel, as an exact table"""
    builder.values[node.outputs[0]] = function_of(builder, node)


def function_of(builder: Builder, node: Node) -> FunctionValue:
    """What a node computes from one tensor and constants.

    Raises:
        Obstacle: it reads several tensors, or the elements of one in different orders.
    """
    read = [builder.values[name] for name in node.inputs if name in builder.values]
    sources = [value for value in read if isinstance(value, Real | FunctionValue)]
    if not sources or len(sources) < len(read):
        raise builder.unfit(node)
    first = sources[0]
    if not of_one_tensor(sources):
        raise Obstacle("two-tensors", f"{node.op_type} of two tensors is not built: all but one must be constant")
    arguments = [_argument(builder, node, name, first) for name in node.inputs]
    plain = replace(node, attributes={k: v for k, v in node.attributes.items() if k not in ("axis", "broadcast")})

    def numbers(integers: np.ndarray) -> np.ndarray:
        given = [None if argument is None else argument(integers) for argument in arguments]
        return np.asarray(compute(plain, given)[0], dtype=np.float64)

    rises = len(sources) == 1 and (isinstance(first, Real) or first.rises) and _rises(builder, node)
    pieces = _pieces(builder, node, first)
    return FunctionValue(first.tensor, first.shape, first.where, numbers, first.partial, rises, pieces)


def of_one_tensor(values: Sequence[object]) -> bool:
    """Whether all are numbers on the same integers, in one order: then what is made of them is a function of those."""
    if not values or not all(isinstance(value, Real | FunctionValue) for value in values):
        return False
    meanings = {(value.tensor, value.shape, value.where.tobytes()) for value in values}  # type: ignore[attr-defined]
    return len(meanings) == 1


def _pieces(builder: Builder, node: Node, data: Real | FunctionValue) -> Pieces:
    """The lines of a leak, x and a share of x of at most all: the greater of both is what passes."""
    if not isinstance(data, Real) or data.clipped or data.partial:
        return ()
    shares: tuple[Fraction, ...] = ()
    if node.op_type == "LeakyRelu":
        alpha = float(node.attributes.get("alpha", 0.01))
        shares = (Fraction(alpha),) if np.isfinite(alpha) else ()
    elif node.op_type == "PRelu" and (constant := builder.exact_constant(node.inputs[1])) is not None:
        shares = per_channel(builder, data, aligned(node, constant, len(data.shape)))
    if not shares or not all(0 <= share <= 1 for share in shares):
        return ()
    channels = max(len(numbers) for numbers in (shares, data.slope, data.offset))
    share, slope, offset = (n * channels if len(n) == 1 else n for n in (shares, data.slope, data.offset))
    less = (tuple(map(mul, slope, share)), tuple(map(mul, offset, share)))
    return (data.slope, data.offset), less


def _rises(builder: Builder, node: Node) -> bool:
    """Whether a greater number surely becomes no smaller one."""
    if node.op_type in RISING:
        return all(0 <= value < np.inf for name, value in node.attributes.items() if name in ("alpha", "gamma"))
    shares = builder.exact_constant(node.inputs[1]) if node.op_type == "PRelu" else None
    return shares is not None and all(share >= 0 for share in shares.reshape(-1))


def _argument(
    builder: Builder, node: Node, name: str, data: Real | FunctionValue
) -> Callable[[np.ndarray], np.ndarray] | None:
    """An input of a node as a function of the integers: (1 or channels, n), or (1 or channels, 1) for a constant."""
    if not name:
        return None
    value = builder.values.get(name)
    if isinstance(value, Real | FunctionValue):
        return value.numbers
    constant = builder.exact_constant(name)
    if constant is None:
        raise Obstacle("two-tensors", f"`{name}`, which {node.op_type} reads, must be constant or be in hardware")
    column = np.array([[float(v)] for v in per_channel(builder, data, aligned(node, constant, len(data.shape)))])
    return lambda integers: column


def quantize_function(
    builder: Builder,
    node: Node,
    value: FunctionValue,
    grid: Grid,
    *,
    name: str,
    output: str,
) -> IntegerStream:
    """Integers of a function: steps where it rises, else a table."""

    def onto(values: np.ndarray) -> np.ndarray:
        return grid.integers(np.broadcast_to(values, (max(len(values), grid.channels), values.shape[1])))

    return integers_of_function(builder, node, value, onto, grid.dtype, name=name, output=output)


def integers_of_function(
    builder: Builder,
    node: Node,
    value: FunctionValue,
    onto: Callable[[np.ndarray], np.ndarray],
    dtype: Int,
    *,
    name: str,
    output: str,
) -> IntegerStream:
    """Integers that are a function of a function's numbers.

    Args:
        onto: (1 or channels, n) float64, none of them NaN, to integers, of as many channels or more.
        dtype: of these.
    """
    operand = builder.settled(value)
    first, last = operand.range
    count = last - first + 1
    some = value.numbers(np.array([[first, (first + last) // 2, last]]))
    if value.rises and count * len(some) > MANY:
        rising = _rising(operand, value.numbers, onto, dtype)
        return IntegerStream(
            builder.add(name, rising, [value.tensor], node, output=output), value.shape, builder.positions(value)
        )
    channels = 1 if np.array_equal(some, np.broadcast_to(some[:1], some.shape), equal_nan=True) else len(some)
    if count * channels > LARGEST_FUNCTION:
        raise too_many(builder, node, value, count * channels)
    values = value.numbers(np.arange(first, last + 1)[None, :])
    if len(values) > 1 and (values == values[0]).all():
        values = values[:1]
    if values.size > LARGEST_FUNCTION:
        raise too_many(builder, node, value, values.size)
    if np.isnan(values).any():
        at = first + int(np.argwhere(np.isnan(values))[0][1])
        raise Obstacle("not-a-number", f"`{node.inputs[0]}` must be a number for every integer; it is NaN for {at}")
    integers = onto(np.broadcast_to(values, (len(values), count)))
    operator = _operator(operand, integers, dtype)
    if operator is None:
        raise too_many(builder, node, value, integers.size)
    tensor = builder.add(name, operator, [value.tensor], node, output=output)
    return IntegerStream(tensor, value.shape, builder.positions(value))


def _rising(
    operand: Tensor, numbers: Callable[[np.ndarray], np.ndarray], onto: Callable[[np.ndarray], np.ndarray], dtype: Int
) -> Staircase:
    """The steps of a function that rises, each found by halves: it has too many arguments to look at all."""
    first, last = operand.range
    ends = onto(numbers(np.array([[first, last]])))
    low, high = int(ends.min()), int(ends.max())
    wanted = np.arange(low + 1, high + 1)
    below, above = (np.full((len(ends), wanted.size), at) for at in (first - 1, last + 1))
    while (above - below > 1).any():
        middle = np.maximum((below + above) // 2, first)
        reached = onto(numbers(middle)) >= wanted
        below, above = np.where(reached, below, middle), np.where(reached, middle, above)
    above = np.maximum.accumulate(above, axis=1)  # the last digit of a double may fall where the function rises
    return Staircase(operand, Steps(first, last, low, high, above), dtype)


def finely_tabled(builder: Builder, node: Node, value: Real | FunctionValue) -> Real | None:
    """Multiples of a power of two next to the numbers of a function that a node sums up; None if it has too many."""
    operand = builder.settled(value)
    first, last = operand.range
    if last - first >= LARGEST_TABLE:
        return None
    numbers = value.numbers(np.arange(first, last + 1)[None, :])
    if numbers.size > LARGEST_TABLE:
        return None
    if not np.isfinite(numbers).all():
        raise Obstacle("not-a-number", f"`{node.inputs[0]}` must be finite for every integer")
    _, exponent = np.frexp(np.abs(numbers).max())
    exponent = max(
        min(int(exponent) - (FINE_BITS - 1), _coarsest(builder, node)),
        int(exponent) - (FINEST_BITS - 1),
    )
    integers = np.rint(np.ldexp(numbers, -exponent)).astype(np.int64)
    integers = np.broadcast_to(integers, (len(numbers), last - first + 1))
    lookup = Lookup(operand, integers, Int.holding(int(integers.min()), int(integers.max())))
    tensor = builder.add(f"{node.label}/table", lookup, [value.tensor], node)
    step = Fraction(2) ** exponent
    return Real(tensor, value.shape, builder.positions(value), (step,), error=step / 2)


def _coarsest(builder: Builder, node: Node) -> int:
    """The exponent of the greatest power of two that is fine enough for who quantizes what a node makes, be it moved or
    bounded before."""
    names, found = set(node.outputs), FAR
    for reader in builder.graph.nodes:
        if names.isdisjoint(reader.inputs):
            continue
        effect = facts_of(reader).effect
        if effect in UNCHANGED:
            names.update(reader.outputs)
        elif effect is Effect.QUANTIZES and reader.inputs[0] in names:
            scale = builder.constant(reader.inputs[1])
            step = float(abs(scale.reshape(-1)[0])) if scale is not None and scale.size == 1 else 0.0
            found = min(found, int(np.frexp(step)[1]) - 1 - FINER) if 0 < step < np.inf else found
    return found


def _operator(operand: Any, integers: np.ndarray, dtype: Int) -> Operator | None:
    """The cheapest hardware for a function from the operand's range to integers (1 or channels, count), if there is."""
    low, high = int(integers.min()), int(integers.max())
    first, last = operand.range
    if (np.diff(integers, axis=1) >= 0).all() and low < high:
        wanted = np.arange(low + 1, high + 1)
        thresholds = np.stack([first + np.searchsorted(row, wanted) for row in integers])
        return Staircase(operand, Steps(first, last, low, high, thresholds), dtype)
    if integers.size > LARGEST_TABLE:
        return None
    return Lookup(operand, integers, dtype)


def too_many(builder: Builder, node: Node, value: FunctionValue, count: int) -> Obstacle:
    """Why a function, read by a node, cannot become a table; its data would have to be quantized."""
    data = next(
        (n for n, v in builder.values.items() if isinstance(v, Real) and v.tensor == value.tensor),
        "",
    )
    return Obstacle(
        "quantize-before",
        f"a function that rises and falls must have few arguments to become a table, not {count} (`{node.inputs[0]}`)",
        f"put QuantizeLinear and DequantizeLinear (8 bits) {f'behind `{data}`' if data else 'before the function'}",
        data,
    )
