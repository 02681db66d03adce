"""Cost of a circuit on the chip that it is for: the one value that all passes ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_hw.ops.operator import Operator, Resources, priced
from onnx_hw.ops.outbox import DEEPEST_IN_LUTRAM, outbox_resources
from onnx_hw_boards.families.default import usual_price
from onnx_hw_boards.families.family import Family, Price

SMALL_BLOCK_BITS = 4096
"""Bits of the largest block RAM that is small."""


@dataclass(frozen=True)
class Cost:
    """Estimated cost of cores and of the FIFOs behind them.

    Attributes:
        price: what a demand takes, as the chip's family says.
        deepest_at_once: tokens of the deepest FIFO that is not in block RAM.
        small_blocks: whether a block RAM is so small that it is worth the constants of a single core.
    """

    price: Price = usual_price
    deepest_at_once: int = DEEPEST_IN_LUTRAM
    small_blocks: bool = False

    @classmethod
    def of(cls, family: Family) -> Cost:
        """Return the cost on the chips of a family."""
        return cls(family.cost, family.deepest_at_once, family.bram_bits <= SMALL_BLOCK_BITS)

    def __call__(self, operator: Operator[Any], folding: Any) -> Resources:
        """Return the cost of a core, under a folding of the operator's own type."""
        return operator.resources(folding, self.price)

    def at_least(self, operator: Operator[Any], folding: Any) -> Resources:
        """Return a lower bound of the cost of that core."""
        return priced(operator.demand_at_least(folding), price=self.price)

    def of_fifo(self, bits: int, depth: int) -> Resources:
        """Return the cost of a FIFO of ``depth`` tokens of ``bits`` bits."""
        return outbox_resources(bits, depth, self.price, self.deepest_at_once)


cost = Cost()
"""Cost without a board."""
