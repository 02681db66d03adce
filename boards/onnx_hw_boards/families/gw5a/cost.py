"""Cost of a demand on Gowin Arora V, as yosys maps it: in look-up tables, flip-flops, multipliers, block RAMs.

Logic is that of a LittleBee. Multipliers and read-only memory are placed by hand, with their registers. The smaller
chip has no memory in look-up tables: there, words that are read in the cycle of their address are flip-flops with
multiplexers behind them.
"""

from __future__ import annotations

from functools import lru_cache

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Copies, Demand, Memory, Part, Product, Shared, Unseen
from onnx_hw_boards.families.ecp5_and_gowin import (
    BLOCK_RAMS,
    WEIGHT_OF_A_BLOCK,
    memory,
    multiplexer,
    placed_constants,
)
from onnx_hw_boards.families.gowin.cost import cost_of_part as cost_on_little_bee
from onnx_hw_boards.families.yosys_mapping import (
    Mapped,
    chosen_between,
    fewest_blocks,
    total,
)

SMALL_BITS, WIDE_BITS = 12, 18
"""Bits of a signed factor up to which a product takes one place, and the smaller one takes two without any addition."""


def cost(demand: Demand) -> Cells:
    """Return the cells of a demand on a chip with memory in look-up tables: the sum of its parts."""
    return Cells(*total(demand, _cost))


def cost_without_memory_in_tables(demand: Demand) -> Cells:
    """Return the cells of a demand on a chip whose look-up tables are no memory."""
    return Cells(*total(demand, _cost_without_memory))


@lru_cache(maxsize=1 << 16)
def _cost(part: Part) -> Mapped:
    """Return the (look-up tables, flip-flops, multipliers, block RAMs) of a part."""
    match part:
        case Product():
            return _product(part)
        case Shared():  # inside of multipliers
            return 0, 0, 0, 0
        case Unseen(whole):
            return _cost(whole)
        case Memory():
            return placed_constants(part) if part.constant else memory(part)
        case Copies(part, count):
            lut, ff, dsp, bram = _cost(part)
            return count * lut, count * ff, count * dsp, count * bram
    return cost_on_little_bee(part)


@lru_cache(maxsize=1 << 16)
def _cost_without_memory(part: Part) -> Mapped:
    match part:
        case Unseen(whole):
            return _cost_without_memory(whole)
        case Memory(constant=False):
            return _memory_in_flip_flops(part)
        case Copies(part, count):
            lut, ff, dsp, bram = _cost_without_memory(part)
            return count * lut, count * ff, count * dsp, count * bram
    return _cost(part)


def _product(part: Product) -> Mapped:
    """Return the cost of a product: a MULT12X12 has all registers, a MULTALU27X18 all but the last."""
    a, b = (bits + (not signed) for bits, signed in zip((part.a, part.b), part.signed, strict=True))
    if max(a, b) <= SMALL_BITS:
        return 0, 0, 1, 0
    bits = part.a + part.b
    if min(a, b) <= WIDE_BITS:
        return 0, bits, 2, 0
    return 2 * part.a, bits + 2 * part.a, 2, 0


def _memory_in_flip_flops(part: Memory) -> Mapped:
    blocks, bits = fewest_blocks(BLOCK_RAMS, part.width, part.depth)
    in_block = part.in_logic is False
    if part.at_once or (part.width * part.depth <= WEIGHT_OF_A_BLOCK * blocks and not in_block):
        read = part.columns(1)
        chosen = multiplexer(part.depth) + part.bypassed
        return read * chosen + part.depth, read * (part.depth + (not part.at_once)), 0, 0
    lut, ff = chosen_between(BLOCK_RAMS, part.width, part.depth, part.columns(1))
    return lut, ff, 0, blocks // -(-part.width // bits) * part.columns(bits)
