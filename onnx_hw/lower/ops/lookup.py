"""Functions of one tensor, element by element: Sigmoid, HardSwish, x · Sigmoid(x) ... as exact tables.

A chain of such nodes between the integers of a tensor and the QuantizeLinear that follows is one function of an
integer. It is computed once for every integer that can occur, in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from operator import mul

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.network_builder import StreamValue
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.binary import product_of
from onnx_hw.lower.ops.constants import aligned
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.function import FunctionValue, Pieces
from onnx_hw.lower.values.per_channel import per_channel
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of_operator, operators

UNARY_FUNCTIONS = frozenset(
    row.op_type
    for row in operators()
    if not row.domain and row.max_inputs == 1 and facts_of_operator("", row.op_type).effect is Effect.BENDS
)
"""ONNX operators of one tensor whose facts say ``BENDS``, by name; a new one needs no line here."""

MONOTONIC_OPERATORS = frozenset(
    ("LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign",
     "Atan", "Asinh", "ThresholdedRelu", "Floor", "Ceil", "Round", "Sign", "Exp", "Log", "Sqrt")
)  # fmt: skip
"""Operators whose functions never fall where they are numbers, unless ``alpha`` or ``gamma`` is negative."""


@lowers(*UNARY_FUNCTIONS)
def function(builder: Builder, node: Node) -> None:
    """Make an exact table, for quantized data."""
    builder.values[node.outputs[0]] = function_of(builder, node)


@lowers("PRelu", "Pow", "Mod")
def function_with_constants(builder: Builder, node: Node) -> None:
    """Make an exact table, for quantized data and constants with at most one value per channel.

    A square that must be exact is a product instead.
    """
    if node.op_type == "Pow" and node.outputs[0] in builder.exact:
        square = replace(node, op_type="Mul", inputs=(node.inputs[0],) * 2)
        builder.pending[node.outputs[0]] = product_of(builder, square)
        return
    builder.values[node.outputs[0]] = function_of(builder, node)


def function_of(builder: Builder, node: Node) -> FunctionValue:
    """Return the function that a node computes of one tensor and constants.

    Raises:
        Obstacle: The node reads several tensors, or the elements of one tensor in different orders.
    """
    values = [builder.values[name] for name in node.inputs if name in builder.values]
    sources = [source for value in values if (source := StreamNumbers.cast(value)) is not None]
    if not sources or len(sources) < len(values):
        raise builder.obstacle(node)
    first = sources[0]
    if not share_integers(sources):
        raise Obstacle(
            "two-tensors",
            f"all inputs of {node.op_type} but one must be constant: {node.op_type} of two tensors has no hardware",
        )
    arguments = [_argument(builder, node, name, first) for name in node.inputs]
    plain = replace(node, attributes={k: v for k, v in node.attributes.items() if k not in ("axis", "broadcast")})

    def numbers(integers: np.ndarray) -> np.ndarray:
        inputs = [None if argument is None else argument(integers) for argument in arguments]
        return np.asarray(compute(plain, inputs)[0], dtype=np.float64)

    rises = len(sources) == 1 and first.rises and _is_monotonic(builder, node)
    pieces = _pieces(builder, node, first)
    shape = builder.shape(node.outputs[0])
    if prod(shape) != first.where.size:
        shape = first.shape
    return FunctionValue(first.tensor, shape, first.where, numbers, pieces, partial=first.partial, rises=rises)


def share_integers(values: Sequence[StreamValue | None]) -> bool:
    """Return whether all values are on the same integers in one order, so that a result is a function of these."""
    sources = {
        None if value is None or value.is_integers else (value.tensor, value.shape, value.where.tobytes())
        for value in values
    }
    return len(sources) == 1 and None not in sources


def _pieces(builder: Builder, node: Node, value: StreamNumbers) -> Pieces:
    """Return the two lines of a leak, x and α·x with 0 ≤ α ≤ 1, whose maximum is the function; empty for others."""
    data = Real.cast(value)
    if data is None or data.is_clipped or data.partial:
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
    leak = (tuple(map(mul, slope, share)), tuple(map(mul, offset, share)))
    return (data.slope, data.offset), leak


def _is_monotonic(builder: Builder, node: Node) -> bool:
    """Return whether the function of a node surely never falls, where it is a number."""
    if node.op_type in ("Add", "Sub", "Mul", "Div"):
        constant = builder.exact_constant(node.inputs[1])
        return constant is not None and (node.op_type in ("Add", "Sub") or bool((constant > 0).all()))
    if node.op_type in MONOTONIC_OPERATORS:
        return all(0 <= value < np.inf for name, value in node.attributes.items() if name in ("alpha", "gamma"))
    shares = builder.exact_constant(node.inputs[1]) if node.op_type == "PRelu" else None
    return shares is not None and all(share >= 0 for share in shares.reshape(-1))


def _argument(
    builder: Builder, node: Node, name: str, data: StreamNumbers
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return an input of a node as a function of the integers; None for an input that is left out.

    The function returns (1 or channels, n), or (1 or channels, 1) for a constant.
    """
    if not name:
        return None
    value = builder.values.get(name)
    if value is not None:
        return value.numbers
    constant = builder.exact_constant(name)
    if constant is None:
        raise Obstacle("two-tensors", f"`{name}`, an input of {node.op_type}, must be constant or in hardware")
    column = np.array([[float(v)] for v in per_channel(builder, data, aligned(node, constant, len(data.shape)))])
    return lambda integers: column
