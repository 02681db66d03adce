"""Cost of a demand on ECP5, as yosys maps it: in look-up tables of four inputs, flip-flops, multipliers, block RAMs.

Carry chains are cells of two look-up tables each; what joins look-up tables to wider functions (PFUMX, L6MUX21) comes
with them. Distributed memory is in cells of 16 words of 4 bits that take three slices, six look-up tables.
"""

from __future__ import annotations

from functools import lru_cache

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import (
    Adder,
    Comparator,
    Copies,
    Demand,
    LoopCounter,
    Memory,
    Part,
    Product,
    Shared,
    Unseen,
    UpDown,
)
from onnx_hw_boards.families.ecp5_and_gowin import (
    memory,
    multiplexer,
    placed_constants,
    up_down,
)
from onnx_hw_boards.families.yosys_mapping import (
    Mapped,
    shared_part,
    total,
)

SHORTEST_CHAIN = 5
"""Bits of the shortest sum that is a chain of carries."""

BITS_OF_A_CELL = 5.5
"""Flip-flops that yosys weighs like a cell of distributed memory."""


def cost(demand: Demand) -> Cells:
    """Return the cells of a demand: the sum of its parts."""
    return Cells(*total(demand, _cost))


@lru_cache(maxsize=1 << 16)
def _cost(part: Part) -> Mapped:
    """Return the (look-up tables, flip-flops, multipliers, block RAMs) of a part."""
    match part:
        case Product():
            return 0, 0, 1, 0
        case Shared():  # inside of multipliers
            return 0, 0, 0, 0
        case Adder(bits) | Comparator(bits):  # a carry cell has inputs left that gate the addends
            return (bits + bits % 2 if bits >= SHORTEST_CHAIN else max(bits, 0) * 1.5), 0, 0, 0
        case LoopCounter(count):
            bits = (count - 1).bit_length()
            return (
                (bits + bits % 2 + (bits / 3 if count & count - 1 else 0) if bits >= SHORTEST_CHAIN else bits),
                0,
                0,
                0,
            )
        case UpDown(bits):
            return up_down(bits), 0, 0, 0
        case Unseen(whole):
            return _cost(whole)
        case Memory():
            return placed_constants(part) if part.constant else _flip_flops(part) or memory(part)
        case Copies(part, count):
            lut, ff, dsp, bram = _cost(part)
            return count * lut, count * ff, count * dsp, count * bram
    return shared_part(part, _cost, multiplexer, cases)


def cases(ways: int) -> float:
    """Return the look-up tables of a bit that is written case by case: yosys compares the number with each."""
    known = {0: 0, 1: 0, 2: 1, 3: 2, 4: 3.5, 5: 7, 6: 7, 7: 8, 8: 9, 9: 15, 10: 21, 11: 22, 12: 24}
    return known[ways] if ways in known else max(27, 2.9 * ways - 4)


def _flip_flops(part: Memory) -> Mapped | None:
    """Return the cost of a FIFO in flip-flops; None where memory cells are not larger."""
    if not part.at_once or part.in_logic or part.width * part.depth >= BITS_OF_A_CELL * -(-part.width // 4):
        return None
    return part.width * (part.depth - 1 + part.bypassed) + part.depth, part.width * part.depth, 0, 0
