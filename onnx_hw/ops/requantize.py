"""Staircase: any monotone step function per channel; Requantize: the one of a scale and an offset, exactly.

    y = clamp(rhe(multiplier · x + offset) + zero_point, low, high)

rhe rounds half to even; multiplier and offset are rationals. The circuit is one that is proven equal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_hw.integers import Int
from onnx_hw.network import Tensor
from onnx_hw.ops.operator import Folding, Operator, Resources, same_lanes
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.quantize.lookups import Table, Thresholds
from onnx_hw.quantize.multiply_add_shift import MultiplyAddShift
from onnx_hw.quantize.requantization import Requantizer, choose, multipliers
from onnx_hw.quantize.steps import Steps, steps

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

BITS_PER_BLOCK_RAM = 18 * 1024


class Monotone(Operator):
    """A monotone step function per channel, by the cheapest circuit.

    Attributes:
        operand: the arguments.
        dtype: of the result.
    """

    operand: Tensor
    dtype: Int

    one_width = True

    @property
    @abstractmethod
    def exact(self) -> Steps:
        """The function, as thresholds, over the operand's reachable range."""

    @cached_property
    def circuit(self) -> Requantizer:
        """The arithmetic in hardware; proven equal to ``exact``."""
        return choose(self.exact)

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        return (Tensor(self.operand.shape, self.dtype, self.exact.low, self.exact.high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return (self.exact(arrays[0]),)

    def foldings(self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None) -> Iterator[Folding]:
        """The narrowest that keeps up: a lane costs multipliers."""
        yield from same_lanes(self.operand, interval)

    def cycles(self, folding: Folding) -> int:
        return self.operand.beats(folding.in_lanes)

    def latency(self) -> int:
        """Pipeline stages of the arithmetic."""
        match self.circuit:
            case MultiplyAddShift() as circuit:
                product = 1 if circuit.multiplierless else 2 + multipliers(circuit).bit_length()
                return 6 + product + (circuit.tie_bit is not None)
            case Table():
                return 5
            case Thresholds() as circuit:
                return 3 + 3 * circuit.depth

    def schedule(self, folding: Folding) -> Schedule:
        beats = np.arange(self.operand.beats(folding.in_lanes))
        return Schedule((Engine("requantize", len(beats), self.latency(), {"i": beats}, {"o": beats}),))

    def resources(self, folding: Folding) -> Resources:
        circuit, lanes = self.circuit, folding.in_lanes
        channels_per_lane = -(-self.operand.channels // lanes)
        match circuit:
            case MultiplyAddShift():
                constants = circuit.multiplier_type.bits + circuit.addend_type.bits
                deep = channels_per_lane > 32
                return Resources(
                    requantize_dsp=lanes * multipliers(circuit),
                    lut=40 + lanes * (2 * circuit.sum_type.bits + 3 * circuit.clamp.bits + 2 * (not deep) * constants),
                    bram=lanes * -(-constants // 36) if deep else 0,
                )
            case Table() | Thresholds():
                bits = circuit.bits // circuit.channels * (channels_per_lane if circuit.channels > 1 else 1)
                blocks = -(-bits // BITS_PER_BLOCK_RAM)
                # a search compares once per bit of the result
                work = 2 * circuit.depth if isinstance(circuit, Thresholds) else 6
                return Resources(lut=40 + lanes * work * circuit.clamp.bits, bram=lanes * blocks)

    def core(self, folding: Folding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl import requantize as rtl

        return rtl.Requantize(
            self._arithmetic(),
            channels=self.operand.channels,
            bits=self.operand.dtype.bits,
            signed=self.operand.dtype.signed,
            out_bits=self.dtype.bits,
            out_signed=self.dtype.signed,
            lanes=folding.in_lanes,
            depth=depths["o"],
        )

    def _arithmetic(self) -> Any:
        """The circuit's constants as the core takes them."""
        from amaranth.hdl import Shape

        from onnx_hw_rtl import requantize as rtl

        clamp = Shape(self.circuit.clamp.bits, self.circuit.clamp.signed)
        match self.circuit:
            case MultiplyAddShift() as circuit:
                return rtl.MultiplyAddShift(
                    clamp,
                    [int(m) for m in circuit.multipliers],
                    [int(c) for c in circuit.addends],
                    circuit.shift,
                    circuit.low,
                    circuit.high,
                    Shape(circuit.sum_type.bits, True),
                    circuit.tie_bit,
                    circuit.tie_parity,
                )
            case Table() as circuit:
                return rtl.Table(clamp, circuit.entries)
            case Thresholds() as circuit:
                return rtl.Thresholds(clamp, circuit.thresholds, circuit.low, circuit.high)

    def __repr__(self) -> str:
        return f"{type(self).__name__} to {self.exact.low}..{self.exact.high}"


@dataclass(frozen=True, repr=False, eq=False)
class Requantize(Monotone):
    """A scale and an offset per channel.

    Attributes:
        operand: the accumulators.
        multiplier, offset: exact rationals, one or one per channel; multipliers are not negative.
        low, high: the result is clamped to this range (after the zero point is added).
        zero_point: added after rounding.
        dtype: of the result.
    """

    operand: Tensor
    multiplier: tuple[Fraction, ...] = field(repr=False)
    offset: tuple[Fraction, ...] = field(repr=False)
    low: int
    high: int
    zero_point: int
    dtype: Int

    def __post_init__(self) -> None:
        for name, constants in (("multiplier", self.multiplier), ("offset", self.offset)):
            if len(constants) not in (1, self.operand.channels):
                raise ValueError(f"{name} must have 1 or {self.operand.channels} entries, not {len(constants)}")
        if not self.dtype.min <= self.low <= self.high <= self.dtype.max:
            raise ValueError(f"the range {self.low}..{self.high} must lie within {self.dtype!r}")

    @cached_property
    def exact(self) -> Steps:
        """The function, as thresholds, over the operand's reachable range."""
        first, last = self.operand.range
        return steps(
            self.multiplier,
            self.offset,
            zero_point=self.zero_point,
            low=self.low,
            high=self.high,
            first=first,
            last=last,
        )


@dataclass(frozen=True, repr=False, eq=False)
class Staircase(Monotone):
    """The step function that is given.

    Attributes:
        operand: the arguments.
        function: holds for every argument in the operand's range.
        dtype: of the result.
    """

    operand: Tensor
    function: Steps
    dtype: Int

    @property
    def exact(self) -> Steps:
        return self.function

    def __post_init__(self) -> None:
        exact, (first, last) = self.function, self.operand.range
        if exact.channels not in (1, self.operand.channels):
            raise ValueError(f"the functions must be 1 or {self.operand.channels}, not {exact.channels}")
        if first < exact.first or exact.last < last:
            raise ValueError(f"the function must hold for {first}..{last}, not for {exact.first}..{exact.last}")
        if not self.dtype.min <= exact.low <= exact.high <= self.dtype.max:
            raise ValueError(f"the range {exact.low}..{exact.high} must lie within {self.dtype!r}")
