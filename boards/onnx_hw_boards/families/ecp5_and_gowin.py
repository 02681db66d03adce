"""Costs that ECP5 and Gowin share: block RAMs of 18 kbit, distributed memory of 16 × 4, and joined look-up tables."""

from __future__ import annotations

from onnx_hw_boards.demand import Memory
from onnx_hw_boards.families.yosys_mapping import (
    Mapped,
    address_registers,
    bits_of_address,
    chosen_between,
    fewest_blocks,
    in_few_words,
)

BLOCK_RAMS = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""(words, bits) of a block RAM."""

WEIGHT_OF_A_BLOCK, WEIGHT_OF_A_CELL, WEIGHT_OF_A_CHOICE = 128, 4, 0.5
"""Weights that yosys gives a block RAM, a cell of distributed memory, and each bit that is chosen between two cells."""

LARGEST_CONSTANT_IN_LOGIC = 2048
"""Bits of a memory of constants up to which yosys makes it of look-up tables by itself."""


def multiplexer(ways: int) -> float:
    """Return the look-up tables of a bit: one for two ways, two for three or four."""
    return 0 if ways < 2 else 1 if ways == 2 else ways / 2


def up_down(bits: int) -> float:
    """Return the look-up tables of two sums and of the choice between them."""
    return max(0, 4.9 * bits - 4)


def memory(part: Memory) -> Mapped:
    """Return the (look-up tables, flip-flops, multipliers, block RAMs) of a memory that is written.

    Yosys chooses by the whole word, and then leaves out cells and blocks of which nothing is read.
    """
    banks, (blocks, bits) = -(-part.depth // 16), fewest_blocks(BLOCK_RAMS, part.width, part.depth)
    cells = banks * -(-part.width // 4)
    weight = WEIGHT_OF_A_CELL * cells + WEIGHT_OF_A_CHOICE * (part.width + 1) * (banks - 1)
    if part.at_once or part.in_logic or weight <= WEIGHT_OF_A_BLOCK * blocks:
        read = part.columns(1)
        chosen = read * (multiplexer(banks) + part.bypassed) + (banks if banks > 1 else 0)
        pointers, more = 2 * (part.depth - 1).bit_length(), part.parts - 1
        lut, ff = 6 * banks * part.columns(4) + chosen, 0 if part.at_once else read
        return lut + more * (pointers + 1), ff + more * pointers, 0, 0
    lut, ff = chosen_between(BLOCK_RAMS, part.width, part.depth, part.columns(1))
    return lut, ff, 0, blocks // -(-part.width // bits) * part.columns(bits)


def table(words: int) -> float:
    """Return the look-up tables of a bit of ``words`` words: up to 128 words they are joined without others."""
    if words <= 128:
        return 1 << max(0, -(-words // 16) - 1).bit_length()
    return words * 0.0855


def placed_constants(part: Memory) -> Mapped:
    """Return the cost of a memory that is only read, whose block RAMs are placed by hand."""
    small = part.width * part.depth <= LARGEST_CONSTANT_IN_LOGIC
    if part.latency > 1:
        small = in_few_words(part)
    if small if part.in_logic is None else part.in_logic:
        depends = bits_of_address(part)
        return sum(table(min(part.depth, 1 << bits)) for bits in depends), len(depends) + address_registers(part), 0, 0
    blocks, _ = fewest_blocks(BLOCK_RAMS, part.width, part.depth)
    return *chosen_between(BLOCK_RAMS, part.width, part.depth, part.width), 0, blocks
