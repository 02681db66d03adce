"""Multiply: ``(a + p)·(b + q)`` element by element with constant integers p and q, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import added, delayed, engine, loaded_number
from onnx_hw.ops.demand.soft_multipliers import multiplier_for
from onnx_hw.ops.demand.wide_product import (
    WIDEST_FACTOR,
    multipliers_of,
    wide_product_demand,
    wide_product_latency,
)
from onnx_hw.ops.folding import ElementFolding, MultiplierKind
from onnx_hw.ops.operator import Component, Operator, even_cuts, narrow_cuts
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_pairs
from onnx_hw_boards.demand import Demand

WIDEST_PRODUCT = 48
"""Bits of a stream's elements at most."""


@dataclass(frozen=True, repr=False)
class MultiplyFolding(ElementFolding):
    """Folding of a product of two tensors, element by element, and what the products are made of."""

    multiplier: MultiplierKind = MultiplierKind.HARDWARE


@dataclass(frozen=True, repr=False)
class Multiply(Operator[MultiplyFolding]):
    """Product of two integer tensors of one shape.

    Attributes:
        a, b: the operands.
        offsets: p and q; minus a zero point, for example.
        loads_offsets: whether other offsets, which are minus integers of the operands, may be loaded at run time.
    """

    a: Tensor
    b: Tensor
    offsets: tuple[int, int] = (0, 0)
    loads_offsets: bool = False

    inputs = ("a", "b")
    folding_type = MultiplyFolding
    declared = frozenset({"loads_offsets"})
    row_by_row = True

    def __post_init__(self) -> None:
        if self.a.shape != self.b.shape:
            raise ValueError(f"the operands of a product must have one shape, not {self.a.shape} and {self.b.shape}")
        for operand, offset in zip((self.a, self.b), self.offsets, strict=True):
            if self.loads_offsets and not operand.dtype.min <= -offset <= operand.dtype.max:
                raise ValueError(f"a loaded offset must be minus an integer of {operand.dtype!r}, not {offset}")
        widest = max(factor.bits for factor in self.factors())
        if widest > WIDEST_FACTOR:
            raise ValueError(f"a factor must have at most {WIDEST_FACTOR} bits, not {widest}")
        result = self.results()[0].dtype.bits
        if result > WIDEST_PRODUCT:
            raise ValueError(f"a product must have at most {WIDEST_PRODUCT} bits, not {result}")

    def _factor_ranges(self) -> list[tuple[int, int]]:
        if self.loads_offsets:
            types = self.a.dtype, self.b.dtype
            return [(dtype.min - dtype.max, dtype.max - dtype.min) for dtype in types]
        operands = zip((self.a, self.b), self.offsets, strict=True)
        return [(operand.range[0] + offset, operand.range[1] + offset) for operand, offset in operands]

    def factors(self) -> tuple[Int, Int]:
        """Return the narrowest types of a + p and b + q."""
        a, b = self._factor_ranges()
        return Int.holding(*a), Int.holding(*b)

    @property
    def adds_offsets(self) -> bool:
        """Whether sums of operands and offsets take a stage of their own."""
        return self.loads_offsets or any(self.offsets)

    @property
    def loaded_numbers(self) -> Mapping[str, tuple[int, Int]]:
        if not self.loads_offsets:
            return {}
        operands = zip("ab", self.offsets, (self.a, self.b), strict=True)
        return {f"offset_{name}": (offset, Int(operand.dtype.bits + 1)) for name, offset, operand in operands}

    @property
    def describes_loaded(self) -> bool:
        return self.loads_offsets

    @property
    def loaded_fields(self) -> frozenset[str]:
        return frozenset({"offsets"} if self.loads_offsets else ())

    def loadable(self) -> Multiply:
        """Return the operator whose offsets can be loaded at run time, where they are zero points."""
        wide = max(self.a.dtype.bits, self.b.dtype.bits) + 1 > WIDEST_FACTOR
        zeros = zip((self.a, self.b), self.offsets, strict=True)
        if wide or not all(operand.dtype.min <= -offset <= operand.dtype.max for operand, offset in zeros):
            return self
        return replace(self, loads_offsets=True)

    def operands(self) -> tuple[Tensor, ...]:
        return (self.a, self.b)

    def results(self) -> tuple[Tensor, ...]:
        """Return the product's type; it is linear in each factor, so least and greatest in a corner of their ranges."""
        corners = [a * b for a, b in product(*self._factor_ranges())]
        low, high = min(corners), max(corners)
        return (Tensor(self.a.shape, Int.holding(low, high), low, high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return ((arrays[0] + self.offsets[0]) * (arrays[1] + self.offsets[1]),)

    def reordered(self, port: str, order: Permutation) -> tuple[Multiply, dict[str, Permutation]]:
        a, b = (replace(operand, shape=order.shape) for operand in (self.a, self.b))
        return replace(self, a=a, b=b), dict.fromkeys((*self.inputs, *self.outputs), order)

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[MultiplyFolding]:
        """Yield the narrowest folding that keeps up, since a lane costs multipliers, and those of the neighbours."""
        cuts = narrow_cuts(self.a, interval, given, wanted) + even_cuts(self.a, interval, given, wanted)
        kind = multiplier_for(*(factor.bits for factor in self.factors()))
        yield from (MultiplyFolding(*cut, multiplier=kind) for cut in dict.fromkeys(cuts))

    @property
    def multipliers(self) -> int:
        """Hardware multipliers of a lane: one for each pair of limbs."""
        return multipliers_of(*(factor.bits for factor in self.factors()))

    def latency(self) -> int:
        """Return the latency: the sums, and the product."""
        return self.adds_offsets + wide_product_latency(*(factor.bits for factor in self.factors()))

    def schedule(self, folding: MultiplyFolding) -> Schedule:
        beats = AffineSequence.every(self.input_orders(folding)[0].beats)
        return Schedule((Engine("multiply", len(beats), self.latency(), {"a": beats, "b": beats}, {"o": beats}),))

    def demand(self, folding: MultiplyFolding) -> Demand:
        lane = self._lane(in_logic=folding.in_logic)
        numbers = sum((loaded_number(dtype.bits) for _, dtype in self.loaded_numbers.values()), Demand())
        return engine((1,), inputs=2) + delayed(1, self.latency()) + folding.width * lane + numbers

    def _lane(self, *, in_logic: bool) -> Demand:
        """Return the demand of the offsets and of the product."""
        factors, demand = self.factors(), Demand()
        for factor, offset in zip(factors, self.offsets, strict=True):
            if self.adds_offsets:
                demand += added(factor.bits) if offset or self.loads_offsets else delayed(factor.bits, 1)
        return demand + wide_product_demand(*factors, self.results()[0].dtype.bits, in_logic=in_logic)

    def test_vectors(self, folding: MultiplyFolding) -> TestVectors:
        return of_pairs(self, folding, folding.width)

    def core(self, folding: MultiplyFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.multiply import Multiply as Circuit

        a, b, result = self.a.dtype, self.b.dtype, self.results()[0].dtype
        p, q = self.factors()
        return Circuit(
            (a.bits, a.signed),
            (b.bits, b.signed),
            ((p.bits, p.signed), (q.bits, q.signed)),
            (result.bits, result.signed),
            offsets=self.offsets,
            loads_offsets=self.loads_offsets,
            lanes=folding.width,
            in_logic=folding.in_logic,
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        a, b = (f"({name} {offset:+})" if offset else name for name, offset in zip("ab", self.offsets, strict=True))
        return f"Multiply {a}·{b}".replace("-", "−") if self.adds_offsets else "Multiply"
