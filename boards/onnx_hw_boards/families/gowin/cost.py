"""Cost of a demand on Gowin LittleBee, as yosys maps it: in look-up tables, flip-flops, multipliers, block RAMs.

Memories are as large as an ECP5's, and yosys weighs them alike. A bit of a sum takes the place of one look-up table,
and multipliers are found without their registers.
"""

from __future__ import annotations

from functools import lru_cache

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Adder, Comparator, Demand, Memory, Part, Product, Shared, UpDown
from onnx_hw_boards.families.ecp5_and_gowin import (
    BLOCK_RAMS,
    LARGEST_CONSTANT_IN_LOGIC,
    memory,
    multiplexer,
    table,
    up_down,
)
from onnx_hw_boards.families.yosys_mapping import Mapped, constants, rows_of_product, shared_part, total

SHORTEST_CHAIN = 3
"""Bits of the shortest sum that is a chain of carries."""

NARROW, NARROWEST = 9, 4
"""Bits of the factors up to which a product takes half of a wide one's place; bits below which yosys takes tables."""


def cost(demand: Demand) -> Cells:
    """Return the cells of a demand: the sum of its parts."""
    return Cells(*total(demand, cost_of_part))


@lru_cache(maxsize=1 << 16)
def cost_of_part(part: Part) -> Mapped:
    """Return the (look-up tables, flip-flops, multipliers, block RAMs) of a part."""
    match part:
        case Product():
            return _product(part)
        case Shared(bits):
            return 0, -bits, 0, 0
        case Adder(bits, gated):
            return (bits + (bits if gated else 0)) * (1 if bits >= SHORTEST_CHAIN else 1.5), 0, 0, 0
        case Comparator(bits):
            return bits * (1 if bits >= SHORTEST_CHAIN else 1.5), 0, 0, 0
        case UpDown(bits):
            return up_down(bits), 0, 0, 0
        case Memory():
            return constants(part, BLOCK_RAMS, LARGEST_CONSTANT_IN_LOGIC, table) if part.constant else memory(part)
    return shared_part(part, cost_of_part, multiplexer, cases)


def cases(ways: int) -> float:
    """Return the look-up tables of a bit that is written case by case: yosys joins them, up to eight inputs."""
    known = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 14, 6: 16, 7: 13, 8: 16, 9: 30, 10: 40, 11: 46}
    return known[ways] if ways in known else max(51, 3 * ways)


def _product(part: Product) -> Mapped:
    """Return the cost of a product with all three registers; an unsigned factor of a signed one has one more bit."""
    registers, mixed = 3 * (part.a + part.b), any(part.signed)
    a, b = (bits + (mixed and not signed) for bits, signed in zip((part.a, part.b), part.signed, strict=True))
    if min(a, b) < NARROWEST:
        return rows_of_product(part.a, part.b, part.signed), registers, 0, 0
    return 0, registers, 1 if max(a, b) <= NARROW else 2, 0
