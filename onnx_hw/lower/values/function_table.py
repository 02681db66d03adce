"""Hardware for functions of the integers on a stream: steps where the function rises, else an exact table."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.requantization import LARGEST_TABLE, WIDEST_LOADABLE_FUNCTION
from onnx_hw.exact.step_function import Steps
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder, StreamValue
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.ops.add import Add
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Requantize, Staircase
from onnx_hw.ops.tensor import Tensor

FINE_TABLE_BITS, FINEST_TABLE_BITS = 20, 26
"""Usual and greatest width, in bits, of the integers of a table whose numbers are summed up.

With the first, the error of a mean is at most 2^-19 of the greatest number. The table has more bits, up to the second,
where that error is too large for the quantizer of the mean.
"""

TABLE_STEP_EXPONENT = 12
"""Negative exponent of the resolution: a table has multiples of 2^-12 of the next quantizer's step, or finer ones."""

MAX_STEP_EXPONENT = 1 << 20
"""Exponent of a step for which every table is fine enough."""

UNCHANGED = frozenset((Effect.KEEPS, Effect.JOINS, Effect.BOUNDS, Effect.ADDS))
"""Effects of operators that leave the numbers, and their errors, as they are."""

MAX_ENUMERATED_ARGUMENTS = 1 << 18
"""Greatest number of arguments, of all channels together, for which a rising function is computed everywhere. The
steps of a function with more arguments are found by bisection."""

MAX_PART_STEPS = 1 << 10
"""Greatest number of steps of each of the two rising functions whose difference is a function."""

MAX_FUNCTION_ARGUMENTS = 1 << 24
"""Greatest number of arguments, of all channels together, for which a function is computed."""


def integers_of_function(
    builder: NetworkBuilder,
    node: Node,
    value: StreamValue,
    onto: Callable[[np.ndarray], np.ndarray],
    dtype: Int,
    *,
    rises: bool,
    name: str,
    output: str,
) -> IntegerStream:
    """Build integers that are a function of a value's numbers.

    Args:
        onto: function from (1 or channels, n) float64, without NaN, to integers, with one row per channel where they
            differ.
        dtype: type of these integers.
        rises: True where a greater integer of the value is known never to stand for a smaller number.
        name, output: names of the hardware node and its tensor.

    Raises:
        Obstacle: the function has too many arguments, or is NaN for one of them.
    """
    operand = builder.materialize(value)
    first, last = operand.range
    count = last - first + 1
    probe = value.numbers(np.array([[first, (first + last) // 2, last]]))
    if rises and count * len(probe) > MAX_ENUMERATED_ARGUMENTS and not np.isnan(probe[:, -1]).any():
        rising = _rising_steps(operand, value.numbers, onto, dtype)
        return IntegerStream(
            builder.add(name, rising, [value.tensor], node, output=output), value.shape, builder.positions(value)
        )
    channels = 1 if np.array_equal(probe, np.broadcast_to(probe[:1], probe.shape), equal_nan=True) else len(probe)
    if count * channels > MAX_FUNCTION_ARGUMENTS:
        raise too_many_arguments(builder, node, value, count * channels)
    values = value.numbers(np.arange(first, last + 1)[None, :])
    if len(values) > 1 and (values == values[0]).all():
        values = values[:1]
    if values.size > MAX_FUNCTION_ARGUMENTS:
        raise too_many_arguments(builder, node, value, values.size)
    if np.isnan(values).any():
        argument = first + int(np.argwhere(np.isnan(values))[0][1])
        raise Obstacle(
            "not-a-number", f"`{node.inputs[0]}` must be a number for every integer; it is NaN for {argument}"
        )
    integers = onto(np.broadcast_to(values, (len(values), count)))
    operator = _operator_of(builder, operand, integers, dtype)
    if operator is not None:
        tensor = builder.add(name, operator, [value.tensor], node, output=output)
    elif builder.splits_functions and (parts := _rising_parts(operand, integers)) is not None:
        halves = [
            builder.add(f"{name}/{which}", part, [value.tensor], node)
            for which, part in zip(("rising", "falling"), parts, strict=True)
        ]
        first_part, second_part = (builder.tensors[part] for part in halves)
        total = builder.add(f"{name}/difference", Add(first_part, second_part, (1, -1)), halves, node)
        ends = int(integers.min()), int(integers.max())
        same = Requantize(builder.tensors[total], (Fraction(1),), (Fraction(0),), Grid.over(dtype).within(*ends))
        tensor = builder.add(name, same, [total], node, output=output)
    else:
        raise too_many_arguments(builder, node, value, integers.size)
    return IntegerStream(tensor, value.shape, builder.positions(value))


def _rising_parts(operand: Tensor, integers: np.ndarray) -> tuple[Operator, Operator] | None:
    """Return two functions that never fall, and whose difference is a function from the operand's range to integers.

    The first adds up all rises, the second all falls. None where there are too many.

    Args:
        integers: int64 (1 or channels, count).
    """
    changes = np.diff(integers, axis=1)
    nothing = np.zeros_like(integers[:, :1])
    rises, falls = (np.hstack((nothing, np.cumsum(np.maximum(c, 0), axis=1))) for c in (changes, -changes))
    rises = rises + integers[:, :1]
    for part in (rises, falls):
        part[:, -1] += 1  # both have a step, even where one of them is constant
    if max(int(part.max()) - int(part.min()) for part in (rises, falls)) > MAX_PART_STEPS:
        return None
    first, second = (
        _cheapest_operator(operand, part, Int.holding(int(part.min()), int(part.max()))) for part in (rises, falls)
    )
    assert first is not None and second is not None, "neither part falls"
    return first, second


def _rising_steps(
    operand: Tensor, numbers: Callable[[np.ndarray], np.ndarray], onto: Callable[[np.ndarray], np.ndarray], dtype: Int
) -> Staircase:
    """Return the steps of a rising function by bisection, since it has too many arguments to compute them all.

    Where it is not a number, as the logarithm of a negative one, it counts as the least. The range is that of all
    channels together: such arguments may lie in it that a channel never has.
    """
    first, last = operand.range

    def integers(arguments: np.ndarray) -> np.ndarray:
        values = numbers(arguments)
        return onto(np.where(np.isnan(values), -np.inf, values))

    ends = integers(np.array([[first, last]]))
    low, high = int(ends.min()), int(ends.max())
    levels = np.arange(low + 1, high + 1)
    below, above = (np.full((len(ends), levels.size), end) for end in (first - 1, last + 1))
    while (above - below > 1).any():
        middle = np.maximum((below + above) // 2, first)
        is_reached = integers(middle) >= levels
        below, above = np.where(is_reached, below, middle), np.where(is_reached, middle, above)
    above = np.maximum.accumulate(above, axis=1)  # float64 rounding may make a rising function fall by its last bit
    return Staircase(operand, Steps(first, last, low, high, above), dtype)


def _operator_of(builder: NetworkBuilder, operand: Tensor, integers: np.ndarray, dtype: Int) -> Operator | None:
    """Return hardware for a function, as ``_cheapest_operator``; a table where others may be loaded, which may fall."""
    if builder.loadable and operand.dtype.bits <= WIDEST_LOADABLE_FUNCTION:
        return Lookup(operand, integers, dtype)
    return _cheapest_operator(operand, integers, dtype)


def _cheapest_operator(operand: Tensor, integers: np.ndarray, dtype: Int) -> Operator | None:
    """Return the cheapest hardware for a function from the operand's range to integers (1 or channels, count).

    None where the function falls somewhere and is too large for a table.
    """
    low, high = int(integers.min()), int(integers.max())
    first, last = operand.range
    if (np.diff(integers, axis=1) >= 0).all() and low < high:
        levels = np.arange(low + 1, high + 1)
        thresholds = np.stack([first + np.searchsorted(row, levels) for row in integers])
        return Staircase(operand, Steps(first, last, low, high, thresholds), dtype)
    if integers.size > LARGEST_TABLE:
        return None
    return Lookup(operand, integers, dtype)


def fine_table(builder: NetworkBuilder, node: Node, value: StreamValue) -> tuple[str, Fraction] | None:
    """Build a table of a function that a node sums up; its numbers are rounded to multiples of a power of two.

    Returns:
        name of the tensor, and the power of two; None where the function has too many arguments.

    Raises:
        Obstacle: a number of the function is not finite.
    """
    operand = builder.materialize(value)
    first, last = operand.range
    if last - first >= LARGEST_TABLE:
        return None
    numbers = value.numbers(np.arange(first, last + 1)[None, :])
    if numbers.size > LARGEST_TABLE:
        return None
    if not np.isfinite(numbers).all():
        numbers = _with_saturating_numbers(builder, node, numbers, value.where.size)
    _, exponent = np.frexp(np.abs(numbers).max())
    exponent = max(
        min(int(exponent) - (FINE_TABLE_BITS - 1), _coarsest_exponent(builder, node)),
        int(exponent) - (FINEST_TABLE_BITS - 1),
    )
    integers = np.rint(np.ldexp(numbers, -exponent)).astype(np.int64)
    integers = np.broadcast_to(integers, (len(numbers), last - first + 1))
    lookup = Lookup(operand, integers, Int.holding(int(integers.min()), int(integers.max())))
    return builder.add(f"{node.label}/table", lookup, [value.tensor], node), Fraction(2) ** exponent


def _with_saturating_numbers(builder: NetworkBuilder, node: Node, numbers: np.ndarray, size: int) -> np.ndarray:
    """Return the numbers that a reduction sums up, with a finite one in place of −∞ or ∞, such as of the Log of 0.

    It is so far from 0 that the quantizer of the result saturates for each sum with it, as for the infinite one.

    Args:
        size: number of elements that are summed up to all results together.

    Raises:
        Obstacle: some number is NaN, both −∞ and ∞ occur, or not only quantizers read the result.
    """
    obstacle = Obstacle("not-a-number", f"`{node.inputs[0]}` must be finite for every integer", needs=node.inputs[0])
    infinite, finite = (numbers[chosen] for chosen in (np.isinf(numbers), np.isfinite(numbers)))
    quantizers, others = _quantizers_behind(builder, node, frozenset((Effect.KEEPS,)))
    reduces = facts_of(node).effect is Effect.SUMS and node.op_type.startswith("Reduce")
    if np.isnan(numbers).any() or len(set(infinite)) > 1 or others or not quantizers or not reduces:
        raise obstacle
    constants, reach = builder.graph.constants, 0.0
    for reader in quantizers:
        if not constants.keys() >= set(reader.inputs[1:]):
            raise obstacle
        bits = max((8 * constants[name].itemsize for name in reader.inputs[2:]), default=8)
        reach = max(reach, float(np.abs(constants[reader.inputs[1]]).max()) * (2 << bits))
    result = builder.graph.values[node.outputs[0]].shape or ()
    count = size // prod(length for length in result if isinstance(length, int))
    sign = 1.0 if infinite[0] > 0 else -1.0
    against = max(0.0, float((-sign * finite).max(initial=0.0)))
    far = reach * (1 if node.op_type == "ReduceSum" else count) + (count - 1) * against
    return np.where(np.isinf(numbers), sign * far, numbers)


def _quantizers_behind(builder: NetworkBuilder, node: Node, passed: frozenset[Effect]) -> tuple[list[Node], list[Node]]:
    """Return the quantizers of a node's result, behind operators with some effects, and its other readers."""
    names, quantizers, others = set(node.outputs), list[Node](), list[Node]()
    for reader in builder.graph.nodes:
        if names.isdisjoint(reader.inputs):
            continue
        effect = facts_of(reader).effect
        if effect in passed:
            names.update(reader.outputs)
        elif effect is Effect.QUANTIZES and reader.inputs[0] in names:
            quantizers.append(reader)
        else:
            others.append(reader)
    return quantizers, others


def _coarsest_exponent(builder: NetworkBuilder, node: Node) -> int:
    """Return the exponent of the greatest power of two that is fine enough for every quantizer of a node's result.

    The result may be moved or bounded before it is quantized.
    """
    exponent = MAX_STEP_EXPONENT
    for reader in _quantizers_behind(builder, node, UNCHANGED)[0]:
        scale = builder.graph.constants.get(reader.inputs[1])
        step = float(abs(scale.reshape(-1)[0])) if scale is not None and scale.size == 1 else 0.0
        if 0 < step < np.inf:
            exponent = min(exponent, int(np.frexp(step)[1]) - 1 - TABLE_STEP_EXPONENT)
    return exponent


def too_many_arguments(builder: NetworkBuilder, node: Node, value: StreamValue, count: int) -> Obstacle:
    """Return the obstacle that a function, read by a node, cannot become a table unless its data is quantized.

    Args:
        value: the numbers of the function.
        count: number of its arguments.
    """
    data = next(
        (
            name
            for name, candidate in builder.values.items()
            if candidate.is_linear and not candidate.is_integers and candidate.tensor == value.tensor
        ),
        "",
    )
    return Obstacle(
        "quantize-before",
        f"a function that rises and falls must have few arguments to become a table, not {count} (`{node.inputs[0]}`)",
        f"put QuantizeLinear and DequantizeLinear (8 bits) {f'behind `{data}`' if data else 'before the function'}",
        data,
    )
