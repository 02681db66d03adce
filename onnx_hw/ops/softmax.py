"""Softmax: over the channels of every pixel, by a table of exponentials and an exact division.

result = clamp(rhe(E / (ΣE · step)) + zero point)        E = exponentials[greatest − x]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from onnx_hw.exact.division import scaled_quotient
from onnx_hw.exact.grid import Grid
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import accumulator, added, delayed, engine, loaded_memory, maximum, position, rom
from onnx_hw.ops.demand.division import divider_demand, pixel_ring_demand
from onnx_hw.ops.demand.soft_multipliers import known_products_demand
from onnx_hw.ops.dividing_operator import DividingOperator, StepFolding
from onnx_hw.ops.driven_images import SEED, vectors_of_pixels
from onnx_hw.ops.operator import Component, even_lanes
from onnx_hw.ops.rom_contents import RomImage
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors
from onnx_hw.ops.token_buffer import pixel_buffer
from onnx_hw_boards.demand import Comparator, Demand, LogicFunction, Multiplexer, Register

MAX_BITS_IN_LOGIC = 4608
"""Bits of a table up to which it is made of look-up tables."""

TELLING, TRIED_ELEMENTS = 32, 1 << 17
"""Pixels, of each kind, in which a sum that is one off is seen, and elements that are drawn to get them."""


@dataclass(frozen=True, repr=False)
class SoftmaxFolding(StepFolding):
    """Folding of a Softmax core.

    Attributes:
        lanes: channels per beat.
    """

    lanes: int
    steps: int = 1


@dataclass(frozen=True, repr=False, eq=False)
class Softmax(DividingOperator[SoftmaxFolding]):
    """Exponentials of the channels of a pixel, divided by their sum.

    Attributes:
        exponentials: (last − first + 1,) int64, for a range first..last of the operand: that of each distance from the
            greatest channel; positive for distance 0, never rising.
        grid: grid of the result: one step, an integer zero point, half to even.
        loaded: whether other exponentials, of which the first is the same, may be loaded at run time.
    """

    operand: Tensor
    exponentials: np.ndarray = field(repr=False)
    grid: Grid
    loaded: bool = False

    folding_type = SoftmaxFolding
    declared = frozenset({"loaded"})

    def __post_init__(self) -> None:
        first, last = self.operand.range
        if self.exponentials.shape != (last - first + 1,):
            raise ValueError(f"there must be {last - first + 1} exponentials, not {self.exponentials.shape}")
        if self.exponentials[0] < 1 or self.exponentials.min() < 0 or (np.diff(self.exponentials) > 0).any():
            raise ValueError("exponentials must begin with 1 or more, never rise and not be negative")
        self.require_grid()

    @property
    def has_loaded_constants(self) -> bool:
        return self.loaded

    def loadable(self) -> Softmax:
        """Return the operator whose exponentials can be loaded at run time."""
        return replace(self, loaded=True)

    def tables_over(self, low: int, high: int) -> dict[str, np.ndarray]:
        """Return the exponentials for a wider range of the operand; that of a distance that never occurs is 0."""
        more = high - low + 1 - len(self.exponentials)
        return {"exponentials": np.pad(self.exponentials, (0, max(0, more)))}

    @property
    def factor(self) -> Fraction:
        """Number by which a share is multiplied, so that the result is an integer: the inverse of the step."""
        return 1 / self.grid.step[0]

    def results(self) -> tuple[Tensor, ...]:
        most = int(scaled_quotient(np.array(1), np.array(1), self.factor)) + self.zero_point
        low, high = (min(max(bound, self.grid.low), self.grid.high) for bound in (self.zero_point, most))
        return (Tensor(self.operand.shape, self.grid.dtype, low, high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = arrays
        powers = self.exponentials[x.max(axis=3, keepdims=True) - x]
        return (self._shares(powers, powers.sum(axis=3, keepdims=True)),)

    def _shares(self, powers: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return the integers of the results, int64, from exponentials and their sums."""
        shares = scaled_quotient(powers, total, self.factor) + self.zero_point
        return np.clip(shares, self.grid.low, self.grid.high).astype(np.int64)

    @cached_property
    def quotient_bits(self) -> int:
        """Bits of the quotients that are told apart; greater ones saturate."""
        return max(1, (self.results()[0].range[1] - self.zero_point).bit_length())

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[SoftmaxFolding]:
        """Yield the narrowest foldings, with a divider in steps where a beat has the time."""
        yield from self.in_steps(map(SoftmaxFolding, even_lanes(self.operand, interval, given, wanted)), interval)

    def latency(self, folding: SoftmaxFolding) -> int:
        """Return the cycles from the last step of a beat to its results.

        They are those from an element to the greatest one (3 and a tree over the lanes), to its exponential (3) and to
        the sum (2 and a tree), which an element waits for in the pipeline; then the division and the clamp.
        """
        trees = 2 * (folding.lanes - 1).bit_length()
        return 3 + 3 + 2 + trees + self.division_latency(folding) + 1

    def schedule(self, folding: SoftmaxFolding) -> Schedule:
        (order,), steps = self.input_orders(folding), folding.steps
        beats, pixels, per_pixel = order.beats, self.operand.pixels, order.groups
        pushes = {"o": AffineSequence.every(beats, steps, steps - 1)}
        return Schedule(
            (
                Engine("writer", beats, 0, {"i": AffineSequence.every(beats)}),
                Engine("sum", beats, 0),
                Engine("reader", beats * steps, self.latency(folding), {}, pushes),
            ),
            (
                pixel_buffer("writer", "sum", pixels=pixels, beats=per_pixel, name="the buffer of elements"),
                pixel_buffer(
                    "sum", "reader", pixels=pixels, beats=per_pixel, steps=steps, name="the buffer of exponentials"
                ),
            ),
        )

    @cached_property
    def _bits(self) -> tuple[int, int, int]:
        """Bits of an exponential, of the numerator and of the denominator of a quotient."""
        greatest, (up, down) = int(self.exponentials[0]), self.factor.as_integer_ratio()
        return (
            greatest.bit_length(),
            (greatest * up).bit_length(),
            (greatest * self.operand.channels * down).bit_length(),
        )

    def demand(self, folding: SoftmaxFolding) -> Demand:
        lanes, steps, (order,) = folding.lanes, folding.steps, self.input_orders(folding)
        bits, (power, numerator, denominator) = self.operand.dtype.bits, self._bits
        beats, levels, several = order.groups, (lanes - 1).bit_length(), order.groups > 1
        total, distance = (int(self.exponentials[0]) * self.operand.channels).bit_length(), len(self.exponentials) - 1
        demand = engine((beats,), conditions=1) + engine((beats,), inputs=0, outputs=0, conditions=2)
        demand += engine((beats, steps), inputs=0, conditions=1, some_push=steps > 1)
        demand += delayed(1, 2 * self.latency(folding)) + 3 * position(2)
        demand += pixel_ring_demand(lanes * bits, beats, 1, max(1, levels) - 1)
        demand += pixel_ring_demand(lanes * power, beats, steps, max(0, levels - 1))
        # the greatest element, in a tree, of the pixel so far, and of two pixels
        demand += delayed(lanes * bits, 1) + (lanes - 1) * maximum(bits) + delayed(bits, 2)
        demand += (maximum(bits) + Demand.of(LogicFunction(3, bits))) if several else delayed(bits, 1)
        demand += Demand.of(Multiplexer(2, bits), Register(bits))
        # the exponentials, their sum, and the sums of two pixels
        demand += lanes * added(distance.bit_length()) + lanes * self._table_demand(power)
        demand += sum((added(power + level) * (lanes >> level) for level in range(1, levels + 1)), Demand())
        demand += (accumulator(total) if several else delayed(total, 1)) + delayed(total, 2)
        demand += Demand.of(Multiplexer(2, total), Register(total))
        if self.multiplies:
            up, down = (np.array([part]) for part in self.factor.as_integer_ratio())
            demand += lanes * known_products_demand(power, up) + known_products_demand(total, down)
        saturates = self.factor > 1 << self.quotient_bits
        demand += divider_demand(lanes, numerator, denominator, self.quotient_bits, steps, saturates=saturates)
        result = self.quotient_bits + 1
        return demand + lanes * Demand.of(Comparator(result, 0), Multiplexer(2, result), Register(result))

    def _table_demand(self, power: int) -> Demand:
        """Return the demand of a table of exponentials of some bits."""
        words = len(self.exponentials)
        return loaded_memory(power, words) if self.loaded else rom(power, words, self._in_logic)

    @property
    def _in_logic(self) -> bool:
        """Whether the table is made of look-up tables."""
        return self._bits[0] * len(self.exponentials) <= MAX_BITS_IN_LOGIC

    def core(self, folding: SoftmaxFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.softmax import Softmax as Circuit

        return Circuit(
            self.exponentials.tolist(),
            channels=self.operand.channels,
            **self.stream_shapes(folding),
            factor=self.factor.as_integer_ratio(),
            quotient_bits=self.quotient_bits,
            zero_point=self.zero_point,
            bounds=(self.grid.low, self.grid.high),
            steps=folding.steps,
            in_logic=self._in_logic,
            depth=depths["o"],
        )

    def memories(self, folding: SoftmaxFolding) -> Mapping[str, RomImage]:
        words = self.exponentials.reshape(-1, 1)
        image = RomImage(words, self._bits[0], False, "exponential", loaded=self.loaded)
        return {f"exponential{lane}": image for lane in range(folding.lanes)}

    def test_vectors(self, folding: SoftmaxFolding) -> TestVectors:
        return vectors_of_pixels(self, folding, self._telling_pixels())

    def _telling_pixels(self) -> np.ndarray:
        """Return drawn pixels, (pixels, channels), of which a result changes where the sum is one more, or one less."""
        (low, high), channels = self.operand.range, self.operand.channels
        generator = np.random.Generator(np.random.PCG64(SEED))
        count = max(1, TRIED_ELEMENTS // channels)
        spread = generator.integers(1, high - low + 2, (count, 1))  # of close numbers, many exponentials count
        pixels = high - generator.integers(0, 1 << 32, (count, channels)) % spread
        powers = self.exponentials[pixels.max(axis=1, keepdims=True) - pixels]
        total = powers.sum(axis=1, keepdims=True)
        right = self._shares(powers, total)
        others = (self._shares(powers, np.maximum(total + off, 1)) for off in (1, -1))
        return pixels[np.concatenate([np.flatnonzero((other != right).any(axis=1))[:TELLING] for other in others])]

    def __repr__(self) -> str:
        return f"Softmax to {self.grid.low}..{self.grid.high}"
