"""Demand of a rearrangement."""

from __future__ import annotations

from collections import Counter

import numpy as np

from onnx_hw.ops.demand.blocks import changing, counted, decoded, delayed, engine, position, rom, shared_buffer
from onnx_hw.ops.rearrange_plan import DEEPEST_IN_LOGIC, FILL, UNUSED, RearrangePlan, separate
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Memory, Multiplexer, Register

MIN_TABLE_EXCEPTIONS = 8
"""Number of exceptions that are cheaper as a table than one by one."""


def rearrange_demand(plan: RearrangePlan, capacity: int, in_width: int, latency: int) -> Demand:
    """Return the demand of a rearrangement with a ring of ``capacity`` beats."""
    walk, loops, bits = plan.walk, plan.loops, plan.walk.bits
    ring = max(2, 1 << (capacity - 1).bit_length())
    address, outer = counted(ring), counted(loops[0])
    needs, released = plan.turns.needs + 1, plan.turns.released
    grows = np.diff(needs, append=walk.stored + needs[0]).tolist()
    gives = np.diff(released, prepend=0).tolist()
    demand = engine((1,), conditions=1) + engine(loops, inputs=0, conditions=1)
    demand += shared_buffer(3 * walk.stored + capacity, grows, gives)
    demand += _by_turn(grows, outer) + _by_turn(gives, outer)
    demand += Demand.of(LogicFunction(sum(map(counted, loops)), 3), Register(1))
    demand += position(ring) + delayed(1 + address + in_width * bits, 4) + delayed(1, latency)
    demand += _tables(plan, address)
    for port in walk.ports:
        width = bits * len(port.stored)
        demand += Demand.of(Memory(width, ring), Register(width))
    for column in walk.patterns[0].T:
        taken = set(column.tolist()) - {UNUSED}
        demand += Demand.of(Multiplexer(len(taken), bits, tree=True, cleared=FILL in taken), Register(bits))
    return demand


def _by_turn(values: list[int], index: int) -> Demand:
    """Return the demand of a register with what a turn of the outer loop adds at its end."""
    regular = max(Counter(values).values())
    if len(values) - regular <= MIN_TABLE_EXCEPTIONS:
        return decoded([0, *values], index)
    return Demand.of(LogicFunction(index, changing(values)), Register(changing([0, *values])))


def _tables(plan: RearrangePlan, address: int) -> Demand:
    """Return the demand of the tables that say where data lie, loop by loop, of the sums of the loops' parts, and of
    what chooses elements.
    """
    walk, loops, demand = plan.walk, plan.loops, Demand()
    parts = [split for port in walk.ports if (split := separate(port, loops)) is not None]
    classes = walk.classes(loops)
    wide = [(count - 1).bit_length() for count in classes]
    several = sum(count > 1 for count in classes) > 1
    for axis, length in enumerate(loops):
        distinct = {split[axis].tobytes(): split[axis] for split in parts}
        moving = sum(changing(np.unique(column % (1 << address)).tolist()) for column in distinct.values())
        chosen = wide[axis] if several else walk.choices if classes[axis] > 1 else 0
        if moving + chosen and length > 1:
            demand += delayed(counted(length), 1) + _table(moving + chosen, length)
    demand += _addresses(plan, parts, address)
    if several:
        return demand + _table(walk.choices, 1 << sum(wide)) + delayed(walk.choices, 2)
    return demand + delayed(walk.choices, 4)


def _addresses(plan: RearrangePlan, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], address: int) -> Demand:
    """Return the demand of each port's address: the frame's begin, and a number of each loop; equal parts once."""

    def low(numbers: np.ndarray) -> int:
        """Return the lowest bit that is 1 in any of the numbers."""
        whole = int(np.bitwise_or.reduce(numbers % (1 << address)))
        return (whole & -whole).bit_length() - 1 if whole else address

    def add(one: int, other: int) -> Demand:
        return Demand.of(Adder(address - max(one, other)), Register(address - min(one, other)))

    base = low(np.array([plan.walk.stored]))
    demand = add(base, base) + delayed(address - base, 2)
    lows = [tuple(map(low, split)) for split in parts]
    lefts = {split[0].tobytes(): outer for split, (outer, _, _) in zip(parts, lows, strict=True)}
    rights = {
        (split[1].tobytes(), split[2].tobytes()): (middle, inner)
        for split, (_, middle, inner) in zip(parts, lows, strict=True)
    }
    for outer in lefts.values():
        demand += add(base, outer)
    for middle, inner in rights.values():
        demand += add(middle, inner)
    for outer, middle, inner in lows:
        demand += add(min(base, outer), min(middle, inner))
    return demand


def _table(width: int, words: int) -> Demand:
    return rom(width, words, in_logic=True if words <= DEEPEST_IN_LOGIC else None) if width else Demand()
