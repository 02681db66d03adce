"""Add: ``j·a + k·b`` element by element with constant integers j and k, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import starmap

import numpy as np

from onnx_hw.exact.canonical_signed_digit import signed_digits
from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import delayed, engine
from onnx_hw.ops.folding import ElementFolding
from onnx_hw.ops.operator import Component, Operator, even_cuts
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_pairs
from onnx_hw_boards.demand import Adder, Demand, Register


@dataclass(frozen=True, repr=False)
class Add(Operator[ElementFolding]):
    """Weighted sum of two integer tensors of one shape.

    Attributes:
        a, b: the operands.
        factors: j > 0 and k, which is not 0: (1, 1) is a sum, (1, −1) a difference.
    """

    a: Tensor
    b: Tensor
    factors: tuple[int, int] = (1, 1)

    inputs = ("a", "b")
    folding_type = ElementFolding
    row_by_row = True

    def __post_init__(self) -> None:
        if self.a.shape != self.b.shape:
            raise ValueError(f"the operands of a sum must have one shape, not {self.a.shape} and {self.b.shape}")
        if self.factors[0] <= 0 or self.factors[1] == 0:
            raise ValueError(f"the first factor must be positive and the second not 0, not {self.factors}")

    def operands(self) -> tuple[Tensor, ...]:
        return (self.a, self.b)

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

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[ElementFolding]:
        yield from starmap(ElementFolding, even_cuts(self.a, interval, given, wanted))

    @property
    def terms(self) -> int:
        """Shifted operands that are added: the digits of both factors that are not 0."""
        return sum(len(signed_digits(factor)) for factor in self.factors)

    def latency(self) -> int:
        """Return the levels of the tree of registered adders."""
        return (self.terms - 1).bit_length()

    def schedule(self, folding: ElementFolding) -> Schedule:
        beats = AffineSequence.every(self.input_orders(folding)[0].beats)
        return Schedule((Engine("add", len(beats), self.latency(), {"a": beats, "b": beats}, {"o": beats}),))

    def demand(self, folding: ElementFolding) -> Demand:
        return engine((1,), inputs=2) + delayed(1, self.latency()) + folding.width * self._tree()

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

    def test_vectors(self, folding: ElementFolding) -> TestVectors:
        return of_pairs(self, folding)

    def core(self, folding: ElementFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.add import Add as Circuit

        j, k = self.factors
        digits = signed_digits(j), signed_digits(k)
        return Circuit(**self.stream_shapes(folding), digits=digits, depth=depths["o"])

    def __repr__(self) -> str:
        j, k = self.factors
        return "Add" if (j, k) == (1, 1) else f"Add {j}·a {'+' if k > 0 else '−'} {abs(k)}·b"
