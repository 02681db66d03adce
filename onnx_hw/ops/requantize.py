"""Staircase: any monotone step function per channel; Requantize: the one of real numbers onto a grid, exactly.

    y = grid.integer(slope · x + offset)

Slope and offset are rationals. The circuit is one that is proven equal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Self

import numpy as np

from onnx_hw.exact.digit_table import DigitTable
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import (
    LaneCost,
    LoadableForm,
    Requantizer,
    choose,
    costs,
    digit_tables,
    in_form,
    loadable_form,
    proven_line,
    quick_table,
    weight_in_luts,
)
from onnx_hw.exact.rounding_shift import LoadableBounds, steps_of_shift
from onnx_hw.exact.step_function import Steps, steps
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.requantize import requantize_demand
from onnx_hw.ops.operator import Component, Operator, even_cuts, narrow_cuts, uneven_tiles
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.requantizer_circuit import (
    RequantizeFolding,
    circuit_arithmetic,
    latency_of,
    loaded_numbers,
    of_few_stages,
)
from onnx_hw.ops.rom_contents import RomImage, requantizer_memories
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order, channel_words, channels_of
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_steps
from onnx_hw_boards.demand import Demand

__all__ = ["Monotone", "NotInForm", "Requantize", "RequantizeFolding", "Staircase"]


class NotInForm(ValueError):
    """Error: the constants of a function cannot be loaded into the circuit of its form."""


class Monotone(Operator[RequantizeFolding]):
    """A monotone step function of the ``operand`` per channel, by the cheapest circuit."""

    operand: Tensor
    form: LoadableForm | None
    bounded: bool = False
    folding_type = RequantizeFolding
    declared = frozenset({"form", "bounded"})
    row_by_row = True

    @property
    @abstractmethod
    def result_type(self) -> Int:
        """Type of the integers that come out."""

    @property
    @abstractmethod
    def result_range(self) -> tuple[int, int]:
        """The least and the greatest value of the function, known without its thresholds."""

    @property
    @abstractmethod
    def exact(self) -> Steps:
        """The function, as thresholds, over the operand's reachable range."""

    @property
    @abstractmethod
    def kinds(self) -> np.ndarray:
        """(1 or channels,) int: the same number for channels with the same function."""

    @abstractmethod
    def of_channels(self, operand: Tensor, channels: np.ndarray) -> Self:
        """Return the requantizer with the functions of these channels, in this order."""

    @abstractmethod
    def with_channels(self) -> Self:
        """Return the requantizer with constants for every channel, where all channels have the same ones."""

    @property
    def _slopes(self) -> list[Fraction]:
        """Slopes of the function in steps of the result, where they are known."""
        return []

    def loadable(self) -> Self | None:
        return self._in_form(())

    def loadable_behind_sums(self) -> Self | None:
        return (whole := self.with_channels())._in_form(whole._slopes)

    def _in_form(self, slopes: Sequence[Fraction]) -> Self | None:
        """Return the requantizer with constants that are loaded; None where no form holds them, or it has one."""
        if self.form is not None:
            return None
        form = loadable_form(self.exact, self.operand.dtype, self.result_type, slopes, bounded=self.bounded)
        return None if form is None else replace(self, form=form)  # type: ignore[type-var]

    def loadable_like(self, built: Monotone) -> Self:
        if built.form is None:
            return self
        several = built.form.channels > self.exact.channels
        return replace(self.with_channels() if several else self, form=built.form)  # type: ignore[type-var]

    def reordered(self, port: str, order: Permutation) -> tuple[Self, dict[str, Permutation]] | None:
        channels = order.channels(self.kinds)
        if channels is None:
            return None
        return self.of_channels(replace(self.operand, shape=order.shape), channels), {"i": order, "o": order}

    @property
    def has_loaded_constants(self) -> bool:
        return self.form is not None

    @property
    def has_fixed_constants(self) -> bool:
        return self.form is None

    @property
    def loaded_numbers(self) -> Mapping[str, tuple[int, Int]]:
        return {} if self.form is None else loaded_numbers(self.circuit)

    @cached_property
    def circuit(self) -> Requantizer:
        """The arithmetic in hardware when every cycle takes a beat; proven equal to ``exact``.

        Raises:
            NotInForm: the constants are loaded, and those of the function are not of the form.
        """
        if self.form is None:
            return choose(self.exact)
        if (circuit := in_form(self.exact, self.form)) is None:
            raise NotInForm("its scales or bounds need other numbers than the circuit of the build has room for")
        return circuit

    @cached_property
    def multiplication(self) -> MultiplyAddShift | None:
        """Arithmetic for a beat of several steps, proven equal to ``exact``; None where there is no such arithmetic."""
        if isinstance(self.circuit, MultiplyAddShift):
            return self.circuit
        return None if self.form is not None else proven_line(self.exact)

    def circuit_of(self, folding: RequantizeFolding) -> Requantizer:
        """Return the arithmetic under a folding."""
        if folding.quick and (circuit := self._quick_circuits[folding.blocks]) is not None:
            return circuit
        if folding.blocks:
            return self.values if self.values is not None else self.tables[folding.steps]
        if folding.steps == 1:
            return self.circuit
        assert self.multiplication is not None, "only a multiplication has steps"
        return self.multiplication

    @cached_property
    def tables(self) -> dict[int, DigitTable]:
        """Arithmetic that looks products up, by the steps of a beat; the proofs take long. Empty without any."""
        return {} if self.form is not None else digit_tables(self.exact, self.operand.dtype)

    @cached_property
    def values(self) -> Requantizer | None:
        """Table of the results in place of a search of thresholds, which takes longer; None without a small one."""
        return quick_table(self.circuit, self.exact) if self.form is None and not self.tables else None

    @cached_property
    def _quick_circuits(self) -> tuple[Requantizer | None, Requantizer | None]:
        """Arithmetic of a pipeline of few stages, without blocks and with them, or None."""
        one, other = (of_few_stages(circuit, self.operand.dtype, self.exact) for circuit in (self.circuit, self.values))
        return one, other

    def quicker(self, folding: RequantizeFolding) -> Iterator[RequantizeFolding]:
        if not folding.blocks and self.values is not None:
            folding = replace(folding, blocks=1)
            yield folding
        if folding.steps == 1 and not folding.quick and self._quick_circuits[folding.blocks] is not None:
            yield replace(folding, quick=1)

    def limits(self) -> dict[str, int]:
        return super().limits() | {"steps": self.most_steps}

    def illegal(self, folding: RequantizeFolding) -> str:
        if folding.blocks not in (0, 1):
            return "blocks must be 0 or 1 here"
        if folding.blocks and folding.steps not in (possible := (1,) if self.values else self.tables):
            steps = " or ".join(map(str, sorted(possible)))
            return f"steps must be {steps} with blocks = 1 here" if steps else "blocks must be 0 here"
        if folding.quick and (folding.quick != 1 or folding.steps > 1 or self._quick_circuits[folding.blocks] is None):
            return "quick must be 0 here"
        multiplied = replace(folding, steps=1) if folding.blocks else folding
        return super().illegal(multiplied) or uneven_tiles(self.input_orders(folding)[0])

    def in_blocks(self, folding: RequantizeFolding, interval: int) -> Iterator[RequantizeFolding]:
        time = interval // self.input_orders(folding)[0].beats
        yield from (replace(folding, blocks=1, steps=steps) for steps in sorted(self.tables) if steps <= time)

    @property
    def most_steps(self) -> int:
        """The most steps a beat can be spread over: one for every digit of a multiplication."""
        return 1 if self.multiplication is None else self.multiplication.digits

    def results(self) -> tuple[Tensor, ...]:
        ends = self.result_range if self.form is None else self.form.ends
        return (Tensor(self.operand.shape, self.result_type, *ends),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return (self.exact(arrays[0]),)

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[RequantizeFolding]:
        """Yield the narrowest foldings, or those as wide as a neighbour, in the cheapest steps; tiles may stay so."""
        cuts = narrow_cuts(self.operand, interval, given, wanted) + even_cuts(self.operand, interval, given, wanted)
        for lanes, pixels in sorted(set(cuts)):
            time = interval // Order(self.operand, lanes, pixels).beats
            folding = replace(self._cheapest(lanes, time), pixels=pixels)
            if given is not None and given.tile > given.pixels == pixels:
                yield replace(folding, tile=given.tile)
            yield folding

    def _cheapest(self, lanes: int, time: int) -> RequantizeFolding:
        """Return the folding with the number of steps that costs least, within some cycles a beat."""
        key = lanes, min(time, self.most_steps)
        if key not in self._found:
            useful = (1,) if self.multiplication is None else self.multiplication.useful_steps
            in_time = (RequantizeFolding(lanes, n) for n in useful if n <= time)
            self._found[key] = min(in_time, key=lambda folding: weight_in_luts(self.costs(folding)))
        return self._found[key]

    @cached_property
    def _found(self) -> dict[tuple[int, int], RequantizeFolding]:
        """Results of ``_cheapest``, remembered, since the search for foldings asks often."""
        return {}

    def cycles(self, folding: RequantizeFolding) -> int:
        return self.input_orders(folding)[0].beats * folding.steps

    def latency(self, folding: RequantizeFolding) -> int:
        """Return the pipeline stages of the arithmetic, behind the last step."""
        return latency_of(self.circuit_of(folding), folding.steps, self._quick_type(folding))

    def _quick_type(self, folding: RequantizeFolding) -> Int | None:
        return self.operand.dtype if folding.quick else None

    def schedule(self, folding: RequantizeFolding) -> Schedule:
        beats, steps = self.input_orders(folding)[0].beats, folding.steps
        pops, pushes = {"i": AffineSequence.every(beats, steps)}, {"o": AffineSequence.every(beats, steps, steps - 1)}
        return Schedule((Engine("requantize", beats * steps, self.latency(folding), pops, pushes),))

    def demand(self, folding: RequantizeFolding) -> Demand:
        (order,), circuit = self.input_orders(folding), self.circuit_of(folding)
        steps, latency, quick = folding.steps, self.latency(folding), bool(folding.quick)
        return requantize_demand(circuit, self.operand.dtype, order, steps, latency, quick=quick)

    def costs(self, folding: RequantizeFolding) -> LaneCost:
        """Return the cost of one lane."""
        if folding not in self._costs:
            rows = self.input_orders(folding)[0].groups
            self._costs[folding] = costs(self.circuit_of(folding), rows, folding.steps)
        return self._costs[folding]

    @cached_property
    def _costs(self) -> dict[RequantizeFolding, LaneCost]:
        """Costs, remembered, since the search for foldings asks often."""
        return {}

    def weight_words(self, folding: RequantizeFolding) -> Order:
        """Return the order of the constants: those of ``lanes`` channels, group by group; an element is the channel."""
        return channel_words(self.operand, folding.lanes)

    def core(self, folding: RequantizeFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores import requantize as rtl

        return rtl.Requantize(
            circuit_arithmetic(self.circuit_of(folding), folding.steps, self._quick_type(folding)),
            words=channels_of(self.weight_words(folding)),
            bits=self.operand.dtype.bits,
            signed=self.operand.dtype.signed,
            out_bits=self.result_type.bits,
            out_signed=self.result_type.signed,
            lanes=folding.lanes,
            pixels=folding.pixels,
            run=self.input_orders(folding)[0].tile_groups,
            depth=depths["o"],
        )

    def memories(self, folding: RequantizeFolding) -> Mapping[str, RomImage]:
        channels = channels_of(self.weight_words(folding))
        return requantizer_memories(self.circuit_of(folding), channels, folding.pixels, folding.steps)

    def test_vectors(self, folding: RequantizeFolding) -> TestVectors:
        return of_steps(self, folding, self.exact, self.circuit_of(folding))

    def __repr__(self) -> str:
        low, high = self.result_range
        return f"{type(self).__name__} to {low}..{high}"


@dataclass(frozen=True, repr=False, eq=False)
class Requantize(Monotone):
    """The integers that stand for ``slope · x + offset`` on a grid.

    Attributes:
        operand: the accumulators x.
        slope, offset: exact rationals, one or one per channel; slopes are not negative.
        grid: of the result; its steps and zero points are one, or one per channel.
        form: widths of the circuit's constants where they are loaded at run time; None where they are fixed.
        bounded: whether results with other weights may have bounds within the range of the grid's type.
    """

    operand: Tensor
    slope: tuple[Fraction, ...] = field(repr=False)
    offset: tuple[Fraction, ...] = field(repr=False)
    grid: Grid
    form: LoadableForm | None = None
    bounded: bool = False

    def __post_init__(self) -> None:
        for name, count in (("slope", len(self.slope)), ("offset", len(self.offset)), ("grid", self.grid.channels)):
            if count not in (1, self.operand.channels):
                raise ValueError(f"{name} must have 1 or {self.operand.channels} entries, not {count}")
        if any(slope.numerator < 0 for slope in self.slope):  # fractions compare slowly
            raise ValueError(f"a requantizer's slope must not be negative, not {min(self.slope)}")

    @property
    def result_type(self) -> Int:
        return self.grid.dtype

    @property
    def result_range(self) -> tuple[int, int]:
        return self.grid.low, self.grid.high

    @cached_property
    def exact(self) -> Steps:
        """The function, as thresholds, over the operand's reachable range."""
        return steps(self.slope, self.offset, self.grid, *self.operand.range)

    @cached_property
    def kinds(self) -> np.ndarray:
        numbers: dict[tuple[tuple[int, int], ...], int] = {}
        lines = [tuple(number.as_integer_ratio() for number in line) for line in self._lines]  # these hash quickly
        return np.array([numbers.setdefault(line, len(numbers)) for line in lines])

    def of_channels(self, operand: Tensor, channels: np.ndarray) -> Self:
        slope, offset, step, zero_point = (
            numbers if len(numbers) == 1 else tuple(numbers[k] for k in channels) for numbers in self._constants
        )
        grid = replace(self.grid, step=step, zero_point=zero_point)
        return replace(self, operand=operand, slope=slope, offset=offset, grid=grid)

    def with_channels(self) -> Self:
        if max(map(len, self._constants)) > 1:
            return self
        return replace(self, slope=self.slope * self.operand.channels)

    @property
    def _slopes(self) -> list[Fraction]:
        return [slope / step for slope, _, step, _ in self._lines]

    @property
    def _lines(self) -> list[tuple[Fraction, ...]]:
        """Slope, offset, step and zero point of every channel that has its own."""
        return list(zip(*map(self._of_each, self._constants), strict=True))

    @property
    def _constants(self) -> tuple[tuple[Fraction, ...], ...]:
        return self.slope, self.offset, self.grid.step, self.grid.zero_point

    def _of_each(self, numbers: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        return numbers * max(map(len, self._constants)) if len(numbers) == 1 else numbers


@dataclass(frozen=True, repr=False, eq=False)
class Staircase(Monotone):
    """The step function that is given.

    Attributes:
        function: holds for every argument in the operand's range.
        dtype: of the result.
        form: widths of the circuit's constants where they are loaded at run time; None where they are fixed.
    """

    operand: Tensor
    function: Steps
    dtype: Int
    form: LoadableForm | None = None

    @property
    def exact(self) -> Steps:
        return self.function

    def tables_over(self, low: int, high: int) -> dict[str, Steps]:
        """Return the function for more arguments; those of a loaded shift are shifted like all others."""
        if isinstance(self.form, LoadableBounds):
            bounds = self.function.low, self.function.high
            return {"function": steps_of_shift(self.form.shift, self.function.parity, bounds, (low, high))}
        return {"function": self.function.over(low, high)}

    def with_channels(self) -> Self:
        if self.function.channels > 1:
            return self
        rows = np.repeat(self.function.thresholds, self.operand.channels, axis=0)
        return replace(self, function=replace(self.function, thresholds=rows))

    @property
    def result_type(self) -> Int:
        return self.dtype

    @property
    def result_range(self) -> tuple[int, int]:
        return self.function.low, self.function.high

    @cached_property
    def kinds(self) -> np.ndarray:
        numbers: dict[bytes, int] = {}  # by digest: 16 bits have 65,535 thresholds per channel
        rows = map(np.ascontiguousarray, self.function.thresholds)
        return np.array([numbers.setdefault(sha256(row.tobytes()).digest(), len(numbers)) for row in rows])

    def of_channels(self, operand: Tensor, channels: np.ndarray) -> Self:
        thresholds = self.function.thresholds
        function = self.function if len(thresholds) == 1 else replace(self.function, thresholds=thresholds[channels])
        return replace(self, operand=operand, function=function)

    def __post_init__(self) -> None:
        exact, (first, last) = self.function, self.operand.range
        if exact.channels not in (1, self.operand.channels):
            raise ValueError(f"the functions must be 1 or {self.operand.channels}, not {exact.channels}")
        if first < exact.first or exact.last < last:
            raise ValueError(f"the function must hold for {first}..{last}, not for {exact.first}..{exact.last}")
        if not self.dtype.min <= exact.low <= exact.high <= self.dtype.max:
            raise ValueError(f"the range {exact.low}..{exact.high} must lie within {self.dtype!r}")
