"""Demands of the parts that several cores have: engines, shared buffers, delay lines, sums, constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from onnx_hw_boards.demand import (
    Adder,
    Comparator,
    Demand,
    LogicFunction,
    LoopCounter,
    Memory,
    Multiplexer,
    Part,
    Register,
    Unseen,
)

BITS_PER_ADDRESS_COPY = 6 * 36
"""Bits of weights that one copy of the address reaches."""

BITS_PER_COPY = 16
"""Bits of a word that one copy of a control reaches."""

SHALLOW_WORDS = 32
"""Words of a memory whose addresses reach no further than other controls."""

MAX_GATE_TABLE_WORDS = 16
"""Words of a table that is made of gates."""

MAX_NUMBER_BITS, DISTINCT_NUMBERS = 40, 64
"""Bits of the widest number of a control; of this many numbers no bits agree."""


def counted(numbers: int) -> int:
    """Return the bits that tell 0 .. ``numbers`` - 1 apart."""
    return (numbers - 1).bit_length()


def changing(values: Iterable[int]) -> int:
    """Return the bits in which some of these numbers differ, those that always agree with another one left out."""
    distinct = sorted(set(values))
    different = 0
    for number in distinct:
        different |= number ^ distinct[0]
    bits = [k for k in range(min(different.bit_length(), MAX_NUMBER_BITS)) if different >> k & 1]
    if len(distinct) > DISTINCT_NUMBERS:
        return len(bits)
    return len({sum((number >> k & 1) << place for place, number in enumerate(distinct)) for k in bits})


def delayed(bits: int, cycles: int) -> Demand:
    """Return the demand of a delay line."""
    return Demand.of(Register(bits * cycles))


def copied(bits: int, width: int) -> Demand:
    """Return the demand of a control of some bits a cycle later, copied for each part of a word of ``width`` bits."""
    return delayed(bits, 1).copied(-(-width // BITS_PER_COPY))


def memory_reach(depth: int, ports: int = 1) -> int:
    """Return the bits of a word that one copy of its address reaches, where it goes to a number of ports."""
    return BITS_PER_COPY if depth <= SHALLOW_WORDS else BITS_PER_ADDRESS_COPY // ports


def cut(whole: int, size: int) -> dict[int, int]:
    """Return the sizes of the parts of ``whole``, each of ``size`` but for a smaller last one, with their numbers."""
    parts, rest = divmod(whole, size)
    return {of: count for of, count in ((size, parts), (rest, 1)) if of and count}


def memory_parts(width: int, depth: int) -> int:
    """Return the parts of a wide memory, each of which has an address of its own."""
    return -(-width // memory_reach(depth))


@lru_cache(maxsize=1 << 12)
def memories(
    width: int, depth: int, read: tuple[tuple[int, int], ...] = (), ports: int = 1, in_logic: bool | None = None
) -> Demand:
    """Return the demand of a memory in its parts.

    Args:
        ports: number of ports that have the same address.
        read: (first bit, bit behind the last) of what a control that has copies chooses from; empty where that is all.
        in_logic: False where the memory is made of block RAM, however small it is.
    """
    parts, reach = Counter[Part](), memory_reach(depth, ports)
    for first in range(0, width, reach):
        whole = Memory(min(reach, width - first), depth, in_logic=in_logic)
        last = first + whole.width
        inside = [(low, high) for low, high in read or ((0, width),) if low < last and high > first]
        kept = tuple((max(0, low - first), min(whole.width, high - first)) for low, high in inside)
        used = Memory(whole.width, depth, read=kept, in_logic=in_logic) if kept else Register(0)
        parts[whole if kept == ((0, whole.width),) else Unseen(whole, used)] += 1
    return Demand(tuple(parts.items()))


def stored_words(width: int, depth: int) -> Demand:
    """Return the demand of a memory of few words, in parts that a control reaches, with a register behind it."""
    whole, rest = divmod(width, BITS_PER_COPY)
    parts = whole * Demand.of(Memory(BITS_PER_COPY, depth, in_logic=True))
    return parts + Demand.of(Memory(rest, depth, in_logic=True)) if rest else parts


def added(bits: int) -> Demand:
    """Return the demand of an adder with a register behind it."""
    return Demand.of(Adder(bits), Register(bits))


def engine(
    loops: Sequence[int],
    *,
    inputs: int = 1,
    outputs: int = 1,
    conditions: int = 0,
    some_pop: int = 0,
    some_push: int = 0,
    exclusive: bool = False,
) -> Demand:
    """Return the demand of an engine: counters, flags and the decision to fire.

    Args:
        loops: counts.
        inputs, outputs: streams.
        conditions: number of conditions other than tokens and credits.
        some_pop, some_push: inputs (outputs) of which only some operations pop (push).
        exclusive: no operation pops from more than one input.
    """
    counters = Demand()
    for count in loops:
        if count > 1:
            counters += Demand.of(LoopCounter(count), Register(counted(count)))
    index = sum(counted(count) for count in loops)
    if not conditions and (exclusive or inputs == 1):
        firing = Demand.of(Register(inputs + bool(some_pop)), LogicFunction(4, 2 * inputs + bool(some_pop)))
    else:
        firing = Demand.of(Register(1), LogicFunction(4, 2 + inputs + conditions))
    flags = some_pop + some_push
    decoded = Demand.of(Register(flags), LogicFunction(max(2, index), flags), LogicFunction(4, 2 * flags))
    return counters + firing + decoded + Demand.of(LogicFunction(4, outputs))


def decoded(values: Iterable[int], index: int) -> Demand:
    """Return the demand of a register with a function of the current turn, whose bits are ``bits``."""
    return select(values, index) + Demand.of(Register(changing(values)))


def select(values: Iterable[int], index: int) -> Demand:
    """Return the demand of a choice of constants: a test for each but the most frequent, and gates behind them."""
    times = Counter(values)
    odd = times.total() - max(times.values())
    if not odd:
        return Demand()
    return Demand.of(LogicFunction(index, min(odd, 3)), LogicFunction(min(index, 2 + odd), changing(times)))


def shared_buffer(span: int, *steps: Iterable[int]) -> Demand:
    """Return the demand of two counters that differ by up to ``span``; the reader moves each by ``steps``."""
    bits = span.bit_length() + 1
    gates = sum(changing([0, *step]) for step in steps)
    return 2 * (added(bits) + Demand.of(LogicFunction(4, 1))) + Demand.of(LogicFunction(2, gates))


def position(count: int) -> Demand:
    """Return the demand of a counter that is not a loop of the engine."""
    return Demand.of(LoopCounter(count), Register(counted(count)), LogicFunction(4, 1)) if count > 1 else Demand()


def unlike(width: int, words: int) -> int:
    """Return how many bits of random words are neither constant nor equal to another one, on average."""
    kinds = 2.0 ** min(words, 40) - 2
    return round(kinds * -np.expm1(width * np.log1p(-(2.0 ** -min(words, 40)))))


def rom(width: int, words: int, in_logic: bool | None = None) -> Demand:
    """Return the demand of constants, with two cycles from the address to the word."""
    if words == 1:
        return Demand()
    return Demand.of(Memory(width, words, constant=True, in_logic=in_logic, latency=2))


def weights(weight_bits: int, lanes: int, words: int, *, waits: int, in_logic: bool | None = None) -> Demand:
    """Return the demand of weights' words, read one after the other, and of a register behind them.

    Args:
        in_logic: False where the memories are made of block RAM, however small they are.
    """
    if words == 1:
        return Demand()
    per_rom = max(1, BITS_PER_ADDRESS_COPY // weight_bits)
    roms = cut(lanes, per_rom)
    address = counted(words)
    demand = position(words) + delayed(address, waits) + delayed(address, 1).copied(sum(roms.values()))
    for size, count in roms.items():
        whole = size * weight_bits
        bits = whole if in_logic is False else unlike(whole, words)  # block RAM stores what is alike, too
        demand += count * (rom(bits, words, in_logic) + delayed(bits, 1))
    return demand


LOADED_BLOCK_BITS = 16
"""Bits of the widest block of such a memory."""

LOADED_BITS = 128
"""Bits of the widest memory whose words are loaded at run time."""


def loaded_memory(width: int, words: int) -> Demand:
    """Return the demand of a memory whose words are loaded, with two cycles from the address to the word.

    A comparison of the address and a register choose it for writing.
    """
    parts = (min(LOADED_BLOCK_BITS, width - at) for at in range(0, width, LOADED_BLOCK_BITS))
    memories_of = (Memory(part, max(2, words), in_logic=False) for part in parts)
    return Demand.of(*memories_of, Register(width), LogicFunction(12), Register(1))


def loaded_number(bits: int) -> Demand:
    """Return the demand of a single number that is loaded."""
    return Demand.of(LogicFunction(20), Register(1), Register(bits))


def loaded_weights(weight_bits: int, lanes: int, words: int, *, waits: int) -> Demand:
    """Return the demand of loaded weights' words, read one after the other, and of a register behind them."""
    per_memory = max(1, LOADED_BITS // weight_bits)
    sizes = cut(lanes, per_memory)
    address = counted(words)
    demand = position(words) + delayed(address, waits) + delayed(address, 1).copied(sum(sizes.values()))
    for size, count in sizes.items():
        demand += count * (loaded_memory(size * weight_bits, words) + delayed(size * weight_bits, 1))
    return demand


def accumulator(bits: int) -> Demand:
    """Return the demand of a running sum that begins anew with its first addend."""
    return added(bits) + Demand.of(LogicFunction(2, bits))


def maximum(bits: int, *, chosen: bool = False) -> Demand:
    """Return the demand of the greater one of two numbers, in a register.

    Args:
        chosen: one of them comes out of a multiplexer, which can as well give what inverts it.
    """
    return Demand.of(Comparator(bits, 0 if chosen else None), Multiplexer(2, bits), Register(bits))
