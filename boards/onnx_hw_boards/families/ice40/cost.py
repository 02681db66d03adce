"""Cost of a demand on iCE40, as yosys maps it: in look-up tables, flip-flops, multipliers, block RAMs, logic cells.

A carry sits next to the look-up table of its bit, whose inputs it takes. There is no distributed memory: one that is
read in the cycle of its address is made of flip-flops with multiplexers behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Adder, Comparator, Demand, Enable, Memory, Paired, Part, Product, Shared, UpDown
from onnx_hw_boards.families.ice40.products import in_logic, product
from onnx_hw_boards.families.yosys_mapping import (
    Mapped,
    chosen_between,
    constants,
    enabling,
    fewest_blocks,
    shared_part,
    total,
)

BLOCK_RAMS = ((256, 16), (512, 8), (1024, 4), (2048, 2))
"""(words, bits) of a block RAM."""

WEIGHT_OF_A_BLOCK, CONSTANTS_OF_A_BLOCK = 64, 1024
"""Bits in flip-flops, and bits of constants in look-up tables, that yosys weighs like a block RAM."""

SHARE_OF_A_CELL, WITHOUT_MULTIPLIERS = 0.83, 0.86
"""Share of a logic cell that a look-up table or a flip-flop takes, since some of them share one; on chips with
multipliers, and on those without, where products are look-up tables with few flip-flops.
"""

FEWEST_WITH_ANOTHER = 4
"""Words from which on yosys chooses one more word without another look-up table."""


def cost(demand: Demand) -> Cells:
    """Return the cells of a demand on an UltraPlus chip: the sum of its parts."""
    return _sum(demand, _cost, SHARE_OF_A_CELL)


def cost_without_multipliers(demand: Demand) -> Cells:
    """Return the cells of a demand on chips without multipliers: synthesis makes them of look-up tables."""
    return _sum(demand, _cost_without_multipliers, WITHOUT_MULTIPLIERS)


def _sum(demand: Demand, cost: Callable[[Part], Mapped], share: float) -> Cells:
    lut, ff, dsp, bram = total(demand, cost)
    pairs = min(lut, ff, sum(part.bits * count for part, count in demand.all(Paired)))
    return Cells(lut, ff, dsp, bram, logic=round(share * (lut + ff - 2 * pairs)) + pairs)


def _cost_without_multipliers(part: Part) -> Mapped:
    match part:
        case Product():
            return in_logic(part)
        case Shared(bits):
            return 0, -bits, 0, 0
    return _cost(part)


@lru_cache(maxsize=1 << 16)
def _cost(part: Part) -> Mapped:
    """Return the (look-up tables, flip-flops, multipliers, block RAMs) of a part."""
    match part:
        case Product():
            return product(part)
        case Shared():  # inside of multipliers
            return 0, 0, 0, 0
        case Adder(bits, gated, carried, inverted):  # the inputs of a carry are those of its look-up table
            return max(bits - carried, 0) * (2 if gated else 1) + inverted, 0, 0, 0
        case Comparator(bits, inverted):  # of carries alone, but for what inverts one of the numbers
            return max(1, bits if inverted is None else inverted), 0, 0, 0
        case Enable(inputs, resets):  # a flip-flop is reset only while it is enabled
            return enabling(inputs + resets), 0, 0, 0
        case UpDown(bits):
            return 3 * bits, 0, 0, 0
        case Memory():
            return constants(part, BLOCK_RAMS, CONSTANTS_OF_A_BLOCK, table) if part.constant else _memory(part)
    return shared_part(part, _cost, multiplexer, cases)


def multiplexer(ways: int) -> float:
    """Return the look-up tables of a bit: one for two ways, two for four."""
    return 0 if ways < 2 else 1 if ways == 2 else (ways - 1) * 2 / 3


def cases(ways: int) -> float:
    """Return the look-up tables of a bit that is written case by case: yosys compares the number with each."""
    known = {0: 0, 1: 0, 2: 1, 3: 2, 4: 3, 5: 5.5, 6: 6.8, 7: 9, 8: 9.8}
    return known[ways] if ways in known else 1.1 * ways if ways <= 16 else 1.3 * ways


def _memory(part: Memory) -> Mapped:
    blocks, bits = fewest_blocks(BLOCK_RAMS, part.width, part.depth)
    in_block = part.in_logic is False
    if part.at_once or (part.width * part.depth <= WEIGHT_OF_A_BLOCK * blocks and not in_block):
        read = part.columns(1)
        chosen = part.depth - 1 + (part.bypassed and part.depth < FEWEST_WITH_ANOTHER)
        return read * chosen + part.depth, read * (part.depth + (not part.at_once)), 0, 0
    lut, ff = chosen_between(BLOCK_RAMS, part.width, part.depth, part.columns(1))
    return lut, ff, 0, blocks // -(-part.width // bits) * part.columns(bits)


def table(words: int) -> float:
    """Return the look-up tables of a bit of ``words`` words."""
    return 1 if words <= 16 else words * 0.135 - 1.3
