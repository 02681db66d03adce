"""Lines that differ between the pixels of a channel, on a stream of one pixel whose channels are all the elements.

Their quantizer has its own constants for every element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import PER_PIXEL, Obstacle
from onnx_hw.lower.ops.matmul_operand import MAX_OPERAND_BITS
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.depthwise import Depthwise

MAX_ELEMENTS = 1 << 16
"""Maximum number of elements, each of which needs a stored constant."""


def per_element(builder: Builder, node: Node, real: Real) -> Real:
    """Return the same numbers on a stream of one pixel, whose channels are the elements.

    Raises:
        Obstacle: There are more than ``MAX_ELEMENTS`` elements, or the value has not all elements of its stream.
    """
    tensor = builder.materialize(real)
    if real.partial or tensor.size > MAX_ELEMENTS:
        raise Obstacle(
            PER_PIXEL,
            f"a constant must be the same for all pixels of a channel, or its data have at most {MAX_ELEMENTS:,} "
            f"elements, not {tensor.size:,}",
        )
    slope, offset = (v if len(v) == 1 else v * tensor.pixels for v in (real.slope, real.offset))
    flat = real.tensor if tensor.pixels == 1 else builder.flat(real.tensor, node)
    return replace(real, tensor=flat, where=builder.positions(real), slope=slope, offset=offset)


def times_per_element(builder: Builder, node: Node, real: Real, factors: np.ndarray) -> Real:
    """Return numbers times positive fractions, which are broadcast to the shape of the numbers."""
    flat = per_element(builder, node, real)
    full = np.empty(flat.where.size, dtype=object)
    full[flat.where] = np.broadcast_to(factors, flat.shape).reshape(-1)
    lines = zip(full, flat.lines() * (1 if len(flat.lines()) > 1 else full.size), strict=True)
    slope, offset = zip(*((factor * a, factor * b) for factor, (a, b) in lines), strict=True)
    return replace(flat, slope=slope, offset=offset, error=flat.error * Fraction(max(factors.reshape(-1))))


def with_signs(builder: Builder, node: Node, real: Real, factors: Sequence[Fraction]) -> Real | None:
    """Build numbers times the signs of factors, on integers times those: a depthwise product with weights of ±1.

    None where the numbers have bounds, or their integers have too many bits.

    Args:
        factors: one, or one per channel; the sign of 0 is 1.
    """
    tensor = builder.materialize(real)
    if real.is_clipped or tensor.dtype.bits > MAX_OPERAND_BITS:
        return None
    signs = np.broadcast_to([-1 if factor < 0 else 1 for factor in factors], tensor.channels)
    product = Depthwise(tensor, signs.reshape(-1, 1, 1))
    stream = builder.add(f"{node.label}/signs", product, [real.tensor], node)
    offset = real.offset * (1 if len(real.offset) > 1 else tensor.channels)
    turned = tuple(int(sign) * number for sign, number in zip(signs, offset, strict=True))
    return replace(real, tensor=stream, where=builder.positions(real), offset=turned)
