"""Result of two tensors that waits for its quantizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onnx_hw.lower.network_builder import StreamValue
from onnx_hw.lower.values.clipped import Clipped
from onnx_hw.lower.values.real import Real


@dataclass(frozen=True)
class PendingPair(Clipped):
    """Base of the real numbers that are made of two tensors, element by element.

    Attributes:
        a, b: the operands, of one shape, in one order, without bounds: integers with one scale each.
    """

    a: Real
    b: Real

    is_pending: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape

    def streams(self) -> list[StreamValue]:
        return [self.a, self.b]

    @property
    def offsets(self) -> tuple[int, int]:
        """Numbers to add to the integers of the operands of a product or a quotient: minus their zero points."""
        a, b = self.a.zero_point, self.b.zero_point
        assert a is not None and b is not None, "an integer of either operand stands for 0"
        return -a, -b
