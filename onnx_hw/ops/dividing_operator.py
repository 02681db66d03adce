"""Operators with exact division: results on a grid are rounded quotients, found bit by bit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.rounding import Rounding
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator

MULTIPLIER_LATENCY = 3
"""Cycles of the products with the numerator and the denominator of the factor, where either is no power of two."""


class StepFolding(Folding):
    """Base of the foldings with a divider; its field is theirs.

    Attributes:
        steps: cycles spent on a beat: 1, or one for each bit of a quotient, which a lane then finds with one
            subtraction.
    """

    steps: int


Q = TypeVar("Q", bound=StepFolding)


class DividingOperator(Operator[Q]):
    """Base of the operators with a divider; its field is theirs.

    Attributes:
        grid: grid of the result: one step, an integer zero point, half to even.
    """

    grid: Grid

    if TYPE_CHECKING:  # a field of some operators, computed by others

        @property
        def factor(self) -> Fraction:
            """Number by which a quotient is multiplied, so that the result is an integer; not 0."""

    @property
    @abstractmethod
    def quotient_bits(self) -> int:
        """Bits of the magnitudes that are told apart; greater ones saturate."""

    def require_grid(self) -> None:
        """Raise ValueError for a grid that division does not give."""
        if self.grid.channels != 1 or self.grid.zero_point[0].denominator != 1:
            raise ValueError("the grid of the result must have one step and an integer zero point")
        if self.grid.rounding is not Rounding.HALF_EVEN:
            raise ValueError(f"the result must be rounded half to even, not by {self.grid.rounding}")

    @property
    def zero_point(self) -> int:
        return int(self.grid.zero_point[0])

    def limits(self) -> dict[str, int]:
        return super().limits() | {"steps": self.quotient_bits}

    def illegal(self, folding: Q) -> str:
        reason = super().illegal(folding)
        if not reason and folding.steps not in (1, self.quotient_bits):
            return f"steps must be 1 or {self.quotient_bits} here"
        return reason

    def in_steps(self, foldings: Iterable[Q], interval: int) -> Iterator[Q]:
        """Yield foldings with a divider in steps where a beat has the time."""
        for folding in foldings:
            stepped = replace(folding, steps=self.quotient_bits)  # type: ignore[call-arg]  # a field of every such one
            yield stepped if self.cycles(stepped) <= interval else folding

    def cycles(self, folding: Q) -> int:
        return self.input_orders(folding)[0].beats * folding.steps

    @property
    def multiplies(self) -> bool:
        """Whether numerator or denominator of the factor need a multiplication."""
        return any(part & (part - 1) for part in abs(self.factor).as_integer_ratio())

    def division_latency(self, folding: Q) -> int:
        """Return the cycles from dividend and divisor to the rounded quotient, the factor included."""
        bits = self.quotient_bits if folding.steps == 1 else 0
        return MULTIPLIER_LATENCY * self.multiplies + 2 + bits
