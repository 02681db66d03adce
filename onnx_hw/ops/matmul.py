"""MatMul: ``result[pixel] = weights · operand[pixel]``, integers, exact; also the arithmetic of a convolution.

The weights are constants in a memory, or a tensor that comes frame by frame: a matrix, or a stack of them. Either way
the circuit reads words, in an order that ``weight_words`` states; words that come are kept in a buffer between their
writer and the multipliers. A buffer that holds all weights of a matrix takes them once. A smaller one takes them anew
for each beat of vectors, and gives a group of results' weights back as soon as they have been used.

Each matrix of a stack meets vectors of its own, as if it came with a frame of its own: the circuit is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from onnx_hw.exact.integers import Int, narrowed
from onnx_hw.exact.matrix_product import matrix_product
from onnx_hw.ops.concat import CHANNELS, Concat
from onnx_hw.ops.cut_product import best_cut
from onnx_hw.ops.demand.blocks import MAX_GATE_TABLE_WORDS
from onnx_hw.ops.demand.matmul import matmul_demand, products_demand
from onnx_hw.ops.demand.soft_multipliers import MULTIPLIER_BITS, multiplier_for, product_latency
from onnx_hw.ops.driven_images import vectors_of_images
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.ops.operator import Component, Operator, pixels_beside
from onnx_hw.ops.permutation import Permutation, of_pixels, stays_in_parts
from onnx_hw.ops.rom_contents import (
    RomImage,
    check_loaded_type,
    loaded_type,
    loaded_weight_memories,
    weight_memories,
)
from onnx_hw.ops.schedule import Schedule
from onnx_hw.ops.stream_order import Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_vectors
from onnx_hw.ops.tiles import beats_of, check_taped, group_counts, pixels_of, tiles_of, wrong_tile
from onnx_hw.ops.weight_buffer_schedule import product_engine, with_tile_buffer, with_weight_buffer
from onnx_hw_boards.demand import Demand

TAPED_GROUPS = 2
"""Groups of results whose weights are kept where they come from a tape: one is used while the next one comes."""


@dataclass(frozen=True, repr=False)
class MatMulFolding(Folding):
    """Folding of a product of matrices.

    Attributes:
        in_lanes, out_lanes: channels per beat of the vectors, of the results.
        pixels: vectors side by side; each weight that is fetched serves all of them.
        tile: beats of them that are held and done group by group of results; more than one with weights on a tape.
        multiplier: what the products are made of.
        blocks: 1 where memories are made of block RAM, however small they are; 0 where their size decides.
    """

    in_lanes: int
    out_lanes: int
    pixels: int = 1
    tile: int = 1
    multiplier: MultiplierKind = MultiplierKind.HARDWARE
    blocks: int = 0

    def input_order(self, tensor: Tensor) -> Order:
        return Order(tensor, self.in_lanes, self.pixels)

    def output_order(self, tensor: Tensor) -> Order:
        return Order(tensor, self.out_lanes, self.pixels, pixels_of(self.tile, self.pixels, tensor))


@dataclass(frozen=True, repr=False, eq=False)
class MatMul(Operator[MatMulFolding]):
    """A matrix times the vector of each pixel.

    Attributes:
        weights: (outputs, inputs), kept in the narrowest signed dtype; or a tensor [stack, outputs, inputs], whose
            column r holds the weights of result r. The rows of the operand are divided evenly among the matrices of
            the stack, in order.
        groups: of the convolution this is the arithmetic of: of the products only one in ``groups`` counts as useful.
        capacity: groups of results whose weights the buffer holds where they come; None for two of those on a tape,
            for others those of a matrix and one more, for the next matrix.
        loaded: type of the weights where others may be loaded into the circuit at run time; None for constants.
        taped: constant weights come from a tape outside the chip, on a port of their own, which is no operand.
        tile: pixels for which a weight comes once; all pixels of a frame are whole tiles.
    """

    operand: Tensor
    weights: np.ndarray | Tensor = field(repr=False)
    groups: int = 1
    capacity: int | None = None
    loaded: Int | None = None
    taped: bool = False
    tile: int = 1

    folding_type = MatMulFolding
    declared = frozenset({"loaded"})
    row_by_row = True

    def __post_init__(self) -> None:
        expected = f"{self.operand.channels}) for {self.operand!r}"
        shape = self.weights.shape
        if isinstance(self.weights, Tensor):
            if self.loaded is not None or self.taped or self.tile > 1:
                raise ValueError("weights that come on a stream are neither loaded nor on a tape")
            if shape[2] != self.operand.channels:
                raise ValueError(f"weights must be (stack, outputs, {expected}, not {shape}")
            if self.operand.shape[0] % shape[0]:
                raise ValueError(f"the rows of {self.operand!r} cannot be divided among {shape[0]} matrices")
            if self.capacity is not None and self.capacity < 1:
                raise ValueError(f"a buffer must hold the weights of at least one group, not of {self.capacity}")
            return
        if len(shape) != 2 or shape[1] != self.operand.channels:
            raise ValueError(f"weights must be (outputs, {expected}, not {shape}")
        if self.capacity is not None and not self.taped:
            raise ValueError("only weights that come are kept in a buffer, constant ones are there")
        check_taped(self)
        check_loaded_type(self.weights, self.loaded)
        object.__setattr__(self, "weights", narrowed(self.weights))

    @cached_property
    def matrix(self) -> Tensor:
        """The weights' type, [stack, outputs, inputs]."""
        if isinstance(self.weights, Tensor):
            return self.weights
        if self.loaded is not None:
            return Tensor((1, *self.weights.shape), self.loaded)
        low, high = int(self.weights.min()), int(self.weights.max())
        return Tensor((1, *self.weights.shape), Int.holding(min(low, 0), max(high, 0)), low, high)

    @property
    def stack(self) -> int:
        """Matrices per frame."""
        return self.matrix.shape[0]

    @property
    def weight_type(self) -> Int:
        return self.matrix.dtype

    @property
    def constants(self) -> np.ndarray:
        """The weights, where they are known: (outputs, inputs) int64, a copy."""
        assert isinstance(self.weights, np.ndarray)
        return self.weights.astype(np.int64)

    @property
    def has_dynamic_weights(self) -> bool:
        """Whether the weights are a tensor."""
        return isinstance(self.weights, Tensor)

    @property
    def streams_weights(self) -> bool:
        """Whether the weights come on a stream: they are a tensor, or on a tape."""
        return self.has_dynamic_weights or self.taped

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
        if isinstance(self.weights, Tensor) or self.loaded is not None:
            products = [a * b for a in (low, high) for b in self.matrix.range]
            summed = self.operand.channels // self.groups  # the weights of other groups stay 0
            least, most = (summed * bound for bound in (min(products), max(products)))
        else:
            positive, negative = np.maximum(self.weights, 0).sum(axis=1), np.minimum(self.weights, 0).sum(axis=1)
            least = int((positive * low + negative * high).min())
            most = int((positive * high + negative * low).max())
        shape = (*self.operand.shape[:2], self.matrix.shape[1])
        dtype = Int.holding(min(least, -1), max(most, 0))  # always signed: the adders are
        return Tensor(shape, dtype, least, most)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        vectors, largest = arrays[0], max(map(abs, self.operand.range))
        if isinstance(self.weights, Tensor):
            weights = arrays[1].reshape(-1, *self.weights.shape[1:])  # (frames · stack, outputs, inputs)
            bound = largest * max(map(abs, self.weights.range)) * self.operand.channels
        else:
            weights = self.weights[None]
            bound = largest * int(np.abs(self.weights, dtype=np.int64).sum(axis=1).max())
        flat = vectors.reshape(len(weights), -1, vectors.shape[-1])
        product = matrix_product(flat, weights.swapaxes(1, 2), bound)
        return (product.reshape(*vectors.shape[:-1], product.shape[-1]),)

    def reordered(self, port: str, order: Permutation) -> tuple[MatMul, dict[str, Permutation]] | None:
        """Return the reordered operator: weights and whole pixels change places; dynamic weights, in both orders.

        The matrices of a stack keep their places, and so do the vectors and the results of each of them.
        """
        stack, outputs, inputs = self.matrix.shape
        count = outputs if port == "o" else inputs
        pixels, channels = order.pixels(count), order.channels(np.arange(count))
        if pixels is None or channels is None or (port == "w" and order.shape != self.matrix.shape):
            return None
        height, width = self.operand.shape[:2] if port == "w" else order.shape[:2]
        if height % stack or not stays_in_parts(pixels, stack):
            return None
        whole, columns, rows = np.arange(height * width), np.arange(inputs), np.arange(outputs)
        if port == "w":
            columns, rows = channels, pixels[:outputs]
            if (pixels.reshape(stack, outputs) - outputs * np.arange(stack)[:, None] != rows).any():
                return None
        elif port == "i":
            whole, columns = pixels, channels
        else:
            whole, rows = pixels, channels
        operand, weights = replace(self.operand, shape=(height, width, inputs)), self.weights
        orders = {"i": of_pixels((height, width), whole, columns), "o": of_pixels((height, width), whole, rows)}
        if self.has_dynamic_weights:
            every = rows + outputs * np.arange(stack)[:, None]
            orders["w"] = of_pixels((stack, outputs), every.reshape(-1), columns)
        else:
            assert isinstance(weights, np.ndarray)
            weights = weights[rows][:, columns]
        tensors = {"i": self.operand, "w": self.matrix, "o": self._result}
        changed = {k: new for k, new in orders.items() if k == port or new.changes(tensors[k].shape)}
        return replace(self, operand=operand, weights=weights), changed

    @property
    def macs(self) -> int:
        return self.operand.pixels * self.matrix.size // (self.stack * self.groups)

    def input_orders(self, folding: MatMulFolding) -> tuple[Order, ...]:
        vectors = folding.input_order(self.operand)
        return (vectors, self.weight_words(folding)) if self.has_dynamic_weights else (vectors,)

    def limits(self) -> dict[str, int]:
        return {**super().limits(), "tile": self.tile}

    @property
    def narrowest(self) -> MatMulFolding:
        narrow = replace(super().narrowest, tile=self.tile)
        return replace(narrow, multiplier=MultiplierKind.LOGIC) if self.is_wide else narrow

    @property
    def is_wide(self) -> bool:
        """Whether an operand is too wide for a hardware multiplier."""
        return max(self.operand.dtype.bits, self.weight_type.bits) > MULTIPLIER_BITS

    def illegal(self, folding: MatMulFolding) -> str:
        if self.is_wide and not folding.in_logic:
            return f'multiplier must be "logic" here: operands have more than {MULTIPLIER_BITS} bits'
        if reason := super().illegal(folding) or wrong_tile(folding.tile, self.tile, folding.pixels, self.operand):
            return reason
        if folding.blocks not in (0, 1) or (folding.blocks and not self._fills_blocks(folding)):
            return "blocks must be 0 here, or 1 with more constant weights"
        if self.stack > 1 and self.tiles(folding) > 1 and not self.held(folding):
            return f"the buffer must hold {self.turns(folding)[0]} groups here, those of a matrix of the stack"
        return ""

    def in_blocks(self, folding: MatMulFolding, interval: int) -> Iterator[MatMulFolding]:
        if self._fills_blocks(folding):
            yield replace(folding, blocks=1)

    def _fills_blocks(self, folding: MatMulFolding) -> bool:
        """Return whether the weights are constants, of more words than one table holds."""
        return not self.streams_weights and self.loaded is None and prod(self.turns(folding)) > MAX_GATE_TABLE_WORDS

    def turns(self, folding: MatMulFolding) -> tuple[int, int]:
        """Return (groups of results, beats of a vector)."""
        return folding.output_order(self._result).groups, folding.input_order(self.operand).groups

    def weight_words(self, folding: MatMulFolding) -> Order:
        """Return the order of the weights: for each tile, for each group of results, for each beat of a vector, the
        weights of every result and input.

        Results outside, inputs inside. The order of constants is that of one tile, and so is that of weights that the
        buffer holds to the last tile. One matrix of a stack after the other.
        """
        tiles = 1 if self.held(folding) else self.tiles(folding)
        return Order(self.matrix, folding.in_lanes, min(folding.out_lanes, self.matrix.shape[1]), times=tiles)

    def tiles(self, folding: MatMulFolding) -> int:
        """Return the tiles of a matrix: the beats of pixels that it meets, or fewer where it meets several at once."""
        return folding.input_order(self.operand).pixel_groups // self.stack // folding.tile

    def held(self, folding: MatMulFolding) -> bool:
        """Return whether all weights stay until the last tile."""
        return not self.streams_weights or (folding.tile == 1 and self.stored_groups(folding) >= self.turns(folding)[0])

    def stored_groups(self, folding: MatMulFolding) -> int:
        """Return the capacity of the buffer."""
        if self.capacity is not None:
            return self.capacity
        if self.taped:
            return TAPED_GROUPS
        return self.turns(folding)[0] + 1 if self.tiles(folding) > 1 else 2

    def cycles(self, folding: MatMulFolding) -> int:
        return self.input_orders(folding)[0].pixel_groups * prod(self.turns(folding))

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[MatMulFolding]:
        """Yield for each number of result lanes the fewest input lanes that keep up; not wider ones of equal use."""
        kind = MultiplierKind.LOGIC if self.is_wide else multiplier_for(self.operand.dtype.bits, self.weight_type.bits)
        for pixels in pixels_beside(self.operand, interval, given, wanted):
            if (tile := beats_of(self.tile, pixels, self.operand)) is None:
                continue
            channels = self._result.channels
            for groups in group_counts(channels, few=tile > 1):
                lanes = -(-channels // groups)
                if (least := fewest_lanes(self.operand, interval // groups, pixels)) is not None:
                    yield MatMulFolding(least, lanes, pixels, tile, kind)

    def latency(self, folding: MatMulFolding) -> int:
        """Return the latency: six stages around the products, theirs, and one for each level of the adder tree."""
        product = product_latency(self.operand.dtype, self.weight_type, in_logic=folding.in_logic)
        return 6 + product + (folding.in_lanes - 1).bit_length()

    def schedule(self, folding: MatMulFolding) -> Schedule:
        """Schedule for each tile, each group of results, each beat of the tile's vectors, each beat of a vector."""
        groups, beats = self.turns(folding)
        tiles, tile, latency = self.tiles(folding) * self.stack, folding.tile, self.latency(folding)
        engine = product_engine(latency, tiles=tiles, groups=groups, tile=tile, beats=beats)
        if not self.streams_weights:
            return Schedule((engine,))
        words, capacity = self.weight_words(folding).beats, self.stored_groups(folding) * beats
        if tile > 1:
            return with_tile_buffer(engine, words=words, beats=beats, tile=tile, capacity=capacity)
        return with_weight_buffer(engine, words=words, beats=beats, stack=self.stack, capacity=capacity)

    def lanes(self, folding: MatMulFolding) -> int:
        return folding.in_lanes * folding.out_lanes * folding.pixels

    def demand(self, folding: MatMulFolding) -> Demand:
        return matmul_demand(self, folding)

    def demand_at_least(self, folding: MatMulFolding) -> Demand:
        return Demand() if folding.in_logic else products_demand(self, folding)

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
            tile=folding.tile,
            in_logic=folding.in_logic,
            in_block=bool(folding.blocks),
            depth=depths["o"],
        )

    def _weights(self, folding: MatMulFolding) -> Any:
        """Return the weights' words, or the description of how they come."""
        from onnx_hw_rtl.cores.weights import Streamed

        words = self.weight_words(folding)
        if self.streams_weights:
            unit, times = self.kept_words(folding)
            return Streamed(words.width, unit, self.operand.channels, self.stored_groups(folding), times)
        filled = folding.out_lanes * folding.in_lanes - words.width  # lanes that have no result in any word
        return np.pad(words.to_beats(self.constants[None, None]), [(0, 0), (0, filled)])

    def kept_words(self, folding: MatMulFolding) -> tuple[int, int]:
        """Return the words that the buffer's reader reads before it goes on to others, and how often."""
        (groups, beats), held = self.turns(folding), self.held(folding)
        return (beats, folding.tile) if folding.tile > 1 else (groups * beats, self.tiles(folding) if held else 1)

    def taped_words(self, folding: MatMulFolding) -> tuple[Order, int] | None:
        return (self.weight_words(folding), self.turns(folding)[1]) if self.taped else None

    def on_tape(self, tile: int = 1) -> MatMul | None:
        fixed = not self.streams_weights and self.loaded is None
        return replace(self, taped=True, tile=tile) if fixed and tile in tiles_of(self.operand) else None

    def tape_tiles(self) -> tuple[int, ...]:
        return tiles_of(self.operand) if self.on_tape() else ()

    def taped_constants(self) -> np.ndarray:
        return self.constants[None]

    def constant_words(self, folding: MatMulFolding) -> tuple[np.ndarray, Int] | None:
        if self.streams_weights:
            return None
        return self.weight_words(folding).to_beats(self.constants[None, None]), self.weight_type

    def memories(self, folding: MatMulFolding) -> Mapping[str, RomImage]:
        if self.streams_weights:
            return {}
        words = self._weights(folding)
        if self.loaded is not None:
            return loaded_weight_memories(words, self.loaded)
        return weight_memories(words, self.weight_type, in_logic=folding.in_logic)

    @property
    def has_loaded_constants(self) -> bool:
        return self.loaded is not None

    def loadable(self) -> MatMul | None:
        """Return the operator whose weights can be loaded at run time; None for weights that come on a stream."""
        if isinstance(self.weights, Tensor) or self.taped:
            return None
        return replace(self, loaded=loaded_type(self.weights))

    def best_cut(self, interval: int) -> tuple[int, int] | None:
        if self.has_dynamic_weights or self.groups > 1:
            return None
        return best_cut(self.operand.channels, self._result, interval)

    def cut(self, first: int) -> tuple[Operator[Any], Operator[Any], Operator[Any]] | None:
        """Return the parts; None where zeros of groups would lie unevenly, or the joined type would be another."""
        if self.has_dynamic_weights or self.groups > 1 or not 0 < first < self._result.channels:
            return None
        one, other = (replace(self, weights=part) for part in np.split(self.constants, [first]))
        joined = Concat((*one.results(), *other.results()), CHANNELS)
        return (one, other, joined) if joined.results() == self.results() else None

    def test_vectors(self, folding: MatMulFolding) -> TestVectors | None:
        if self.has_dynamic_weights:
            return vectors_of_images(self, self.lanes(folding))
        return of_vectors(self, folding, self.constants, self.lanes(folding))

    @property
    def parameters(self) -> Mapping[str, object]:
        return {} if self.has_dynamic_weights else {"weights": self.matrix.size}

    def __repr__(self) -> str:
        _, outputs, inputs = self.matrix.shape
        stacked = f", {self.stack} matrices" if self.stack > 1 else ""
        return f"MatMul {inputs}→{outputs}" + (
            f" of two tensors{stacked}" if self.has_dynamic_weights else " on a tape" if self.taped else ""
        )
