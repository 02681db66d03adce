"""How fast a node can be at all, whatever it takes; and how fast with one pixel in a beat."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import Any

from onnx_hw.ir.network import Network
from onnx_hw.ops.operator import Operator


def least_cycles(network: Network) -> tuple[int, int]:
    """Return the cycles below which a node has no folding; and below which one has none with one pixel a beat."""
    several, one = zip(*(_of(node.operator) for node in network.nodes), strict=True)
    return max(several), max(one)


def longest_interval(network: Network) -> int:
    """Return the cycles a frame of the slowest design: one lane everywhere."""
    return max(node.operator.cycles(node.operator.narrowest) for node in network.nodes)


def least_cycles_of(operator: Operator[Any]) -> int:
    """Return the cycles a frame below which a node has no folding."""
    return _of(operator)[0]


@lru_cache(maxsize=1 << 12)
def _of(operator: Operator[Any]) -> tuple[int, int]:
    """Return both bounds of one node, remembered, since every search of a network asks for them."""

    def first_pixels(interval: int) -> int:
        """Return the most pixels of a beat in the first folding; 0 without a folding."""
        folding = next(operator.foldings(interval), None)
        if folding is None:
            return 0
        return max(order.pixels for order in (*operator.input_orders(folding), *operator.output_orders(folding)))

    slowest = operator.cycles(operator.narrowest)
    one = bisect_left(range(slowest), True, 1, key=lambda interval: first_pixels(interval) == 1)
    return bisect_left(range(one), True, 1, key=lambda interval: first_pixels(interval) > 0), one
