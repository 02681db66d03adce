"""What a product of a matrix with vectors demands of a chip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_hw.ops.parts import (
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
    unlike,
    weights,
)
from onnx_hw.ops.products_in_logic import known_products_demand, product_demand
from onnx_hw_boards.demand import Adder, Demand, Function, Memory, Multiplexer, Register, Shared

if TYPE_CHECKING:
    from onnx_hw.ops.matmul import MatMul, MatMulFolding

RESULTS_PER_VECTOR_COPY = 4
"""Results that take their vector from the same copy of it."""


def matmul_demand(operator: MatMul, folding: MatMulFolding) -> Demand:
    """The whole core."""
    groups, beats = operator.turns(folding)
    results, latency = folding.out_lanes * folding.pixels, operator.latency(folding)
    loops = (*((operator.tiles(folding) if operator.held(folding) else 1,) if operator.comes else ()), groups, beats)
    index = counted(groups) + counted(beats)
    found = engine(loops, conditions=int(operator.comes), some_pop=groups > 1, some_push=beats > 1)
    found += decoded((0, 1) if beats > 1 else (0,), counted(beats))
    found += delayed(1, 3 * latency - 4) + delayed(2, 1).copied(results)
    found += _vectors(operator, folding, index)
    lanes = folding.in_lanes * folding.out_lanes
    if operator.comes:
        found += _buffer(operator, folding)
    else:
        found += weights(operator.weight_type.bits, lanes, groups * beats, waits=1)
    operand, weight = operator.operand.dtype, operator.weight_type
    if folding.in_logic and not operator.comes and groups * beats == 1:
        found += folding.pixels * known_products_demand(operand.bits, operator.constants)
    else:
        found += products(operator, folding)
    if not folding.in_logic:
        taken = lanes * weight.bits if operator.comes else unlike(lanes * weight.bits, groups * beats)
        fresh = folding.in_lanes * folding.pixels * operand.bits + taken
        found += Demand.of(Shared(lanes * folding.pixels * (operand.bits + weight.bits) - fresh))
    return found + results * _dot(operator, folding)


def products(operator: MatMul, folding: MatMulFolding) -> Demand:
    """Of numbers that are not known."""
    one = product_demand(operator.operand.dtype, operator.weight_type, in_logic=folding.in_logic)
    return operator.lanes(folding) * one


def _vectors(operator: MatMul, folding: MatMulFolding, index: int) -> Demand:
    """A beat of vectors, fresh or replayed, and its copies."""
    groups, beats = operator.turns(folding)
    width = folding.in_lanes * folding.pixels * operator.operand.dtype.bits
    copies = delayed(width, 1).copied(-(-folding.out_lanes // RESULTS_PER_VECTOR_COPY))
    if groups == 1:
        return delayed(width, 4) + copies
    found = delayed(counted(beats), 1) + memories(width, max(2, beats)) + Demand.of(Function(2))
    found += delayed((1 + counted(beats)) * memory_parts(width, beats), 1)
    found += decoded((0, 1), index) + delayed(1, 2) + copied(1, width)
    return found + delayed(width, 5) + Demand.of(Multiplexer(2, width)) + copies


def _dot(operator: MatMul, folding: MatMulFolding) -> Demand:
    """A register behind each product, adder tree and accumulator of one result."""
    operand, weight, made = operator.operand.dtype.bits, operator.weight_type.bits, operator.results()[0].dtype.bits
    found = delayed(folding.in_lanes * (operand + weight), 1)
    terms = [min(operand + weight, made)] * folding.in_lanes
    while len(terms) > 1:
        sums = [min(max(pair) + 1, made) for pair in zip(terms[::2], terms[1::2], strict=False)]
        found += Demand(tuple((part, 1) for bits in sums for part in (Adder(bits), Register(bits))))
        rest = terms[len(terms) & ~1 :]
        found += delayed(sum(rest), 1)
        terms = sums + rest
    return found + accumulator(made)


def _buffer(operator: MatMul, folding: MatMulFolding) -> Demand:
    """Of weights that come, and the engine that takes them."""
    groups, beats = operator.turns(folding)
    words, depth = groups * beats, operator.stored_groups(folding) * beats
    width = operator.weight_words(folding).width * operator.weight_type.bits
    tiles = operator.tiles(folding) if operator.held(folding) else 1
    address = counted(depth)
    found = engine((beats,), conditions=1) + shared_buffer(depth + words + 1, (1, 1 - words), (0, beats))
    found += 2 * position(depth) + delayed(2 * address, 1) + delayed(1, 1) + delayed(2 * width, 1)
    found += 2 * decoded((0, 1) if words > 1 else (0,), counted(words))
    if beats * folding.in_lanes > operator.operand.channels:
        found += delayed(1, 2) + Demand.of(Function(2, width // folding.in_lanes))
    if tiles > 1 and words > 1:
        found += 2 * Demand.of(Adder(address), Multiplexer(2, address))
    step = max(1, memory_reach(depth) // operator.weight_type.bits) * operator.weight_type.bits
    for first in range(0, width, step):
        part = min(step, width - first)
        found += delayed(1 + 2 * address, 1) + Demand.of(Memory(part, max(2, depth))) + delayed(2 * part, 1)
    return found
