"""Softmax and normalizations: each number in relation to all numbers along some axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.obstacle import PER_PIXEL, Obstacle, not_built
from onnx_hw.lower.ops.binary import is_quantized_in_model
from onnx_hw.lower.ops.element_groups import groups_as_pixels
from onnx_hw.lower.ops.matmul_operand import MAX_OPERAND_BITS, from_zero
from onnx_hw.lower.ops.per_element import with_signs
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.per_channel import per_channel
from onnx_hw.lower.values.quotient import PendingQuotient
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.shares import PendingShares
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.softmax import softmax_axes
from onnx_hw.ops.add import Add
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.normalize import POINT_BITS, Normalize
from onnx_hw.ops.requantize import Requantize

MAX_EXPONENTIALS = 1 << 12
"""Greatest number of integers of the data of a Softmax: there is a table of their exponentials."""


@lowers("Softmax")
def softmax(builder: Builder, node: Node) -> None:
    """Accept quantized data, of which 12 bits count; hardware before a product, on the host elsewhere."""
    if not builder.leads_to_product(node.outputs[0]):
        raise not_built(node)
    axes = softmax_axes(node, len(builder.shape(node.inputs[0])))
    data = data_to_normalize(builder, node)
    value, rounded = _with_few_integers(builder, node, groups_as_pixels(builder, node, data, axes))
    builder.pending[node.outputs[0]] = PendingShares(value, rounded=rounded)


def _with_few_integers(builder: Builder, node: Node, value: Real) -> tuple[Real, Fraction]:
    """Return numbers on integers that are few enough for a table of exponentials, and a bound of their error.

    Integers of more bits, which the model has quantized, are rounded to multiples of a power of two.

    Raises:
        Obstacle: there are too many sums for a table.
    """
    tensor = builder.materialize(value)
    if not is_quantized_in_model(builder, value.tensor):
        require_few_exponentials(node, *tensor.range)
    shift = 0
    while (tensor.range[1] - tensor.range[0]) >> shift >= MAX_EXPONENTIALS - 1:
        shift += 1
    if not shift:
        return value, Fraction(0)
    low, high = (round(Fraction(end, 1 << shift)) for end in tensor.range)
    grid = Grid.over(Int.holding(low, high)).within(low, high)
    fewer = Requantize(tensor, (Fraction(1, 1 << shift),), (Fraction(0),), grid)
    stream = builder.add(f"{node.label}/data", fewer, [value.tensor], node)
    slope = value.slope[0] * (1 << shift)
    return replace(value, tensor=stream, where=builder.positions(value), slope=(slope,)), slope / 2


def require_few_exponentials(node: Node, first: int, last: int, bits: int = 12) -> None:
    """Raise an obstacle if the table of a Softmax has too many entries.

    Args:
        first, last: range of the integers that the table is made for.
        bits: greatest width of data with a smaller table.
    """
    if last - first >= MAX_EXPONENTIALS:
        raise _not_quantized(node, f"has the integers {first}..{last}", bits)


DEFAULT_EPSILON = 9.999999747378752e-06
"""Epsilon of ONNX, 1e-5 as float32."""

LOADABLE_FINER_STEP = 3
"""Step of the bits by which W is finer, where others may be loaded: many scales have the same number of bits."""

EPSILON_BITS, MAX_FINER = 16, 8
"""Bits that an epsilon should have at least as an integer; the most by which W becomes finer for that."""

MVN_EPSILON = 1e-9**2
"""Epsilon of MeanVarianceNormalization."""


@lowers("LayerNormalization", "RMSNormalization")
def layer_normalization(builder: Builder, node: Node) -> None:
    """Accept quantized data with one scale, and constants; hardware before a product, on the host elsewhere."""
    if any(name and builder.is_read(name) for name in node.outputs[1:]):
        raise Obstacle("statistics", f"the statistics of {node.op_type} must not be read", "leave out these outputs")
    rank = len(builder.shape(node.inputs[0]))
    axes = tuple(range(int(node.attributes.get("axis", -1)) % rank, rank))
    _normalize(builder, node, axes, centered=node.op_type == "LayerNormalization")


@lowers("InstanceNormalization", "GroupNormalization")
def group_normalization(builder: Builder, node: Node) -> None:
    """Accept quantized data with one scale, and constants; hardware before a product, on the host elsewhere."""
    shape = builder.shape(node.inputs[0])
    groups = int(node.attributes.get("num_groups", shape[1]))
    each = shape[1] // groups

    def of_channels(constant: np.ndarray) -> np.ndarray:
        constant = constant.reshape(-1)
        whole = constant if constant.size == shape[1] else np.repeat(constant, each)
        return whole.reshape(-1, *(1,) * (len(shape) - 2))

    grouped = (shape[0], groups, each, *shape[2:])
    _normalize(builder, node, tuple(range(2, len(grouped))), shape=grouped, constant=of_channels)


@lowers("MeanVarianceNormalization")
def mean_variance_normalization(builder: Builder, node: Node) -> None:
    """Accept quantized data with one scale; hardware before a product, on the host elsewhere."""
    rank = len(builder.shape(node.inputs[0]))
    axes = tuple(sorted({int(axis) % rank for axis in node.attributes.get("axes", (0, 2, 3))}))
    _normalize(builder, node, axes, epsilon=MVN_EPSILON)


@lowers("LpNormalization")
def lp_normalization(builder: Builder, node: Node) -> None:
    """Accept quantized data with one scale; hardware before a product, on the host elsewhere."""
    rank = len(builder.shape(node.inputs[0]))
    axis = int(node.attributes.get("axis", -1)) % rank
    if int(node.attributes.get("p", 2)) == 1:
        builder.pending[node.outputs[0]] = _share_of_magnitudes(builder, node, axis)
        return
    _normalize(builder, node, (axis,), centered=False, counted=False, epsilon=0.0)


def _share_of_magnitudes(builder: Builder, node: Node, axis: int) -> PendingQuotient:
    """Build the sums of magnitudes along an axis, exactly, and return the quotients of the data and these.

    |x| is 2·max(x, 0) − x. A sum of 0 counts as 1: all its data are 0, and so are the quotients.
    """
    if not builder.leads_to_product(node.outputs[0]):
        raise not_built(node)
    data = data_to_normalize(builder, node)
    if data.zero_point != 0:
        data = from_zero(builder, node, data, "data", 0)
    data = groups_as_pixels(builder, node, data, (axis,))
    tensor = builder.materialize(data)

    def at_least(name: str, stream: str, low: int) -> str:
        high = max(low, builder.tensors[stream].range[1])
        grid = Grid.over(Int.holding(low, high)).within(low, high)
        bounded = Requantize(builder.tensors[stream], (Fraction(1),), (Fraction(0),), grid)
        return builder.add(f"{node.label}/{name}", bounded, [stream], node)

    positive = at_least("positive", data.tensor, 0)
    apart = Add(builder.tensors[positive], tensor, (2, -1))
    magnitudes = builder.add(f"{node.label}/magnitudes", apart, [positive, data.tensor], node)
    ones = MatMul(builder.tensors[magnitudes], np.ones((1, tensor.channels), dtype=np.int8))
    norms = at_least("norms", builder.add(f"{node.label}/sums", ones, [magnitudes], node), 1)
    positions = builder.positions(data)
    lengths = tuple(1 if k == axis else length for k, length in enumerate(data.shape))
    origin = np.broadcast_to(np.arange(prod(lengths)).reshape(lengths), data.shape).reshape(-1)
    pixels = positions.reshape(data.shape).take([0], axis).reshape(-1) // tensor.channels
    norm = Real(norms, lengths, pixels, data.slope, (Fraction(0),))
    layout = Layout(tensor.shape, np.argsort(positions))
    return PendingQuotient(data, builder.moved(norm, origin, data.shape, node, layout))


def _normalize(
    builder: Builder,
    node: Node,
    axes: tuple[int, ...],
    *,
    centered: bool = True,
    counted: bool = True,
    epsilon: float | None = None,
    shape: tuple[int, ...] | None = None,
    constant: Callable[[np.ndarray], np.ndarray] = lambda array: array,
) -> None:
    """Set the result of a node to its data, normalized over some axes, times its scale plus its bias.

    Args:
        centered: whether the mean is subtracted.
        counted: whether the sum of squares is divided by the number of elements.
        epsilon: what is added to the mean square; None for the attribute of the node.
        shape: shape of the data to which ``axes`` refer; None for its own.
        constant: function that makes a scale or a bias broadcastable to the data.
    """
    if not builder.leads_to_product(node.outputs[0]):
        raise not_built(node)
    factors, terms = (_constant(builder, node, k, constant) for k in (1, 2))
    data = data_to_normalize(builder, node)
    if not centered and data.zero_point != 0:
        data = from_zero(builder, node, data, "data", 0)
    whole = data.shape
    value = groups_as_pixels(builder, node, replace(data, shape=shape or whole), axes)
    weight = value.where.size // builder.materialize(value).pixels if counted else 1
    added = node.attributes.get("epsilon", DEFAULT_EPSILON) if epsilon is None else epsilon
    square = Fraction(np.float64(added).item()) * weight**2 / value.slope[0] ** 2
    finer = 0
    while square and square * 4**finer < 1 << EPSILON_BITS and finer < MAX_FINER:
        finer += LOADABLE_FINER_STEP if builder.loadable else 1
    square *= 4**finer
    operator = Normalize(builder.tensors[value.tensor], centered, weight, round(square), finer)
    if factors is not None and any(factor < 0 for factor in factors.reshape(-1)):  # a product with signs is narrower
        while operator.results()[0].dtype.bits > MAX_OPERAND_BITS:
            operator = replace(operator, fraction_bits=operator.fraction_bits - 1)
    stream = builder.add(f"{node.label}/normalize", operator, [value.tensor], node)
    step = Fraction(1, 1 << operator.fraction_bits)
    rounded = Fraction(operator.bound(0), 1 << operator.mantissa_bits) + Fraction(2, 1 << POINT_BITS) + step / 2
    if operator.epsilon:
        rounded += Fraction(operator.bound(0), 4 * operator.epsilon)
    real = Real(stream, whole, builder.positions(value), (step,), rounded=rounded)
    builder.values[node.outputs[0]] = _affine(builder, node, real, factors, terms)


def _affine(builder: Builder, node: Node, real: Real, factors: np.ndarray | None, terms: np.ndarray | None) -> Real:
    """Return the results of a core times factors plus terms, which are broadcast to them; None for 1 and 0."""
    one, zero = (np.array(Fraction(k), dtype=object) for k in (1, 0))
    constants = one if factors is None else factors, zero if terms is None else terms
    try:
        slopes, offsets = (per_channel(builder, real, array) for array in constants)
    except Obstacle as obstacle:
        if obstacle.code != PER_PIXEL or len(real.shape) not in (3, 4) or real.shape[0] != 1:
            raise
        real, _ = builder.image(real, node)
        slopes, offsets = (per_channel(builder, real, array) for array in constants)
    if any(slope < 0 for slope in slopes):
        signed = with_signs(builder, node, real, slopes)
        if signed is None:
            raise Obstacle("negative-scale", f"the scale of {node.op_type} must not be negative here")
        real, slopes = signed, tuple(map(abs, slopes))
    step, most = real.slope[0], max(slopes)
    return replace(real, slope=tuple(step * slope for slope in slopes), offset=offsets, rounded=real.rounded * most)


def _constant(builder: Builder, node: Node, k: int, reshaped: Callable[[np.ndarray], np.ndarray]) -> np.ndarray | None:
    """Return a scale or a bias of a node as exact numbers that are broadcast to its data; None where it has none."""
    if len(node.inputs) <= k or not node.inputs[k]:
        return None
    exact = builder.exact_constant(node.inputs[k])
    if exact is None:
        raise Obstacle("not-constant", f"scale and bias of {node.op_type} must be constant")
    return reshaped(exact)


def data_to_normalize(builder: Builder, node: Node) -> Real:
    """Return the data of a node as numbers with one scale and without bounds.

    Raises:
        Obstacle: they must be quantized.
    """
    real = builder.real(node).unclipped(builder, node)
    if real.is_clipped or not real.has_one_scale or real.slope[0] <= 0 or real.error:
        raise _not_quantized(node, "is clipped" if real.is_clipped else "has a scale or an offset per channel")
    return replace(real, slope=real.slope[:1], offset=real.offset[:1])


def _not_quantized(node: Node, what: str, bits: int = 16) -> Obstacle:
    """Return the obstacle that the data of a node must be quantized; ``what`` is a predicate of its name."""
    name = node.inputs[0]
    return Obstacle(
        "operand-not-quantized",
        f"the data of {node.op_type} must be quantized to at most {bits} bits with one scale; `{name}` {what}",
        f"put QuantizeLinear and DequantizeLinear between `{name}` and `{node.label}`",
        name,
    )
