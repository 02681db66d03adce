"""ArgMax: which channel of a pixel holds the greatest element, or the least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import counted, decoded, delayed, engine
from onnx_hw.ops.driven_images import vectors_of_pixels
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Component, Operator, even_lanes
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors
from onnx_hw_boards.demand import Adder, Comparator, Demand, LogicFunction, Multiplexer, Register


@dataclass(frozen=True, repr=False)
class ArgMaxFolding(Folding):
    """Folding of an ArgMax core: integers per beat of the image; the result has one channel."""

    in_lanes: int


@dataclass(frozen=True, repr=False)
class ArgMax(Operator[ArgMaxFolding]):
    """Index of the extreme channel of every pixel; the result has one channel.

    Attributes:
        largest: whether the greatest element is looked for, or the least one.
        last: whether of equal ones the last counts, or the first.
    """

    operand: Tensor
    largest: bool = True
    last: bool = False

    folding_type = ArgMaxFolding
    row_by_row = True

    def results(self) -> tuple[Tensor, ...]:
        most = self.operand.channels - 1
        return (Tensor((*self.operand.shape[:2], 1), Int.holding(0, most), 0, most),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Find the index. numpy finds the first one of equal elements; the last one is the first from behind."""
        (image,) = arrays
        find = np.argmax if self.largest else np.argmin
        if self.last:
            return (self.operand.channels - 1 - find(image[..., ::-1], axis=3, keepdims=True),)
        return (find(image, axis=3, keepdims=True),)

    def cycles(self, folding: ArgMaxFolding) -> int:
        return self.input_orders(folding)[0].beats

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[ArgMaxFolding]:
        yield from map(ArgMaxFolding, even_lanes(self.operand, interval, given))

    def latency(self, folding: ArgMaxFolding) -> int:
        """Return the levels of the tree over a beat, the best of the pixel, its index."""
        return (folding.in_lanes - 1).bit_length() + 2

    def schedule(self, folding: ArgMaxFolding) -> Schedule:
        pixels, chunks = self.operand.pixels, self.input_orders(folding)[0].groups
        operations = pixels * chunks
        pushes = {"o": AffineSequence.every(pixels, chunks, chunks - 1)}
        pops = {"i": AffineSequence.every(operations)}
        return Schedule((Engine("argmax", operations, self.latency(folding), pops, pushes),))

    def demand(self, folding: ArgMaxFolding) -> Demand:
        lanes, chunks, bits = folding.in_lanes, self.input_orders(folding)[0].groups, self.operand.dtype.bits
        index, levels = self.results()[0].dtype.bits, (folding.in_lanes - 1).bit_length()
        several = chunks > 1
        demand = engine((chunks,), some_push=several) + delayed(1, self.latency(folding) + levels)
        if several:
            demand += 2 * decoded((0, 1), counted(chunks))
            demand += Demand.of(Adder(index), Register(index)) + delayed(index + 1, levels)
            demand += Demand.of(Comparator(bits), Register(index))
        left, level = lanes, 0
        while left > 1:
            pairs = left // 2
            demand += pairs * Demand.of(Comparator(bits), Multiplexer(2, bits), Register(bits))
            demand += pairs * Demand.of(Multiplexer(2, level), Register(level + 1))
            demand += delayed((bits + level) * (left % 2), 1)
            left, level = left - pairs, level + 1
        if self.operand.channels % lanes:
            demand += delayed(1, max(0, levels - 1)) + Demand.of(LogicFunction(2, levels))
        return demand + Demand.of(Register(bits + levels), Adder(index), Register(index))

    def core(self, folding: ArgMaxFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.argmax import ArgMax as Circuit

        return Circuit(
            channels=self.operand.channels,
            **self.stream_shapes(folding),
            largest=self.largest,
            last=self.last,
            depth=depths["o"],
        )

    def test_vectors(self, folding: ArgMaxFolding) -> TestVectors:
        return vectors_of_pixels(self, folding)

    def __repr__(self) -> str:
        return f"Arg{'Max' if self.largest else 'Min'}{' last' if self.last else ''}"
