"""Demand of a matrix product and its parts: the vectors, the sums, and the buffer of weights that come."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand.blocks import (
    copied,
    counted,
    decoded,
    delayed,
    engine,
    loaded_weights,
    memories,
    memory_parts,
    memory_reach,
    position,
    shared_buffer,
    unlike,
    weights,
)
from onnx_hw.ops.demand.soft_multipliers import known_products_demand, product_demand
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Memory, Multiplexer, Register, Shared


class ProductFolding(Protocol):
    """Folding of a matrix product, as far as its demand depends on it."""

    @property
    def in_lanes(self) -> int: ...

    @property
    def out_lanes(self) -> int: ...

    @property
    def pixels(self) -> int: ...

    @property
    def tile(self) -> int: ...

    @property
    def in_logic(self) -> bool: ...

    @property
    def blocks(self) -> int: ...


class MatrixProduct(Protocol):
    """Matrix product, as far as its demand depends on it: a ``MatMul``."""

    @property
    def operand(self) -> Tensor: ...

    @property
    def loaded(self) -> Int | None: ...

    @property
    def weight_type(self) -> Int: ...

    @property
    def constants(self) -> np.ndarray: ...

    @property
    def streams_weights(self) -> bool: ...

    def results(self) -> tuple[Tensor, ...]: ...

    def turns(self, folding: Any) -> tuple[int, int]: ...

    def latency(self, folding: Any) -> int: ...

    def kept_words(self, folding: Any) -> tuple[int, int]: ...

    def stored_groups(self, folding: Any) -> int: ...

    def weight_words(self, folding: Any) -> Order: ...

    def lanes(self, folding: Any) -> int: ...


RESULTS_PER_VECTOR_COPY = 4
"""Results that take their vector from the same copy of it."""


def matmul_demand(operator: MatrixProduct, folding: ProductFolding) -> Demand:
    """Return the demand of the whole core."""
    groups, beats = operator.turns(folding)
    results, latency = folding.out_lanes * folding.pixels, operator.latency(folding)
    kept, times = operator.kept_words(folding)
    operand, weight = operator.operand.dtype, operator.weight_type
    tile, loops = folding.tile, (groups, beats)
    if operator.streams_weights:
        loops = (groups, tile, beats) if tile > 1 else (times, groups, beats)  # type: ignore[assignment]
    demand = engine(loops, conditions=int(operator.streams_weights), some_pop=groups > 1, some_push=beats > 1)
    demand += decoded((0, 1) if beats > 1 else (0,), counted(beats))
    demand += delayed(1, 3 * latency - 4) + delayed(2, 1).copied(results)
    width = folding.in_lanes * folding.pixels * operand.bits
    in_logic = False if folding.blocks else None
    demand += vectors_demand(width, groups, beats, folding.out_lanes, in_logic, tile=tile)
    lanes = folding.in_lanes * folding.out_lanes
    if operator.streams_weights:
        demand += weight_buffer_demand(
            weight,
            lanes=operator.weight_words(folding).width,
            in_lanes=folding.in_lanes,
            words=kept,
            beats=beats,
            capacity=operator.stored_groups(folding) * beats,
            tiles=times,
            is_ragged=beats * folding.in_lanes > operator.operand.channels,
        )
    elif operator.loaded is not None:
        demand += loaded_weights(weight.bits, lanes, groups * beats, waits=1)
    else:
        demand += weights(weight.bits, lanes, groups * beats, waits=1, in_logic=in_logic)
    if folding.in_logic and not operator.streams_weights and operator.loaded is None and groups * beats == 1:
        demand += folding.pixels * known_products_demand(operand.bits, operator.constants)
    else:
        demand += products_demand(operator, folding)
    if not folding.in_logic:
        taken = lanes * weight.bits if operator.streams_weights else unlike(lanes * weight.bits, groups * beats)
        demand += Demand.of(Shared(lanes * folding.pixels * (operand.bits + weight.bits) - width - taken))
    types = operand, weight, operator.results()[0].dtype
    return demand + results * dot_demand(*types, folding.in_lanes, in_logic=folding.in_logic)


def products_demand(operator: MatrixProduct, folding: ProductFolding) -> Demand:
    """Return the demand of products of unknown numbers."""
    one = product_demand(operator.operand.dtype, operator.weight_type, in_logic=folding.in_logic)
    return operator.lanes(folding) * one


def vectors_demand(
    width: int, groups: int, beats: int, results: int, in_logic: bool | None = None, *, tile: int = 1
) -> Demand:
    """Return the demand of a beat of vectors, fresh or replayed, and its copies.

    Args:
        width: of a beat of vectors, in bits.
        groups: of the results of a vector.
        beats: of a vector.
        results: of a vector that are made at a time.
        in_logic: False where the memory of the vector is made of block RAM, however small it is.
        tile: vectors that are held.
    """
    copies = delayed(width, 1).copied(-(-results // RESULTS_PER_VECTOR_COPY))
    if groups == 1:
        return delayed(width, 4) + copies
    slots = tile * beats
    demand = position(slots) if tile > 1 else delayed(counted(beats), 1)
    demand += memories(width, max(2, slots), in_logic=in_logic) + Demand.of(LogicFunction(2))
    demand += delayed((1 + counted(slots)) * memory_parts(width, slots), 1)
    demand += decoded((0, 1), counted(groups) + counted(beats)) + delayed(1, 2) + copied(1, width)
    return demand + delayed(width, 5) + Demand.of(Multiplexer(2, width)) + copies


def dot_demand(operand: Int, weight: Int, result: Int, lanes: int, *, in_logic: bool) -> Demand:
    """Return the demand of one result: a register behind each product in a hardware multiplier, an adder tree and an
    accumulator.

    Args:
        operand, weight, result: types of an input, a weight and the result.
        lanes: number of inputs.
        in_logic: whether products are made of look-up tables.
    """
    demand = Demand() if in_logic else delayed(lanes * (operand.bits + weight.bits), 1)
    terms = [min(operand.bits + weight.bits, result.bits)] * lanes
    while len(terms) > 1:
        sums = [min(max(pair) + 1, result.bits) for pair in zip(terms[::2], terms[1::2], strict=False)]
        demand += Demand(tuple((part, 1) for bits in sums for part in (Adder(bits), Register(bits))))
        rest = terms[len(terms) & ~1 :]
        demand += delayed(sum(rest), 1)
        terms = sums + rest
    return demand + Demand.of(Adder(result.bits, gated=True), Register(result.bits))


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
