"""Converters between neighbours that do not agree: the cores that make one order of another one, and their FIFOs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from onnx_hw.ops.convert_order import conversion
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.budget import RESOURCES
from onnx_hw.schedule.cost_model import Cost

SHALLOW_TOKENS = 2
"""Tokens of a FIFO, for an estimate: the depth is chosen later."""

Key = tuple[int, int, int, int]
"""Key of an order on a known tensor: its lanes, pixels, tile, times."""


@dataclass(frozen=True)
class Between:
    """The cores between neighbours that do not agree.

    Attributes:
        used, fifos: see ``Alternative``.
        cycles: of the slowest that is slower than both neighbours; else 0.
    """

    used: np.ndarray
    fifos: int
    cycles: int


def key_of(order: Order) -> Key:
    """Return the key of an order; orders of a tensor with one key are alike."""
    return order.lanes, order.pixels, order.tile, order.times


def as_array(used: Resources) -> np.ndarray:
    """Return resources as an array: (resources,) int64."""
    return np.array([getattr(used, field) for field in RESOURCES], dtype=np.int64)


def as_resources(used: np.ndarray) -> Resources:
    """Return the resources of an array: (resources,) int64."""
    return Resources(**{field: int(amount) for field, amount in zip(RESOURCES, used, strict=True)})


def part_of(given: Order, wanted: Order) -> tuple[Tensor, int]:
    """Return the smallest tensor between whose orders the same cores lie, and how often it passes in a frame: rows are
    alike, and groups of pixels where their number stays.
    """
    rows, columns, channels = given.tensor.shape
    alike = 1
    if given.tile == given.pixels and wanted.tile == wanted.pixels:
        alike, columns = rows, columns if given.pixels != wanted.pixels else given.pixels
    return Tensor((rows // alike, columns, channels), given.tensor.dtype), alike


@lru_cache(maxsize=1 << 16)
def at_least(cost: Cost, tensor: Tensor, given: Key, wanted: Key) -> Between:
    """Return a lower bound of the cost that ``between`` returns, found sooner."""
    cores = list(conversion(Order(tensor, *given), Order(tensor, *wanted)))
    used = sum((cost.at_least(operator, folding) for operator, folding in cores), Resources())
    return Between(as_array(used), fifos(cost, [o for core, folding in cores for o in core.output_orders(folding)]), 0)


@lru_cache(maxsize=1 << 16)
def between(cost: Cost, tensor: Tensor, given: Key, wanted: Key) -> Between:
    """Return the cost between two orders, remembered: many tensors of a network are alike."""
    before, after = Order(tensor, *given), Order(tensor, *wanted)
    cores = list(conversion(before, after))
    used = sum((_core(cost, operator, folding) for operator, folding in cores), Resources())
    cycles = 0
    if max(before.pixels, after.pixels) % min(before.pixels, after.pixels):  # else no slower than both ends
        cycles = max(operator.cycles(folding) for operator, folding in cores)
    behind = fifos(cost, [order for operator, folding in cores for order in operator.output_orders(folding)])
    return Between(as_array(used), behind, cycles)


@lru_cache(maxsize=1 << 16)
def _core(cost: Cost, operator: Operator[Any], folding: Folding) -> Resources:
    """Return the cost of a core that lies between many pairs of neighbours."""
    return cost(operator, folding)


def fifos(cost: Cost, orders: Iterable[Order]) -> int:
    """Return the LUTs of a FIFO for each of these streams."""
    return sum(_fifo(cost, order.width * order.tensor.dtype.bits) for order in orders)


@lru_cache(maxsize=1 << 12)
def _fifo(cost: Cost, bits: int) -> int:
    return cost.of_fifo(bits, SHALLOW_TOKENS).lut
