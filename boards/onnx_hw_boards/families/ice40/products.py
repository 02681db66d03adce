"""Cost of a product on iCE40, as yosys maps it: a multiplier of 16 × 16 bits, several of them, or look-up tables.

A wider factor is cut behind its lowest 16 bits, into products that are added again. Of the three registers of a product
and the one behind it, a multiplier that does it alone takes in all four; without a register behind it, the last one
stays outside.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw_boards.demand import Product
from onnx_hw_boards.families.yosys_mapping import Mapped, rows_of_product

WIDEST = 16
"""Bits of the widest factor of a multiplier."""

NARROWEST, NARROWEST_PRODUCT = 2, 11
"""Bits of a factor, and of a product, below which yosys takes look-up tables."""


@dataclass(frozen=True)
class _PartialProduct:
    """A product of parts of the factors.

    Attributes:
        lut, dsp: cells.
        kept: bits of the factors, (which factor, bit), whose registers no multiplier takes in.
        summed: bits of the sum that makes the product, where that sum is made of look-up tables.
        alone: whether the product is a single multiplier.
    """

    lut: int
    dsp: int
    kept: frozenset[tuple[int, int]]
    summed: int = 0
    alone: bool = False


def product(part: Product) -> Mapped:
    """Return the cost of a product with its registers, on a chip that has multipliers."""
    bits = part.a + part.b
    whole = _partial_product(range(part.a), range(part.b), part.signed)
    if not whole.dsp:
        return in_logic(part)
    if whole.alone:
        return 0, len(whole.kept) + (-bits if part.delayed else bits), 1, 0
    return whole.lut, len(whole.kept) + bits + whole.summed, whole.dsp, 0


def in_logic(part: Product) -> Mapped:
    """Return the cost of a product that is made of look-up tables; all of its registers are left."""
    return rows_of_product(part.a, part.b, part.signed), 3 * (part.a + part.b), 0, 0


def _partial_product(a: range, b: range, signed: tuple[bool, bool]) -> _PartialProduct:
    """Return the product of some bits of each factor."""
    factors, x, y = (a, b), len(a), len(b)
    bits = [frozenset((which, bit) for bit in factor) for which, factor in enumerate(factors)]
    if min(x, y) < NARROWEST or x + y < NARROWEST_PRODUCT:
        return _PartialProduct(rows_of_product(x, y, signed), 0, bits[0] | bits[1])
    if max(x, y) <= WIDEST:  # what is filled up with zeros is not taken in
        kept = [bits[k] for k in range(2) if not signed[k] and len(factors[k]) < WIDEST]
        return _PartialProduct(0, 1, frozenset().union(*kept), alone=True)
    if x >= y:
        low, high = _partial_product(a[:WIDEST], b, (False, signed[1])), _partial_product(a[WIDEST:], b, signed)
    else:
        low, high = _partial_product(a, b[:WIDEST], (signed[0], False)), _partial_product(a, b[WIDEST:], signed)
    summed = 0 if high.alone else x + y - WIDEST  # a multiplier adds to its own product; the lowest bits pass by
    return _PartialProduct(low.lut + high.lut + summed, low.dsp + high.dsp, low.kept | high.kept, summed)
