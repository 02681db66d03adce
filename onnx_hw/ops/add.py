"""Add: ``j·a + k·b`` element by element with constant integers j and k, exactly.

A beat is added in one cycle, or in several: then each step adds one digit of both factors, in base 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.exact.canonical_signed_digit import digits_in_base_4, signed_digits
from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import added, counted, decoded, delayed, engine
from onnx_hw.ops.folding import ElementFolding
from onnx_hw.ops.operator import Component, Operator, even_cuts
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_pairs
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Register

STEP_LATENCY = 4
"""Cycles of a step: the turn, the rows of both digits, their sum, and the sum of all steps."""


@dataclass(frozen=True, repr=False)
class AddFolding(ElementFolding):
    """Folding of a weighted sum.

    Attributes:
        steps: cycles spent on a beat: 1, or one for every digit of the longer factor.
    """

    steps: int = 1


@dataclass(frozen=True, repr=False)
class Add(Operator[AddFolding]):
    """Weighted sum of two integer tensors of one shape.

    Attributes:
        a, b: the operands.
        factors: j > 0 and k, which is not 0: (1, 1) is a sum, (1, −1) a difference.
    """

    a: Tensor
    b: Tensor
    factors: tuple[int, int] = (1, 1)

    inputs = ("a", "b")
    folding_type = AddFolding
    row_by_row = True

    def __post_init__(self) -> None:
        if self.a.shape != self.b.shape:
            raise ValueError(f"the operands of a sum must have one shape, not {self.a.shape} and {self.b.shape}")
        if self.factors[0] <= 0 or self.factors[1] == 0:
            raise ValueError(f"the first factor must be positive and the second not 0, not {self.factors}")

    def operands(self) -> tuple[Tensor, ...]:
        return (self.a, self.b)

    @property
    def has_fixed_constants(self) -> bool:
        return self.factors not in ((1, 1), (1, -1))

    def results(self) -> tuple[Tensor, ...]:
        j, k = self.factors
        ends = sorted(k * end for end in self.b.range)
        low, high = j * self.a.range[0] + ends[0], j * self.a.range[1] + ends[1]
        return (Tensor(self.a.shape, Int.holding(low, high), low, high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return (self.factors[0] * arrays[0] + self.factors[1] * arrays[1],)

    def reordered(self, port: str, order: Permutation) -> tuple[Add, dict[str, Permutation]]:
        a, b = (replace(operand, shape=order.shape) for operand in (self.a, self.b))
        return replace(self, a=a, b=b), dict.fromkeys((*self.inputs, *self.outputs), order)

    def foldings(self, interval: int, given: Order | None = None, wanted: Order | None = None) -> Iterator[AddFolding]:
        for lanes, pixels in even_cuts(self.a, interval, given, wanted):
            yield self._cheapest(lanes, pixels, interval // Order(self.a, lanes, pixels).beats)

    def _cheapest(self, lanes: int, pixels: int, time: int) -> AddFolding:
        """Return the folding that takes fewer look-up tables and flip-flops, within some cycles a beat."""
        at_once, in_steps = (AddFolding(lanes, pixels, steps=steps) for steps in (1, self.digits))
        return min(at_once, in_steps, key=self._cells) if self.digits <= time else at_once

    def _cells(self, folding: AddFolding) -> int:
        needs = self.resources(folding)
        return needs.lut + needs.ff

    def limits(self) -> dict[str, int]:
        return super().limits() | {"steps": self.digits}

    def illegal(self, folding: AddFolding) -> str:
        if folding.steps not in (1, self.digits):
            return f"steps must be 1 or {self.digits}, not {folding.steps}"
        return super().illegal(folding)

    @property
    def digits(self) -> int:
        """Digits of the longer factor in base 4."""
        return max(len(digits_in_base_4(factor)) for factor in self.factors)

    @property
    def terms(self) -> int:
        """Shifted operands that are added: the digits of both factors that are not 0."""
        return sum(len(signed_digits(factor)) for factor in self.factors)

    def latency(self, folding: AddFolding) -> int:
        """Return the levels of the tree of registered adders; of a step, the digits' rows, their sum, and that of all.

        It counts from the last step.
        """
        return STEP_LATENCY if folding.steps > 1 else (self.terms - 1).bit_length()

    def cycles(self, folding: AddFolding) -> int:
        return self.input_orders(folding)[0].beats * folding.steps

    def schedule(self, folding: AddFolding) -> Schedule:
        beats, steps = self.input_orders(folding)[0].beats, folding.steps
        pops, pushes = AffineSequence.every(beats, steps), AffineSequence.every(beats, steps, steps - 1)
        engine = Engine("add", beats * steps, self.latency(folding), {"a": pops, "b": pops}, {"o": pushes})
        return Schedule((engine,))

    def demand(self, folding: AddFolding) -> Demand:
        if folding.steps > 1:
            return self._in_steps(folding)
        return engine((1,), inputs=2) + delayed(1, self.latency(folding)) + folding.width * self._tree()

    def _in_steps(self, folding: AddFolding) -> Demand:
        """Return the demand of a sum that grows by a digit of both factors in each step."""
        steps, (a, b) = folding.steps, (operand.dtype.bits + (not operand.dtype.signed) for operand in (self.a, self.b))
        common = engine((1, steps), inputs=2, some_pop=1, some_push=1) + delayed(1, self.latency(folding))
        common += decoded((1, *[0] * (steps - 1)), counted(steps))
        common += sum((decoded(self._codes(factor), counted(steps)) for factor in self.factors), Demand())
        turn = delayed(2 + 4, 1).copied(folding.width) + delayed(2, 2)
        row = max(a, b) + 2
        lane = Demand.of(Register(self.a.dtype.bits + self.b.dtype.bits))
        lane += Demand.of(LogicFunction(4, a + 1), LogicFunction(4, b + 1), Register(a + b + 2 + 3)) + added(row)
        lane += Demand.of(Adder(row + 1), LogicFunction(2, row - 2), Register(row + 1)) + delayed(2 * (steps - 1), 1)
        return common + turn + folding.width * lane

    def _codes(self, factor: int) -> tuple[int, ...]:
        """Return the digits of a factor, modulo 4."""
        digits = digits_in_base_4(factor)
        return tuple(digit % 4 for digit in digits + (0,) * (self.digits - len(digits)))

    def _tree(self) -> Demand:
        """Sum an element: all shifted operands, by pairs; a register holds the bits above the lowest shift."""
        widest, demand = self.results()[0].dtype.bits, Demand()
        operands = zip((self.a, self.b), self.factors, strict=True)
        terms = [(s, shift, shift + o.dtype.bits) for o, factor in operands for s, shift in signed_digits(factor)]
        come = True  # from outside: registers behind a sum are not inverted anew
        while len(terms) > 1:
            level = []
            for (sign, low, high), (other_sign, other_low, other_high) in zip(terms[::2], terms[1::2], strict=False):
                top = min(widest, max(high, other_high) + 1)
                first, inverted = max(low, other_low), 0
                if sign != other_sign:
                    less, upto = (low, high) if sign < 0 else (other_low, other_high)
                    first, inverted = (less if less == min(low, other_low) else first), min(top, upto) - less
                demand += Demand.of(Adder(top - first, inverted=inverted * come), Register(top - min(low, other_low)))
                level.append((sign if sign == other_sign else 1, min(low, other_low), top))
            for sign, low, high in terms[len(terms) & ~1 :]:
                demand += delayed(high - low, 1)
                level.append((sign, low, high))
            terms, come = level, False
        return demand

    def test_vectors(self, folding: AddFolding) -> TestVectors:
        return of_pairs(self, folding)

    def core(self, folding: AddFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.add import Add as Circuit

        j, k = self.factors
        return Circuit(
            **self.stream_shapes(folding),
            digits=(signed_digits(j), signed_digits(k)),
            codes=(self._codes(j), self._codes(k)) if folding.steps > 1 else ((), ()),
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        j, k = self.factors
        return "Add" if (j, k) == (1, 1) else f"Add {j}·a {'+' if k > 0 else '−'} {abs(k)}·b"
