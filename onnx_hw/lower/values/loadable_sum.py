"""Sum of two quantized tensors whose scales may become others at run time: two tables, a plain sum, a shift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import LoadableTable
from onnx_hw.exact.requantization import WIDEST_LOADABLE_FUNCTION
from onnx_hw.exact.rounding_shift import LoadableBounds, steps_of_shift
from onnx_hw.exact.separable_sum import separable_sum
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.add import Add
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.requantize import Staircase

GREATER_SCALES = 1
"""Bits by which loaded entries may be greater than the first ones."""


def sum_of_tables(
    builder: NetworkBuilder, node: Node, reals: tuple[Real, Real], sign: int, grid: Grid
) -> IntegerStream | None:
    """Build the integers of a sum on a grid, all of whose constants can be loaded.

    Args:
        reals: the operands, each with one scale.
        sign: sign of the second operand: 1 or −1.

    Returns:
        None where an operand has too many integers for a table, or ties are rounded away from 0, or towards it.
    """
    a, b = (builder.tensors[real.tensor] for real in reals)
    if max(a.dtype.bits, b.dtype.bits) > WIDEST_LOADABLE_FUNCTION:
        return None
    ((p,), (c,)), ((q,), (d,)) = ((real.slope, real.offset) for real in reals)
    shift = 1 + max(a.dtype.bits, b.dtype.bits)
    tables = separable_sum((p, sign * q), c + sign * d, (a.range, b.range), grid, shift)
    if tables is None:
        return None
    entry = _entry_type((tables.first, tables.second))
    parts = []
    for which, values, real in zip(("first", "second"), (tables.first, tables.second), reals, strict=True):
        operand = builder.tensors[real.tensor]
        lookup = Lookup(operand, values[np.newaxis], entry, LoadableTable(1, operand.dtype, entry))
        parts.append(builder.add(f"{node.label}/{which}", lookup, [real.tensor], node))
    first, second = (builder.tensors[part] for part in parts)
    total = builder.add(f"{node.label}/sum", Add(first, second), parts, node)
    summed = builder.tensors[total]
    function = steps_of_shift(shift, tables.parity, (grid.low, grid.high), summed.range)
    form = LoadableBounds(summed.dtype, shift, grid.dtype.min, grid.dtype.max)
    staircase = Staircase(summed, function, grid.dtype, form)
    tensor = builder.add(node.label, staircase, [total], node, output=node.outputs[0])
    return IntegerStream(tensor, reals[0].shape, builder.positions(reals[0]))


def _entry_type(tables: Sequence[np.ndarray]) -> Int:
    """Return the type of entries of these tables, and of those with greater scales."""
    least, greatest = min(int(table.min()) for table in tables), max(int(table.max()) for table in tables)
    return Int(Int.holding(min(least, -1), max(greatest, 0)).bits + GREATER_SCALES)
