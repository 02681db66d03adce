"""MatMul: ``result[pixel] = weights · operand[pixel]``, integers, exact; also the arithmetic of a convolution.

The weights are constants in a memory, or a tensor that comes frame by frame. Either way the circuit reads words, in an
order that ``weight_words`` states; words that come are kept in a buffer between their writer and the multipliers. A
buffer that holds all of a frame's weights takes them once. A smaller one takes them anew for each beat of vectors, and
gives a group of results' weights back as soon as they have been used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence, LoopTurns
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
    unlike,
    weights,
)
from onnx_hw.ops.demand.soft_multipliers import MULTIPLIER_BITS, known_products_demand, multiplier_for, product_demand
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.ops.operator import Component, Operator, pixels_beside
from onnx_hw.ops.permutation import Permutation, of_pixels
from onnx_hw.ops.rom_contents import RomImage, weight_memories
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.ops.stream_order import Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_vectors
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Memory, Multiplexer, Register, Shared

EXACT_IN_FLOAT64 = 1 << 53


@dataclass(frozen=True, repr=False)
class MatMulFolding(Folding):
    """Folding of a product of matrices.

    Attributes:
        in_lanes, out_lanes: channels per beat of the vectors, of the results.
        pixels: vectors side by side; each weight that is fetched serves all of them.
        tile: beats of them that are done group by group of results; the circuit does one at a time.
        multiplier: what the products are made of.
    """

    in_lanes: int
    out_lanes: int
    pixels: int = 1
    tile: int = 1
    multiplier: MultiplierKind = MultiplierKind.HARDWARE

    def input_order(self, tensor: Tensor) -> Order:
        return Order(tensor, self.in_lanes, self.pixels)

    def output_order(self, tensor: Tensor) -> Order:
        return Order(tensor, self.out_lanes, self.pixels)


@dataclass(frozen=True, repr=False, eq=False)
class MatMul(Operator[MatMulFolding]):
    """A matrix times the vector of each pixel.

    Attributes:
        weights: (outputs, inputs) int64; or a tensor [1, outputs, inputs], whose pixel r holds the weights of result r.
        groups: of the convolution this is the arithmetic of: of the products only one in ``groups`` counts as useful.
        capacity: groups of results whose dynamic weights the buffer holds; None for those of a frame and one more,
            for the next frame.
    """

    operand: Tensor
    weights: np.ndarray | Tensor = field(repr=False)
    groups: int = 1
    capacity: int | None = None

    folding_type = MatMulFolding

    def __post_init__(self) -> None:
        expected = f"{self.operand.channels}) for {self.operand!r}"
        shape = self.weights.shape
        if isinstance(self.weights, Tensor):
            if shape != (1, shape[1], self.operand.channels):
                raise ValueError(f"weights must be (1, outputs, {expected}, not {shape}")
            if self.capacity is not None and self.capacity < 1:
                raise ValueError(f"a buffer must hold the weights of at least one group, not of {self.capacity}")
            return
        if len(shape) != 2 or shape[1] != self.operand.channels:
            raise ValueError(f"weights must be (outputs, {expected}, not {shape}")
        if self.capacity is not None:
            raise ValueError("only weights that come are kept in a buffer, constant ones are there")

    @cached_property
    def matrix(self) -> Tensor:
        """The weights' type, [1, outputs, inputs]."""
        if isinstance(self.weights, Tensor):
            return self.weights
        low, high = int(self.weights.min()), int(self.weights.max())
        return Tensor((1, *self.weights.shape), Int.holding(min(low, 0), max(high, 0)), low, high)

    @property
    def weight_type(self) -> Int:
        return self.matrix.dtype

    @property
    def constants(self) -> np.ndarray:
        """The weights, where they are known."""
        assert isinstance(self.weights, np.ndarray)
        return self.weights

    @property
    def has_dynamic_weights(self) -> bool:
        """Whether the weights are a tensor."""
        return isinstance(self.weights, Tensor)

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("i", "w") if self.has_dynamic_weights else ("i",)

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand, self.matrix) if self.has_dynamic_weights else (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        return (self._result,)

    @cached_property
    def _result(self) -> Tensor:
        """The accumulator's type follows from the real weights, or from their range."""
        low, high = self.operand.range
        if isinstance(self.weights, Tensor):
            products = [a * b for a in (low, high) for b in self.weights.range]
            least, most = (self.operand.channels * bound for bound in (min(products), max(products)))
        else:
            positive, negative = np.maximum(self.weights, 0).sum(axis=1), np.minimum(self.weights, 0).sum(axis=1)
            least = int((positive * low + negative * high).min())
            most = int((positive * high + negative * low).max())
        shape = (*self.operand.shape[:2], self.matrix.shape[1])
        dtype = Int.holding(min(least, -1), max(most, 0))  # always signed: the adders are
        return Tensor(shape, dtype, least, most)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Multiply in float64, which has a fast product and is exact: every partial sum stays below 2^53."""
        vectors, largest = arrays[0], max(map(abs, self.operand.range))
        if isinstance(self.weights, Tensor):
            weights = arrays[1][:, 0]  # (frames, outputs, inputs)
            bound = largest * max(map(abs, self.weights.range)) * self.operand.channels
        else:
            weights = self.weights[None]
            bound = largest * int(np.abs(self.weights).sum(axis=1).max())
        number = np.float64 if bound < EXACT_IN_FLOAT64 else np.int64
        flat = vectors.reshape(len(weights), -1, vectors.shape[-1]).astype(number)
        product = flat @ weights.swapaxes(1, 2).astype(number)
        return (product.astype(np.int64).reshape(*vectors.shape[:-1], -1),)

    def reordered(self, port: str, order: Permutation) -> tuple[MatMul, dict[str, Permutation]] | None:
        """Return the reordered operator: weights and whole pixels change places; dynamic weights, in both orders."""
        _, outputs, inputs = self.matrix.shape
        count = outputs if port == "o" else inputs
        pixels, channels = order.pixels(count), order.channels(np.arange(count))
        if pixels is None or channels is None or (port == "w" and order.shape != self.matrix.shape):
            return None
        height, width = self.operand.shape[:2] if port == "w" else order.shape[:2]
        whole, columns, rows = np.arange(height * width), np.arange(inputs), np.arange(outputs)
        if port == "w":
            columns, rows = channels, pixels
        elif port == "i":
            whole, columns = pixels, channels
        else:
            whole, rows = pixels, channels
        operand, weights = replace(self.operand, shape=(height, width, inputs)), self.weights
        orders = {"i": of_pixels((height, width), whole, columns), "o": of_pixels((height, width), whole, rows)}
        if self.has_dynamic_weights:
            orders["w"] = of_pixels((1, outputs), rows, columns)
        else:
            assert isinstance(weights, np.ndarray)
            weights = weights[rows][:, columns]
        tensors = {"i": self.operand, "w": self.matrix, "o": self._result}
        changed = {k: new for k, new in orders.items() if k == port or new.changes(tensors[k].shape)}
        return replace(self, operand=operand, weights=weights), changed

    @property
    def macs(self) -> int:
        return self.operand.pixels * self.matrix.size // self.groups

    def input_orders(self, folding: MatMulFolding) -> tuple[Order, ...]:
        vectors = folding.input_order(self.operand)
        return (vectors, self.weight_words(folding)) if self.has_dynamic_weights else (vectors,)

    def limits(self) -> dict[str, int]:
        return {**super().limits(), "tile": 1}

    @property
    def narrowest(self) -> MatMulFolding:
        return replace(super().narrowest, multiplier=MultiplierKind.LOGIC) if self.is_wide else super().narrowest

    @property
    def is_wide(self) -> bool:
        """Whether an operand is too wide for a hardware multiplier."""
        return max(self.operand.dtype.bits, self.weight_type.bits) > MULTIPLIER_BITS

    def illegal(self, folding: MatMulFolding) -> str:
        if self.is_wide and not folding.in_logic:
            return f'multiplier must be "logic" here: operands have more than {MULTIPLIER_BITS} bits'
        return super().illegal(folding)

    def turns(self, folding: MatMulFolding) -> tuple[int, int]:
        """Return (groups of results, beats of a vector)."""
        return folding.output_order(self._result).groups, folding.input_order(self.operand).groups

    def weight_words(self, folding: MatMulFolding) -> Order:
        """Return the order of the weights: for each tile, for each group of results, for each beat of a vector, the
        weights of every result and input.

        Results outside, inputs inside. A tile is a beat of pixels here; the order of constants is that of one
        tile, and so is that of weights that the buffer holds to the last tile.
        """
        tiles = 1 if self.held(folding) else self.tiles(folding)
        return Order(self.matrix, folding.in_lanes, min(folding.out_lanes, self.matrix.shape[1]), times=tiles)

    def tiles(self, folding: MatMulFolding) -> int:
        """Return the tiles of a frame: its beats of pixels."""
        return folding.input_order(self.operand).pixel_groups

    def held(self, folding: MatMulFolding) -> bool:
        """Return whether all weights stay until the last tile."""
        return not self.has_dynamic_weights or self.stored_groups(folding) >= self.turns(folding)[0]

    def stored_groups(self, folding: MatMulFolding) -> int:
        """Return the capacity of the buffer."""
        if self.capacity is not None:
            return self.capacity
        return self.turns(folding)[0] + 1 if self.tiles(folding) > 1 else 2

    def cycles(self, folding: MatMulFolding) -> int:
        groups, beats = self.turns(folding)
        return self.input_orders(folding)[0].pixel_groups * groups * beats

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[MatMulFolding]:
        """Yield for each number of result lanes the fewest input lanes that keep up; not wider ones of equal use."""
        kind = MultiplierKind.LOGIC if self.is_wide else multiplier_for(self.operand.dtype.bits, self.weight_type.bits)
        for pixels in pixels_beside(self.operand, interval, given, wanted):
            groups, channels = self._result.channels + 1, self._result.channels
            while groups > 1:
                lanes = -(-channels // (groups - 1))  # the fewest that make fewer groups
                groups = -(-channels // lanes)
                least = fewest_lanes(self.operand, interval // groups, pixels)
                if least is not None:
                    yield MatMulFolding(least, lanes, pixels, multiplier=kind)

    def latency(self, folding: MatMulFolding) -> int:
        """Return the latency: ten stages around the multipliers, and one for each level of the adder tree."""
        return 10 + (folding.in_lanes - 1).bit_length()

    def schedule(self, folding: MatMulFolding) -> Schedule:
        """Schedule for each tile, each group of results, each beat of the tile's vectors, each beat of a vector."""
        groups, beats = self.turns(folding)
        pixels = self.input_orders(folding)[0].pixel_groups
        first_group = LoopTurns(0, pixels, groups * beats, np.arange(beats, dtype=np.int64))
        engine = Engine(
            "matmul",
            pixels * groups * beats,
            self.latency(folding),
            pops={
                "i": AffineSequence((first_group,))
                if groups > 1 and pixels > 1
                else AffineSequence.every(pixels * beats)
            },
            pushes={"o": AffineSequence.every(pixels * groups, beats, beats - 1)},
        )
        if not self.has_dynamic_weights:
            return Schedule((engine,))
        words = self.weight_words(folding).beats
        every, last_tile = AffineSequence.every(words), engine.operations - words
        given_back = LoopTurns(last_tile + beats - 1, words // beats, beats, np.zeros(beats, dtype=np.int64))
        writer = Engine("weights", words, 0, pops={"w": every})
        capacity = self.stored_groups(folding) * beats
        buffer = SharedBuffer("weights", "matmul", capacity, every, every, AffineSequence((given_back,)), "the weights")
        return Schedule((writer, engine), (buffer,))

    def lanes(self, folding: MatMulFolding) -> int:
        return folding.in_lanes * folding.out_lanes * folding.pixels

    def demand(self, folding: MatMulFolding) -> Demand:
        return matmul_demand(self, folding)

    def demand_at_least(self, folding: MatMulFolding) -> Demand:
        return Demand() if folding.in_logic else products(self, folding)

    def core(self, folding: MatMulFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.matmul import MatMul as Circuit

        weight, result = self.weight_type, self.results()[0].dtype
        return Circuit(
            self._weights(folding),
            groups=self.turns(folding)[0],
            weight_bits=weight.bits,
            weight_signed=weight.signed,
            bits=self.operand.dtype.bits,
            signed=self.operand.dtype.signed,
            out_bits=result.bits,
            out_signed=result.signed,
            in_lanes=folding.in_lanes,
            out_lanes=folding.out_lanes,
            pixels=folding.pixels,
            in_logic=folding.in_logic,
            depth=depths["o"],
        )

    def _weights(self, folding: MatMulFolding) -> Any:
        """Return the weights' words, or the description of how they come."""
        from onnx_hw_rtl.cores.weights import Streamed

        words = self.weight_words(folding)
        if isinstance(self.weights, Tensor):
            groups, beats = self.turns(folding)
            tiles = self.tiles(folding) if self.held(folding) else 1
            return Streamed(words.width, groups * beats, self.operand.channels, self.stored_groups(folding), tiles)
        filled = folding.out_lanes * folding.in_lanes - words.width  # lanes that have no result in any word
        return np.pad(words.to_beats(self.weights[None, None]), [(0, 0), (0, filled)])

    def constant_words(self, folding: MatMulFolding) -> tuple[np.ndarray, Int] | None:
        if isinstance(self.weights, Tensor):
            return None
        return self.weight_words(folding).to_beats(self.weights[None, None]), self.weight_type

    def memories(self, folding: MatMulFolding) -> Mapping[str, RomImage]:
        if isinstance(self.weights, Tensor):
            return {}
        return weight_memories(self._weights(folding), self.weight_type, in_logic=folding.in_logic)

    def test_vectors(self, folding: MatMulFolding) -> TestVectors | None:
        return None if self.has_dynamic_weights else of_vectors(self, folding, self.constants, self.lanes(folding))

    @property
    def parameters(self) -> Mapping[str, object]:
        return {} if self.has_dynamic_weights else {"weights": self.matrix.size}

    def __repr__(self) -> str:
        _, outputs, inputs = self.matrix.shape
        return f"MatMul {inputs}→{outputs}" + (" of two tensors" if self.has_dynamic_weights else "")


# ---- demand ----------------------------------------------------------------------------------------------------------


RESULTS_PER_VECTOR_COPY = 4
"""Results that take their vector from the same copy of it."""


def matmul_demand(operator: MatMul, folding: MatMulFolding) -> Demand:
    """Return the demand of the whole core."""
    groups, beats = operator.turns(folding)
    results, latency = folding.out_lanes * folding.pixels, operator.latency(folding)
    loops = (
        *((operator.tiles(folding) if operator.held(folding) else 1,) if operator.has_dynamic_weights else ()),
        groups,
        beats,
    )
    index = counted(groups) + counted(beats)
    demand = engine(loops, conditions=int(operator.has_dynamic_weights), some_pop=groups > 1, some_push=beats > 1)
    demand += decoded((0, 1) if beats > 1 else (0,), counted(beats))
    demand += delayed(1, 3 * latency - 4) + delayed(2, 1).copied(results)
    demand += _vectors(operator, folding, index)
    lanes = folding.in_lanes * folding.out_lanes
    if operator.has_dynamic_weights:
        demand += _buffer(operator, folding)
    else:
        demand += weights(operator.weight_type.bits, lanes, groups * beats, waits=1)
    operand, weight = operator.operand.dtype, operator.weight_type
    if folding.in_logic and not operator.has_dynamic_weights and groups * beats == 1:
        demand += folding.pixels * known_products_demand(operand.bits, operator.constants)
    else:
        demand += products(operator, folding)
    if not folding.in_logic:
        taken = lanes * weight.bits if operator.has_dynamic_weights else unlike(lanes * weight.bits, groups * beats)
        fresh = folding.in_lanes * folding.pixels * operand.bits + taken
        demand += Demand.of(Shared(lanes * folding.pixels * (operand.bits + weight.bits) - fresh))
    return demand + results * _dot(operator, folding)


def products(operator: MatMul, folding: MatMulFolding) -> Demand:
    """Return the demand of products of unknown numbers."""
    one = product_demand(operator.operand.dtype, operator.weight_type, in_logic=folding.in_logic)
    return operator.lanes(folding) * one


def _vectors(operator: MatMul, folding: MatMulFolding, index: int) -> Demand:
    """Return the demand of a beat of vectors, fresh or replayed, and its copies."""
    groups, beats = operator.turns(folding)
    width = folding.in_lanes * folding.pixels * operator.operand.dtype.bits
    copies = delayed(width, 1).copied(-(-folding.out_lanes // RESULTS_PER_VECTOR_COPY))
    if groups == 1:
        return delayed(width, 4) + copies
    demand = delayed(counted(beats), 1) + memories(width, max(2, beats)) + Demand.of(LogicFunction(2))
    demand += delayed((1 + counted(beats)) * memory_parts(width, beats), 1)
    demand += decoded((0, 1), index) + delayed(1, 2) + copied(1, width)
    return demand + delayed(width, 5) + Demand.of(Multiplexer(2, width)) + copies


def _dot(operator: MatMul, folding: MatMulFolding) -> Demand:
    """Return the demand of one result: a register behind each product, an adder tree and an accumulator."""
    operand, weight, result_bits = (
        operator.operand.dtype.bits,
        operator.weight_type.bits,
        operator.results()[0].dtype.bits,
    )
    demand = delayed(folding.in_lanes * (operand + weight), 1)
    terms = [min(operand + weight, result_bits)] * folding.in_lanes
    while len(terms) > 1:
        sums = [min(max(pair) + 1, result_bits) for pair in zip(terms[::2], terms[1::2], strict=False)]
        demand += Demand(tuple((part, 1) for bits in sums for part in (Adder(bits), Register(bits))))
        rest = terms[len(terms) & ~1 :]
        demand += delayed(sum(rest), 1)
        terms = sums + rest
    return demand + accumulator(result_bits)


def _buffer(operator: MatMul, folding: MatMulFolding) -> Demand:
    """Return the demand of the buffer of dynamic weights, and of the engine that takes them."""
    groups, beats = operator.turns(folding)
    words, depth = groups * beats, operator.stored_groups(folding) * beats
    width = operator.weight_words(folding).width * operator.weight_type.bits
    tiles = operator.tiles(folding) if operator.held(folding) else 1
    address = counted(depth)
    demand = engine((beats,), conditions=1) + shared_buffer(depth + words + 1, (1, 1 - words), (0, beats))
    demand += 2 * position(depth) + delayed(2 * address, 1) + delayed(1, 1) + delayed(2 * width, 1)
    demand += 2 * decoded((0, 1) if words > 1 else (0,), counted(words))
    if beats * folding.in_lanes > operator.operand.channels:
        demand += delayed(1, 2) + Demand.of(LogicFunction(2, width // folding.in_lanes))
    if tiles > 1 and words > 1:
        demand += 2 * Demand.of(Adder(address), Multiplexer(2, address))
    step = max(1, memory_reach(depth) // operator.weight_type.bits) * operator.weight_type.bits
    for first in range(0, width, step):
        part = min(step, width - first)
        demand += delayed(1 + 2 * address, 1) + Demand.of(Memory(part, max(2, depth))) + delayed(2 * part, 1)
    return demand
