"""Products of factors that one hardware multiplier may not take: their latency, and what they demand."""

from __future__ import annotations

from itertools import product

from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand.blocks import added, delayed
from onnx_hw.ops.demand.soft_multipliers import MULTIPLIER_BITS, product_demand
from onnx_hw_boards.demand import Adder, Demand, Product, Register

WIDEST_FACTOR = 2 * MULTIPLIER_BITS
"""Bits of a factor that several hardware multipliers take at most: a lower and an upper limb."""


def multipliers_of(a_bits: int, b_bits: int) -> int:
    """Return the number of hardware multipliers: one for each pair of limbs, 1, 2 or 4."""
    return -(-a_bits // MULTIPLIER_BITS) * -(-b_bits // MULTIPLIER_BITS)


def wide_product_latency(a_bits: int, b_bits: int) -> int:
    """Return the latency: three stages of hardware multipliers, and one for each level of additions."""
    return 3 + multipliers_of(a_bits, b_bits).bit_length() - 1


def wide_product_demand(a: Int, b: Int, result_bits: int, *, in_logic: bool) -> Demand:
    """Return the demand of the products of limbs, and of their sums.

    Args:
        a, b: types of the factors.
        result_bits: bits of the product.
        in_logic: whether look-up tables do the work of multipliers.
    """
    if in_logic:
        return product_demand(a, b, in_logic=True)
    limbs = [_limbs(a), _limbs(b)]
    demand = Demand.of(*(Product(x.bits, y.bits, (x.signed, y.signed)) for x, y in product(*limbs)))
    multipliers = multipliers_of(a.bits, b.bits)
    if multipliers == 4:  # those of one low and one high limb are added while the others wait
        demand += delayed(result_bits, 1) + added(max(a.bits, b.bits) + 1)
    if multipliers > 1:
        demand += Demand.of(Adder(result_bits - MULTIPLIER_BITS), Register(result_bits))
    return demand


def _limbs(factor: Int) -> list[Int]:
    if factor.bits <= MULTIPLIER_BITS:
        return [factor]
    return [Int(MULTIPLIER_BITS, False), Int(factor.bits - MULTIPLIER_BITS, factor.signed)]
