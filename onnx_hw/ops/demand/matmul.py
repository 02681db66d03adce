"""Demand of the parts of a matrix product: the vectors, the sums, and the buffer of weights that come."""

from __future__ import annotations

from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand.blocks import (
    accumulator,
    copied,
    counted,
    decoded,
    delayed,
    engine,
    memories,
    memory_parts,
    memory_reach,
    position,
    shared_buffer,
)
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Memory, Multiplexer, Register

RESULTS_PER_VECTOR_COPY = 4
"""Results that take their vector from the same copy of it."""


def vectors_demand(width: int, groups: int, beats: int, results: int) -> Demand:
    """Return the demand of a beat of vectors, fresh or replayed, and its copies.

    Args:
        width: of a beat of vectors, in bits.
        groups: of the results of a vector.
        beats: of a vector.
        results: of a vector that are made at a time.
    """
    copies = delayed(width, 1).copied(-(-results // RESULTS_PER_VECTOR_COPY))
    if groups == 1:
        return delayed(width, 4) + copies
    demand = delayed(counted(beats), 1) + memories(width, max(2, beats)) + Demand.of(LogicFunction(2))
    demand += delayed((1 + counted(beats)) * memory_parts(width, beats), 1)
    demand += decoded((0, 1), counted(groups) + counted(beats)) + delayed(1, 2) + copied(1, width)
    return demand + delayed(width, 5) + Demand.of(Multiplexer(2, width)) + copies


def dot_demand(operand: Int, weight: Int, result: Int, lanes: int) -> Demand:
    """Return the demand of one result: a register behind each product, an adder tree and an accumulator.

    Args:
        operand, weight, result: types of an input, a weight and the result.
        lanes: number of inputs.
    """
    demand = delayed(lanes * (operand.bits + weight.bits), 1)
    terms = [min(operand.bits + weight.bits, result.bits)] * lanes
    while len(terms) > 1:
        sums = [min(max(pair) + 1, result.bits) for pair in zip(terms[::2], terms[1::2], strict=False)]
        demand += Demand(tuple((part, 1) for bits in sums for part in (Adder(bits), Register(bits))))
        rest = terms[len(terms) & ~1 :]
        demand += delayed(sum(rest), 1)
        terms = sums + rest
    return demand + accumulator(result.bits)


def weight_buffer_demand(
    weight: Int, *, lanes: int, in_lanes: int, words: int, beats: int, capacity: int, tiles: int, is_ragged: bool
) -> Demand:
    """Return the demand of the buffer of dynamic weights, and of the engine that takes them.

    Args:
        weight: type of a weight.
        lanes: weights of a word.
        in_lanes: inputs of a word.
        words: words of a matrix.
        beats: words of a group of results.
        capacity: words of the buffer.
        tiles: times that the words of a matrix are read.
        is_ragged: whether the last word of a group has places for no input.
    """
    width, address = lanes * weight.bits, counted(capacity)
    demand = engine((beats,), conditions=1) + shared_buffer(capacity + words + 1, (1, 1 - words), (0, beats))
    demand += 2 * position(capacity) + delayed(2 * address, 1) + delayed(1, 1) + delayed(2 * width, 1)
    demand += 2 * decoded((0, 1) if words > 1 else (0,), counted(words))
    if is_ragged:
        demand += delayed(1, 2) + Demand.of(LogicFunction(2, width // in_lanes))
    if tiles > 1 and words > 1:
        demand += 2 * Demand.of(Adder(address), Multiplexer(2, address))
    step = max(1, memory_reach(capacity) // weight.bits) * weight.bits
    for first in range(0, width, step):
        part = min(step, width - first)
        demand += delayed(1 + 2 * address, 1) + Demand.of(Memory(part, max(2, capacity))) + delayed(2 * part, 1)
    return demand
