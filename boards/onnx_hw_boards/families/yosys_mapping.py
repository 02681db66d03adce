"""Parts of a demand that yosys maps alike in every family, for the prices of each (``cost.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_hw_boards.demand import (
    Copies,
    Demand,
    Enable,
    LogicFunction,
    LoopCounter,
    Memory,
    Multiplexer,
    Paired,
    Part,
    Register,
    Unseen,
)

Mapped = tuple[float, int, int, int]
"""(look-up tables, flip-flops, multipliers, block RAMs)."""

DEEPEST_ROM, SMALLEST_ROM = 32, 1024
"""Words, and bits, up to which a memory with an output register of its own is made of look-up tables."""


def total(demand: Demand, cost: Callable[[Part], Mapped]) -> tuple[int, int, int, int]:
    """Return the sum of the costs of a demand's parts."""
    luts, ff, dsp, bram = 0.0, 0, 0, 0
    for part, count in demand.parts:
        its_luts, its_ff, its_dsp, its_bram = cost(part)
        luts += count * its_luts
        ff += count * its_ff
        dsp += count * its_dsp
        bram += count * its_bram
    return round(luts), ff, dsp, bram


def shared_part(
    part: Part, cost: Callable[[Part], Mapped], multiplexer: Callable[[int], float], cases: Callable[[int], float]
) -> Mapped:
    """Return the cost of a part that families map alike, unless they state it themselves.

    Args:
        cost: the family's cost of a part.
        multiplexer, cases: functions from a number of words to the look-up tables of a bit, of a choice that is written
            as a tree, and case by case.
    """
    match part:
        case Register(bits):
            return 0, bits, 0, 0
        case Paired():
            return 0, 0, 0, 0
        case Multiplexer(ways, bits, tree, cleared):
            ways = ways_without_clearing(ways) if cleared else ways
            return bits * (multiplexer(ways) if tree else cases(ways)), 0, 0, 0
        case LogicFunction(inputs, bits):
            return bits * function(inputs), 0, 0, 0
        case Enable(inputs):  # a bit by itself is that of the flip-flops
            return enabling(inputs), 0, 0, 0
        case LoopCounter(count):
            bits = (count - 1).bit_length()
            return bits + (bits / 3 if count & count - 1 else 0), 0, 0, 0
        case Unseen(used=used):
            return cost(used)
        case Copies(part):  # synthesis merges what holds the same
            return cost(part)
    raise AssertionError(part)


def function(inputs: int) -> float:
    """Return the look-up tables of a bit: one takes four inputs; tests of more inputs are a tree."""
    return 0 if inputs < 1 else 1 if inputs <= 4 else (inputs - 1) / 3


def enabling(inputs: int) -> float:
    """Return the look-up tables of an enable; an enable of one bit takes no table."""
    return function(inputs) if inputs > 1 else 0


def ways_without_clearing(ways: int) -> int:
    """Return the words that are left to choose from where a register is cleared instead of taking one of them.

    The reset makes one choice, but only where that choice is the last one, as it is of two words; of three, two words
    and a gate are all the inputs that a look-up table has.
    """
    return ways - 1 if ways <= 3 else ways


def fewest_blocks(shapes: Sequence[tuple[int, int]], width: int, depth: int) -> tuple[int, int]:
    """Return the number of block RAMs of (words, bits) ``shapes`` for a memory, and the bits of a word in each."""
    return min((-(-depth // words) * -(-width // bits), bits) for words, bits in shapes)


def chosen_between(shapes: Sequence[tuple[int, int]], width: int, depth: int, read: int) -> tuple[int, int]:
    """Return the (look-up tables, flip-flops) that choose a word where a memory is deeper than its block RAMs.

    A look-up table for each two of them and each bit that is read; one that enables each, and the bits of the address.
    """
    blocks, bits = fewest_blocks(shapes, width, depth)
    deep = blocks // -(-width // bits)
    return (read * -(-deep // 2) + deep, (deep - 1).bit_length()) if deep > 1 else (0, 0)


def in_few_words(part: Memory) -> bool:
    """Return whether the circuit itself asks for look-up tables, for constants with an output register of their own."""
    return part.depth <= DEEPEST_ROM or part.width * part.depth <= SMALLEST_ROM


def bits_of_address(part: Memory) -> tuple[int, ...]:
    """Return, for each bit of constants that is made, the number of address bits that it depends on."""
    return part.depends or ((part.depth - 1).bit_length(),) * part.width


def address_registers(part: Memory) -> int:
    """Return the flip-flops that delay the address of constants in look-up tables, which answer at once."""
    return (part.depth - 1).bit_length() * (part.latency - 1)


def constants(
    part: Memory, shapes: Sequence[tuple[int, int]], bits_of_a_block: int, table: Callable[[int], float]
) -> Mapped:
    """Return the cost of a memory whose contents are known; only the bits that differ are kept, in block RAM too.

    Args:
        shapes: as for ``fewest_blocks``.
        bits_of_a_block: bits in look-up tables that yosys weighs like a block RAM.
        table: function from a number of words to the look-up tables of a bit.
    """
    depends = bits_of_address(part)
    blocks, _ = fewest_blocks(shapes, len(depends), part.depth)
    small = len(depends) * part.depth <= bits_of_a_block * blocks or (part.latency > 1 and in_few_words(part))
    if small if part.in_logic is None else part.in_logic:
        return sum(table(min(part.depth, 1 << bits)) for bits in depends), len(depends) + address_registers(part), 0, 0
    lut, ff = chosen_between(shapes, len(depends), part.depth, len(depends))
    return lut, ff + len(depends) * (part.latency - 1), 0, blocks


def rows_of_product(x: int, y: int, signed: tuple[bool, bool]) -> int:
    """Return the look-up tables of a product that no multiplier does.

    There is an AND for each pair of bits, two tables for each bit of a row that a carry-save adder takes in, which are
    all rows but two, and a chain for those two. A row that is signed extends over one that is not.
    """
    wide, rows = max(x, y), min(x, y)
    if rows == 1:
        return wide
    return x * y + 2 * (wide - (signed != (True, True))) * (rows - 2) + wide + rows - 3
