"""What a circuit costs on the chip that it is for: the one value that the passes ask, handed to all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_hw.ops.operator import Operator, Resources, usual_price
from onnx_hw.ops.outbox import outbox_resources
from onnx_hw_boards.families.family import Price


@dataclass(frozen=True)
class Cost:
    """What cores, and the FIFOs behind them, are estimated to take.

    Attributes:
        price: what a demand takes, as the chip's family says.
    """

    price: Price = usual_price

    def __call__(self, operator: Operator[Any], folding: Any) -> Resources:
        """Of a core, under a folding of the operator's own type."""
        return operator.resources(folding, self.price)

    def of_fifo(self, bits: int, depth: int) -> Resources:
        """Of so many tokens of so many bits."""
        return outbox_resources(bits, depth, self.price)


cost = Cost()
"""Where no board is in sight."""
