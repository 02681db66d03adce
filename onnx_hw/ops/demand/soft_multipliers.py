"""Products, of the chip's multipliers or of look-up tables: what each demands. The circuits are ``onnx_hw_rtl``'s."""

from __future__ import annotations

import numpy as np

from onnx_hw.exact.canonical_signed_digit import signed_digits
from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import MultiplierKind
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Product, Register

TABLE_BITS = 4
"""Bits of both operands together up to which each bit of a product is one look-up table."""

NARROW_BITS = 2
"""Bits of an operand with which a product is one row of look-up tables at most: a multiplier would be wasted on it."""

MULTIPLIER_BITS = 18
"""Bits of an operand up to which a lane can be a hardware multiplier."""

HARD_LATENCY = 4
"""Latency of a product in a hardware multiplier, with a register behind it."""

LEVELS_PER_STAGE = 2
"""Carry chains one after the other between two registers."""


def levels_of(a_bits: int, b_bits: int) -> int:
    """Return the carry chains one after the other: rows of two bits, and the levels of the tree that adds them."""
    return 1 + (-(-min(a_bits, b_bits) // 2) - 1).bit_length()


def product_latency(a: Int, b: Int, *, in_logic: bool) -> int:
    """Return the latency of a product, in cycles."""
    if not in_logic:
        return HARD_LATENCY
    return 1 if a.bits + b.bits <= TABLE_BITS else -(-levels_of(a.bits, b.bits) // LEVELS_PER_STAGE)


def multiplier_for(a_bits: int, b_bits: int) -> MultiplierKind:
    """Return the kind of multiplier that a product of two integers has unless a folding names the other one."""
    return MultiplierKind.LOGIC if min(a_bits, b_bits) <= NARROW_BITS else MultiplierKind.HARDWARE


def product_demand(a: Int, b: Int, *, in_logic: bool) -> Demand:
    """Return the demand of a product of two unknown integers, without the register behind it.

    In logic, rows of two bits of the narrower one, then a tree that adds them, with a register behind every second
    level; an odd bit is no row, the chain that adds it does its ands. A table where both together are few bits.
    """
    if not in_logic:
        return Demand.of(Product(a.bits, b.bits, (a.signed, b.signed), delayed=True))
    wide, narrow = max(a.bits, b.bits), min(a.bits, b.bits)
    if wide + narrow <= TABLE_BITS:
        return Demand.of(LogicFunction(wide + narrow, wide + narrow), Register(wide + narrow))
    parts = [min(2, narrow - low) for low in range(0, narrow, 2)]
    chains = [wide + bits for place, bits in enumerate(parts) if bits == 2 or not place]
    demand = Demand.of(*(Adder(bits, gated=True) for bits in chains))
    stages, levels = product_latency(a, b, in_logic=True), levels_of(wide, narrow)
    for level in range(levels):
        if (level + 1) * stages // levels > level * stages // levels:
            demand += Demand.of(Register(sum(wide + bits for bits in parts)))
        pairs = list(zip(parts[::2], parts[1::2], strict=False))
        demand += Demand.of(*(Adder(wide + high, gated=high == 1) for _, high in pairs))
        parts = [low + high for low, high in pairs] + parts[len(parts) // 2 * 2 :]
    return demand


def known_products_demand(bits: int, constants: np.ndarray) -> Demand:
    """Return the demand of products by known integers: an adder per digit but one; one more if all are negative."""
    total = 0
    for constant, count in zip(*np.unique(constants, return_counts=True), strict=True):
        digits = signed_digits(int(constant))
        adders = len(digits) - 1 + all(sign < 0 for sign, _ in digits) if digits else 0
        total += int(count) * adders
    return total * Demand.of(Adder(bits + 2)) + Demand.of(Register(3 * bits * constants.size))
