"""Divide: ``(a + p) / (b + q)`` element by element on the grid of the result, rounded once.

result = clamp(rhe(factor · (a + p) / (b + q)) + zero point). Where b + q is 0, it is the greatest integer if
factor · (a + p) is positive, else the least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from onnx_hw.exact.division import scaled_quotient
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import added, delayed, engine
from onnx_hw.ops.demand.division import divider_demand
from onnx_hw.ops.demand.soft_multipliers import known_products_demand
from onnx_hw.ops.dividing_operator import DividingOperator, StepFolding
from onnx_hw.ops.folding import ElementFolding
from onnx_hw.ops.operator import Component, even_cuts, narrow_cuts
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_pairs
from onnx_hw_boards.demand import Adder, Comparator, Demand, Multiplexer, Register


@dataclass(frozen=True, repr=False)
class DivideFolding(StepFolding, ElementFolding):
    """Folding of a quotient of two tensors."""

    steps: int = 1


@dataclass(frozen=True, repr=False)
class Divide(DividingOperator[DivideFolding]):
    """Quotient of two integer tensors of one shape.

    Attributes:
        a, b: the operands.
        offsets: p and q; minus a zero point, for example.
        factor: number by which a quotient is multiplied, so that the result is an integer; not 0.
        grid: grid of the result: an integer zero point, half to even; its step is in ``factor`` already.
    """

    a: Tensor
    b: Tensor
    offsets: tuple[int, int]
    factor: Fraction
    grid: Grid

    inputs = ("a", "b")
    folding_type = DivideFolding
    row_by_row = True

    def __post_init__(self) -> None:
        if self.a.shape != self.b.shape:
            raise ValueError(f"the operands of a quotient must have one shape, not {self.a.shape} and {self.b.shape}")
        if not self.factor:
            raise ValueError("the factor of a quotient must not be 0")
        self.require_grid()

    def _ranges(self) -> list[tuple[int, int]]:
        operands = zip((self.a, self.b), self.offsets, strict=True)
        return [(operand.range[0] + offset, operand.range[1] + offset) for operand, offset in operands]

    @property
    def has_fixed_constants(self) -> bool:
        return True

    def operands(self) -> tuple[Tensor, ...]:
        return (self.a, self.b)

    def results(self) -> tuple[Tensor, ...]:
        """Return the result's type. A quotient is monotone in each operand, apart from where the divisor turns."""
        numerators, (first, last) = self._ranges()
        divisors = {d for d in (first, last, -1, 0, 1) if first <= d <= last}
        corners = np.array(list(product(numerators, sorted(divisors))))
        made = self._quotients(corners[:, 0], corners[:, 1])
        return (Tensor(self.a.shape, self.grid.dtype, int(made.min()), int(made.max())),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b = arrays
        return (self._quotients(a + self.offsets[0], b + self.offsets[1]),)

    def _quotients(self, n: np.ndarray, d: np.ndarray) -> np.ndarray:
        """Return the integers of quotients; int64 arrays of one shape, the divisors may be 0."""
        sign = np.sign(n) * (1 if self.factor > 0 else -1)
        shares = scaled_quotient(np.abs(n), np.where(d == 0, 1, np.abs(d)), abs(self.factor))
        whole = np.clip(shares * sign * np.where(d < 0, -1, 1) + self.zero_point, self.grid.low, self.grid.high)
        beyond = np.where(sign > 0, self.grid.high, self.grid.low)
        return np.where(d == 0, beyond, whole).astype(np.int64)

    @cached_property
    def quotient_bits(self) -> int:
        """Bits of the magnitudes that are told apart; greater ones saturate."""
        return max(1, *(abs(end - self.zero_point).bit_length() for end in (self.grid.low, self.grid.high)))

    def reordered(self, port: str, order: Permutation) -> tuple[Divide, dict[str, Permutation]]:
        a, b = (replace(operand, shape=order.shape) for operand in (self.a, self.b))
        return replace(self, a=a, b=b), dict.fromkeys((*self.inputs, *self.outputs), order)

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[DivideFolding]:
        """Yield the narrowest foldings and those of neighbours, with dividers in steps where a beat has the time."""
        cuts = narrow_cuts(self.a, interval, given, wanted) + even_cuts(self.a, interval, given, wanted)
        yield from self.in_steps((DivideFolding(*cut) for cut in dict.fromkeys(cuts)), interval)

    def latency(self, folding: DivideFolding) -> int:
        """Return the cycles from the last step to the result: sums, magnitudes, factor, division, sign, clamp."""
        return 2 + self.division_latency(folding) + 2

    def schedule(self, folding: DivideFolding) -> Schedule:
        beats, steps = self.input_orders(folding)[0].beats, folding.steps
        pops, pushes = AffineSequence.every(beats, steps), {"o": AffineSequence.every(beats, steps, steps - 1)}
        return Schedule((Engine("divide", beats * steps, self.latency(folding), {"a": pops, "b": pops}, pushes),))

    def demand(self, folding: DivideFolding) -> Demand:
        lane, steps, latency = Demand(), folding.steps, self.latency(folding)
        magnitudes = [max(map(abs, ends)).bit_length() for ends in self._ranges()]
        scaled = []
        for (low, high), offset, bits, part in zip(
            self._ranges(), self.offsets, magnitudes, abs(self.factor).as_integer_ratio(), strict=True
        ):
            whole = Int.holding(low, high).bits
            lane += added(whole) if offset else delayed(whole, 1)
            lane += Demand.of(Adder(bits), Register(bits)) if low < 0 else delayed(bits, 1)
            if self.multiplies:
                lane += known_products_demand(bits, np.array([part]))
            scaled.append(bits + part.bit_length())
        lane += divider_demand(1, scaled[0], scaled[1], self.quotient_bits, steps)
        result = self.quotient_bits + 2
        lane += delayed(1, latency - 4) + added(result)
        lane += Demand.of(Comparator(result, 0), Multiplexer(2, result), Register(result))
        shared = engine((1, steps), inputs=2, some_push=steps > 1) if steps > 1 else engine((1,), inputs=2)
        return shared + delayed(1, latency * (1 if steps == 1 else 2)) + folding.width * lane

    def core(self, folding: DivideFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.divide import Divide as Circuit

        return Circuit(
            **self.stream_shapes(folding),
            ranges=self._ranges(),
            offsets=self.offsets,
            factor=self.factor.as_integer_ratio(),
            quotient_bits=self.quotient_bits,
            zero_point=self.zero_point,
            bounds=(self.grid.low, self.grid.high),
            steps=folding.steps,
            depth=depths["o"],
        )

    def test_vectors(self, folding: DivideFolding) -> TestVectors:
        return of_pairs(self, folding, divisors=[number - self.offsets[1] for number in (-1, 0, 1)])

    def __repr__(self) -> str:
        return f"Divide to {self.grid.low}..{self.grid.high}"
