"""Normalize: the channels of every pixel, divided by the root of the sum of their squares, less their mean or not.

    S = Σx        Q = Σx²        d = 2^finer · (weight · x − S)        W = 4^finer · (weight · Q − S²) + epsilon
    r = rhe(2^f / √W)            u = rhe(d · 2^POINT_BITS / 2^h)       result = rhe(u · r / 2^shift)

Data that is not centered has no S. f and h follow from W (``exact/inverse_root.py``). The result stands for d / √W,
with ``fraction_bits`` behind the point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np

from onnx_hw.exact.division import rounded_quotient
from onnx_hw.exact.integers import Int
from onnx_hw.exact.inverse_root import half_bits, inverse_roots
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import accumulator, added, delayed, engine, loaded_number, position, shared_buffer
from onnx_hw.ops.demand.division import pixel_ring_demand
from onnx_hw.ops.demand.soft_multipliers import known_products_demand
from onnx_hw.ops.demand.wide_product import WIDEST_FACTOR, wide_product_demand, wide_product_latency
from onnx_hw.ops.driven_images import vectors_of_pixels
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.ops.operator import Component, Operator, even_lanes
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Multiplexer, Register

POINT_BITS = 18
"""Bits behind the point of a distance from the mean, as a share of a power of two near the root of W."""

MULTIPLE_LATENCY = 3
"""Cycles of a multiple of an element, where the weight is no power of two."""

GREATER_EPSILON_BITS = 3
"""Bits by which a loaded epsilon may be greater than the first one."""

ROOT_SLACK = 5
"""Beats that the buffer of elements holds more than a root takes cycles."""


@dataclass(frozen=True, repr=False)
class NormalizeFolding(Folding):
    """Folding of a core that normalizes.

    Attributes:
        lanes: channels per beat.
        multiplier: kind of all products of data.
    """

    lanes: int
    multiplier: MultiplierKind = MultiplierKind.HARDWARE


@dataclass(frozen=True, repr=False)
class Normalize(Operator[NormalizeFolding]):
    """Normalization over the channels of a pixel.

    Attributes:
        centered: whether the mean is subtracted; ``weight`` must be the number of channels then.
        weight: factor of an element and of the sum of squares: the number of channels, or 1 for a norm.
        epsilon: what is added to W, an integer.
        finer: bits by which W is finer than the squares, so that a small epsilon is not lost.
        mantissa_bits: bits of r.
        fraction_bits: bits behind the point of the result.
        epsilon_bits: bits of an epsilon that may be loaded at run time; 0 for a constant.
    """

    operand: Tensor
    centered: bool
    weight: int
    epsilon: int = 0
    finer: int = 0
    mantissa_bits: int = 16
    fraction_bits: int = 18
    epsilon_bits: int = 0

    folding_type = NormalizeFolding
    declared = frozenset({"epsilon_bits"})
    row_by_row = True

    def __post_init__(self) -> None:
        if self.centered and self.weight != self.operand.channels:
            raise ValueError(f"the weight of centered data must be {self.operand.channels}, not {self.weight}")
        if self.weight < 1 or min(self.epsilon, self.finer) < 0:
            raise ValueError(
                f"weight must be 1 or more, epsilon and finer 0 or more, not {self.weight}, {self.epsilon} and "
                f"{self.finer}"
            )
        if self.epsilon_bits and self.epsilon >> self.epsilon_bits:
            raise ValueError(f"a loaded epsilon must have at most {self.epsilon_bits} bits, not {self.epsilon}")
        if not 4 <= self.mantissa_bits <= 20 or not 1 <= self.fraction_bits <= POINT_BITS:
            raise ValueError(
                f"there must be 4..20 bits of a root and 1..{POINT_BITS} behind the point, not {self.mantissa_bits} "
                f"and {self.fraction_bits}"
            )
        if max(self.sum_type.bits, self.operand.dtype.bits, self.point_type.bits) > WIDEST_FACTOR:
            raise ValueError(f"sums of {self.operand} must have at most {WIDEST_FACTOR} bits, not {self.sum_type.bits}")

    # ---- ranges ---------------------------------------------------------------------------------------------------

    @property
    def largest(self) -> int:
        """The greatest absolute value of an element."""
        return max(map(abs, self.operand.range))

    @property
    def sum_type(self) -> Int:
        """Type of the sum of a pixel."""
        low, high = self.operand.range
        return Int.holding(min(0, self.operand.channels * low), max(0, self.operand.channels * high))

    @property
    def greatest_epsilon(self) -> int:
        """The greatest epsilon of a circuit."""
        return (1 << self.epsilon_bits) - 1 if self.epsilon_bits else self.epsilon

    @property
    def loaded_numbers(self) -> Mapping[str, tuple[int, Int]]:
        return {"epsilon": (self.epsilon, Int(self.epsilon_bits, False))} if self.epsilon_bits else {}

    @property
    def loaded_fields(self) -> frozenset[str]:
        return frozenset(self.loaded_numbers)

    def loadable(self) -> Normalize:
        """Return the operator whose epsilon can be loaded at run time, where it has one."""
        return replace(self, epsilon_bits=self.epsilon.bit_length() + GREATER_EPSILON_BITS if self.epsilon else 0)

    @property
    def greatest_square(self) -> int:
        """A bound of W."""
        return max(1, (self.weight * self.operand.channels * self.largest**2 << 2 * self.finer) + self.greatest_epsilon)

    @property
    def half_bits(self) -> int:
        """The greatest h, at least 2."""
        return max(2, half_bits(self.greatest_square))

    def bound(self, fraction_bits: int) -> int:
        """Return a bound of |d| / √W with bits behind the point."""
        squares = self.operand.channels - 1 if self.centered else self.weight
        return isqrt(squares << 2 * fraction_bits) + 1

    @property
    def point_type(self) -> Int:
        """Type of u."""
        most = self.bound(POINT_BITS) + 1
        return Int.holding(-most, most)

    @property
    def shift(self) -> int:
        """Bits by which u · r is shifted."""
        return POINT_BITS + self.mantissa_bits - 1 - self.fraction_bits

    def results(self) -> tuple[Tensor, ...]:
        """Return the type of the result; u and r are off by half a unit, and r less than by 2^(1 − mantissa_bits)."""
        most = self.bound(self.fraction_bits)
        most += (most >> self.mantissa_bits - 1) + 3
        return (Tensor(self.operand.shape, Int.holding(-most, most), -most, most),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = arrays
        kind = np.int64 if self.greatest_square < 1 << 62 else object
        wide = x.astype(kind)
        squares = self.weight * (wide * wide).sum(axis=3, keepdims=True)
        distance = self.weight * x
        if self.centered:
            total = wide.sum(axis=3, keepdims=True)
            squares, distance = squares - total * total, distance - total.astype(np.int64)
        root, half = inverse_roots(squares * 4**self.finer + self.epsilon, self.mantissa_bits)
        point = rounded_quotient(distance << POINT_BITS + self.finer, np.int64(1) << half)
        return (rounded_quotient(point * root, np.array(1 << self.shift)),)

    # ---- foldings -------------------------------------------------------------------------------------------------

    @property
    def root_steps(self) -> int:
        """Operations that find a root: one for each bit, one for the rounding, one since r may be a power of two."""
        return self.mantissa_bits + 2

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[NormalizeFolding]:
        if self.operand.pixels * self.root_steps <= interval:
            yield from map(NormalizeFolding, even_lanes(self.operand, interval, given, wanted))

    def cycles(self, folding: NormalizeFolding) -> int:
        return max(self.input_orders(folding)[0].beats, self.operand.pixels * self.root_steps)

    def sums_latency(self, folding: NormalizeFolding) -> int:
        """Return the cycles from an element to the sums of its pixel: a square, a tree, the sum, one of two pixels."""
        return (
            1
            + wide_product_latency(self.operand.dtype.bits, self.operand.dtype.bits)
            + (folding.lanes - 1).bit_length()
            + 2
        )

    def root_latency(self, folding: NormalizeFolding) -> int:
        """Return the cycles from a step of the root's engine to that step: the sums, W, its leading zeros."""
        square = wide_product_latency(self.sum_type.bits, self.sum_type.bits) if self.centered else MULTIPLE_LATENCY
        return self.sums_latency(folding) + square + 1 + (self.half_bits - 1).bit_length()

    def latency(self, folding: NormalizeFolding) -> int:
        """Return the cycles from an operation to its results: the root, d, u, the product, its rounding."""
        multiple = MULTIPLE_LATENCY if self.weight & self.weight - 1 else 0
        product = wide_product_latency(self.point_type.bits, self.mantissa_bits + 1)
        return self.root_latency(folding) + 3 + multiple + 1 + (self.half_bits - 1).bit_length() + 1 + product + 1

    def schedule(self, folding: NormalizeFolding) -> Schedule:
        (order,), steps, pixels = self.input_orders(folding), self.root_steps, self.operand.pixels
        beats, chunks = order.beats, order.groups
        all_at_last = np.append(np.zeros(chunks - 1, dtype=np.int64), steps)
        elements = SharedBuffer.of_turns(
            chunks + min(2 * chunks, self.mantissa_bits + ROOT_SLACK),
            pixels,
            np.full(chunks, chunks - 1),
            np.arange(1, chunks + 1),
        )
        sums_at_last = np.append(np.zeros(steps - 1, dtype=np.int64), chunks)
        sums = SharedBuffer.of_turns(2 * chunks, pixels, np.full(steps, chunks - 1), sums_at_last)
        roots = SharedBuffer.of_turns(2 * steps, pixels, np.full(chunks, steps - 1), all_at_last)
        numbers = AffineSequence.every(beats)
        return Schedule(
            (
                Engine("writer", beats, 0, {"i": numbers}),
                Engine("root", pixels * steps, 0),
                Engine("reader", beats, self.latency(folding), {}, {"o": numbers}),
            ),
            (
                replace(elements, name="the buffer of elements"),
                replace(sums, reader="root", name="the sums"),
                replace(roots, writer="root", name="the roots"),
            ),
        )

    def demand(self, folding: NormalizeFolding) -> Demand:
        lanes, (order,), steps = folding.lanes, self.input_orders(folding), self.root_steps
        bits, chunks, levels = self.operand.dtype.bits, order.groups, (folding.lanes - 1).bit_length()
        half, total = self.half_bits, self.sum_type.bits
        squares = (self.operand.channels * self.largest**2).bit_length()
        root, scales = self.mantissa_bits + 1, (half - 1).bit_length()
        (result,) = self.results()
        demand = engine((chunks,), conditions=2) + engine((steps,), inputs=0, outputs=0, conditions=2)
        demand += engine((chunks,), inputs=0, conditions=2) + shared_buffer(5 * chunks, (0, chunks), (0, chunks))
        demand += shared_buffer(5 * steps, (0, steps), (0, steps)) + 4 * position(2)
        places = self.schedule(folding).buffers[0].capacity + self.root_latency(folding) - 1
        demand += pixel_ring_demand(lanes * bits, chunks, 1, 0, places) + delayed(lanes * bits, 1)
        demand += delayed(1, self.latency(folding) + self.root_latency(folding) + 2 * self.sums_latency(folding))
        # squares, and both sums, of two pixels
        demand += lanes * _product(bits, bits, folding)
        for width, centered in ((2 * bits, True), (bits, self.centered)):
            for level in range(1, levels + 1) if centered else ():
                demand += (lanes >> level) * added(width + level)
        demand += accumulator(squares) + delayed(2 * squares, 1) + Demand.of(Multiplexer(2, squares), Register(squares))
        if self.centered:
            demand += (
                delayed(lanes * bits, wide_product_latency(bits, bits)) + accumulator(total) + delayed(4 * total, 1)
            )
            demand += 2 * Demand.of(Multiplexer(2, total), Register(total)) + _product(total, total, folding)
            demand += added(2 * half)
        # W, its leading zeros, its root
        demand += known_products_demand(squares, np.array([self.weight])) + added(2 * half)
        demand += loaded_number(self.epsilon_bits) if self.epsilon_bits else Demand()
        demand += scales * Demand.of(Multiplexer(2, 2 * half), Register(2 * half + scales), LogicFunction(8, 2))
        remainder = 2 * half + self.mantissa_bits + 2
        demand += Demand.of(Adder(2 * half + root), Adder(remainder + 2), Multiplexer(2, remainder))
        demand += Demand.of(Adder(2 * half + root, gated=True), Register(2 * remainder + 2 * root))
        demand += added(root) + delayed(2 * (root + scales), 1) + Demand.of(Multiplexer(2, root + scales))
        demand += delayed(root + scales, 4 + scales + wide_product_latency(self.point_type.bits, root))
        # distances from the mean, as shares, times the root
        distance, point = half + self.bound(0).bit_length() + 1, self.point_type.bits
        lane = known_products_demand(bits, np.array([self.weight])) + added(distance)
        lane += scales * Demand.of(Multiplexer(2, distance), Register(distance))
        lane += (added(point) if half > POINT_BITS else delayed(point, 1)) + _product(point, root, folding)
        return demand + lanes * (lane + added(result.dtype.bits))

    def core(self, folding: NormalizeFolding, depths: Mapping[str, int]) -> Component:
        from amaranth.hdl import Shape

        from onnx_hw_rtl.cores.normalize import Normalize as Circuit

        return Circuit(
            channels=self.operand.channels,
            **self.stream_shapes(folding),
            centered=self.centered,
            weight=self.weight,
            epsilon=self.epsilon,
            epsilon_bits=self.epsilon_bits,
            finer=self.finer,
            sums=(Shape(self.sum_type.bits, self.sum_type.signed), self.operand.channels * self.largest**2),
            half_bits=self.half_bits,
            mantissa_bits=self.mantissa_bits,
            points=(self.bound(0), POINT_BITS, self.point_type.bits),
            shift=self.shift,
            capacity=self.schedule(folding).buffers[0].capacity,
            in_logic=folding.in_logic,
            depth=depths["o"],
        )

    def test_vectors(self, folding: NormalizeFolding) -> TestVectors:
        return vectors_of_pixels(self, folding)

    def __repr__(self) -> str:
        return f"Normalize {'with' if self.centered else 'without'} mean"


def _product(a_bits: int, b_bits: int, folding: NormalizeFolding) -> Demand:
    """Return the demand of a product of signed integers."""
    return wide_product_demand(Int(a_bits), Int(b_bits), a_bits + b_bits, in_logic=folding.in_logic)
