"""What Quant, BipolarQuant, Trunc and MultiThreshold do: monotone functions from real numbers to those of a grid.

They are known by name and domain alone, wherever integers have to be found: on the host before the hardware, in it, and
in constants. All numbers are exact; arrays of them are broadcast to the data, as ONNX does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.onnx.graph.model import Node

WIDEST = 16
"""Bits of the integers that a quantizer of data may make."""

ROUNDINGS = {**Rounding.__members__, "HALF_EVEN": Rounding.ROUND}
"""By the names of QONNX, where a half is always rounded to the even integer, not to an even number of steps."""

TURNED = {Rounding.FLOOR: Rounding.CEIL, Rounding.CEIL: Rounding.FLOOR}
"""What a mode is for numbers of the other sign, where it is another one."""

Edge = tuple[Fraction, bool]
"""Number, and whether it belongs to what is beyond it."""

Constants = Callable[[str], np.ndarray | None]
"""A constant by its name: an object array of exact numbers, or None."""


@dataclass(frozen=True, kw_only=True)
class Quantizer:
    """Function to the numbers ``step · (integer − zero_point)``, the integers being ``low..high``.

    Attributes:
        step, zero_point: object arrays of ``Fraction``; steps are positive.
        low, high: least and greatest integer; None where only the data says how far they go.
        falls: a greater number becomes no greater integer; else no smaller one.
        axis: axis of the data along which thresholds differ.
    """

    step: np.ndarray
    zero_point: np.ndarray
    low: int | None
    high: int | None
    falls: bool = False
    axis: int = 0

    @property
    def dtype(self) -> Int:
        """Narrowest type for the integers."""
        assert self.low is not None and self.high is not None
        return Int.holding(self.low, self.high)

    @property
    def offset(self) -> np.ndarray:
        """Numbers that the integer 0 stands for, an object array of ``Fraction``."""
        return np.asarray(-self.step * self.zero_point, dtype=object)

    @property
    def has_one_grid(self) -> bool:
        """Whether numbers are rounded to one grid for all channels."""
        return False

    def grid(self, step: tuple[Fraction, ...], zero_point: tuple[Fraction, ...]) -> Grid:
        """Return the grids of channels with these steps and zero points."""
        raise NotImplementedError

    def one_grid(self) -> Grid:
        """Return the grid of a quantizer that has one for all channels."""
        (step,), (zero,) = self.step.reshape(-1), self.zero_point.reshape(-1)
        return self.grid((step,), (zero,))

    def edges(self) -> Sequence[Sequence[Edge]] | None:
        """Return the numbers from which on each level above the least is reached: one row, or one per index of
        ``axis``; None for grids.
        """
        return None

    def bounded(self, ends: Sequence[Fraction] | None) -> Quantizer:
        """Return the quantizer with the integers that occur, where only the data says which those are.

        Args:
            ends: least and greatest number of every channel of the data; None where they are not known.

        Raises:
            Obstacle: the integers are not known.
        """
        if self.low is None or self.high is None:
            raise Obstacle("range-unknown", "the data of a Trunc must be integers of a scale")
        return self

    def fill(self, number: Fraction | float) -> int | None:
        """Return the integer of a number, which may be infinite; None where that depends on the channel."""
        assert self.low is not None and self.high is not None
        if isinstance(number, float):
            return self.high if (number > 0) != self.falls else self.low
        integers = self.integers(number)
        return integers.pop() if len(integers) == 1 else None

    def integers(self, number: Fraction) -> set[int]:
        """Return the integers that a number becomes in some channel."""
        raise NotImplementedError

    def turned(self) -> Quantizer:
        """Return the quantizer that makes the same integers of the data with the other sign."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Rounded(Quantizer):
    """Quantizer whose integer is the one next to ``real / step + zero_point``.

    Attributes:
        rounding: mode that says which integer is next.
    """

    rounding: Rounding

    @property
    def has_one_grid(self) -> bool:
        return self.step.size == self.zero_point.size == 1

    def grid(self, step: tuple[Fraction, ...], zero_point: tuple[Fraction, ...]) -> Grid:
        assert self.low is not None and self.high is not None
        return Grid(step, zero_point, self.low, self.high, self.dtype, self.rounding)

    def integers(self, number: Fraction) -> set[int]:
        lines = np.broadcast(self.step, self.zero_point)
        return {self.grid((step,), (zero,)).integer(number) for step, zero in lines}


@dataclass(frozen=True, kw_only=True)
class Counted(Quantizer):
    """Quantizer whose integer is the number of thresholds that are reached (or, where it falls, that are not reached).

    The least integer is 0, and there is one step.

    Attributes:
        thresholds: (1 or channels, high) object array of ``Fraction``, ascending along a row; channels along ``axis``.
        taken: whether a number that equals a threshold reaches it.
    """

    thresholds: np.ndarray
    taken: bool = True

    def edges(self) -> Sequence[Sequence[Edge]]:
        assert not self.falls
        return [[(Fraction(number), self.taken) for number in row] for row in self.thresholds]

    def integers(self, number: Fraction) -> set[int]:
        return {self.integer(row, number) for row in self.thresholds}

    def integer(self, row: np.ndarray, number: Fraction) -> int:
        """Return what a number becomes, by one row of the thresholds."""
        reached = sum(edge < number or (self.taken and edge == number) for edge in row)
        return len(row) - reached if self.falls else reached

    def turned(self) -> Counted:
        return replace(self, thresholds=-self.thresholds[:, ::-1], taken=not self.taken, falls=not self.falls)


@dataclass(frozen=True, kw_only=True)
class Truncated(Quantizer):
    """Quantizer of integers of a scale, which it divides by a power of two; each of the numbers is one.

    Attributes:
        given: step of the data's integers.
        given_zero: their zero point.
        ratio: divisor.
        rounding: rounding mode of the quotient.
    """

    given: Fraction
    given_zero: Fraction
    ratio: Fraction
    rounding: Rounding

    def edges(self) -> Sequence[Sequence[Edge]]:
        assert self.low is not None and self.high is not None
        return [[self.edge(k) for k in range(self.low + 1, self.high + 1)]]

    def edge(self, k: int) -> Edge:
        """Return the real number from which on the quotient is ``k`` or more, and whether that number belongs to it."""
        edge = (k - Fraction(self.rounding.halves_below(k), 2)) * self.ratio
        taken = bool(self.rounding.takes_edge(k, 0))
        integer = ceil(edge) if taken else floor(edge) + 1
        return (integer - Fraction(1, 2) - self.given_zero) * self.given, integer % 2 == 0

    def bounded(self, ends: Sequence[Fraction] | None) -> Quantizer:
        if (self.low is not None and self.high is not None) or ends is None:
            return super().bounded(ends)
        integers = [self.integer(end) for end in ends]
        return replace(self, low=min(integers), high=max(integers))

    def integers(self, number: Fraction) -> set[int]:
        assert self.low is not None and self.high is not None
        return {min(max(self.integer(number), self.low), self.high)}

    def integer(self, number: Fraction) -> int:
        """Return what a real number becomes, apart from bounds."""
        given = Rounding.ROUND.integer(number / self.given + self.given_zero, 0)
        return self.rounding.integer(given / self.ratio, 0)


def snapping_of(node: Node, rank: int, constants: Constants) -> Quantizer:
    """What a node does to data of a rank.

    Raises:
        Obstacle: its parameters are not constant, or no monotone function of real numbers follows from them.
    """
    return _KINDS[node.op_type](_Parameters(node, rank, constants))


@dataclass(frozen=True)
class _Parameters:
    """What a node has beside its data, which is of a rank."""

    node: Node
    rank: int
    constants: Constants

    def array(self, k: int, what: str) -> np.ndarray:
        array = self.constants(self.node.inputs[k]) if k < len(self.node.inputs) else None
        if array is None:
            raise Obstacle("scale-not-constant", f"the {what} of a {self.node.op_type} must be constant")
        return array

    def number(self, k: int, what: str) -> Fraction:
        array = self.array(k, what)
        if array.size != 1:
            raise Obstacle("per-channel-data", f"the {what} of a {self.node.op_type} must be one number")
        return Fraction(array.reshape(-1)[0])

    def step(self, k: int, what: str = "scale") -> np.ndarray:
        array = self.array(k, what)
        wrong = [number for number in array.reshape(-1) if number <= 0]
        if wrong:
            raise Obstacle("scale", f"the {what} of a {self.node.op_type} must be positive, not {float(wrong[0])}")
        return array

    def bits(self, k: int, what: str = "bit width") -> int:
        widths = set(self.array(k, what).reshape(-1))
        width = widths.pop()
        if widths or width != int(width) or width < 1:
            said = ", ".join(str(float(number)) for number in sorted({*widths, width}))
            raise Obstacle("bit-width", f"the {what} of a {self.node.op_type} must be one whole number, not {said}")
        return int(width)

    def rounding(self, default: str) -> Rounding:
        name = self.node.attributes.get("rounding_mode", default)
        name = name.decode() if isinstance(name, bytes) else str(name)
        if name.upper() not in ROUNDINGS:
            raise Obstacle("rounding", f"the rounding_mode must be one of {', '.join(ROUNDINGS)}, not {name}")
        return ROUNDINGS[name.upper()]

    def flag(self, name: str, default: int) -> bool:
        return bool(self.node.attributes.get(name, default))

    def bounds(self, bits: int) -> tuple[int, int]:
        signed, narrow = self.flag("signed", 1), self.flag("narrow", 0)
        low = -(1 << (bits - 1)) + narrow if signed else 0
        return low, (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1 - narrow


def _quant(given: _Parameters) -> Quantizer:
    zero, bits, rounding = given.array(2, "zero point"), given.bits(3), given.rounding("ROUND")
    if bits == 1 and given.flag("signed", 1):
        return _bipolar_of(given.step(1), zero)
    low, high = given.bounds(bits)
    if low >= high:
        raise Obstacle("bit-width", f"a narrow {given.node.op_type} must have 2 bits at least, not 1")
    scale = given.array(1, "scale")
    if (scale < 0).all():  # the same numbers by integers of the other sign
        rounding = TURNED.get(rounding, rounding)
        step, zero = np.asarray(-scale, dtype=object), np.asarray(-zero, dtype=object)
        return Rounded(step=step, zero_point=zero, low=-high, high=-low, rounding=rounding)
    return Rounded(step=given.step(1), zero_point=zero, low=low, high=high, rounding=rounding)


def _bipolar(given: _Parameters) -> Quantizer:
    return _bipolar_of(given.step(1), np.array(Fraction(0), dtype=object))


def _bipolar_of(step: np.ndarray, zero: np.ndarray) -> Quantizer:
    """−1 and 1 as 0 and 1: two steps apart. What is ½ and more becomes 1."""
    middle = np.asarray((zero + 1) * Fraction(1, 2), dtype=object)
    doubled = np.asarray(step * Fraction(2), dtype=object)
    return Rounded(step=doubled, zero_point=middle, low=0, high=1, rounding=Rounding.HALF_UP)


def _trunc(given: _Parameters) -> Quantizer:
    (scale,), zero = given.step(1).reshape(-1)[:1], given.number(2, "zero point")
    given.number(1, "scale")
    low: int | None = None
    high: int | None = None
    if given.node.version < 2:
        ratio = Fraction(2) ** (given.bits(3, "input bit width") - given.bits(4, "output bit width"))
        out, out_zero = scale, zero
    else:
        given.number(4, "output scale")
        (out,) = given.step(4, "output scale").reshape(-1)
        with np.errstate(all="ignore"):  # as the operator computes it
            shift = np.rint(np.log2(np.float32(float(out)) / np.float32(float(scale))))
        ratio = Fraction(2) ** int(shift)
        out_zero = zero / ratio
        low, high = given.bounds(given.bits(5, "output bit width"))
    return Truncated(
        step=_array(out),
        zero_point=_array(out_zero),
        low=low,
        high=high,
        given=scale,
        given_zero=zero,
        ratio=ratio,
        rounding=given.rounding("FLOOR"),
    )


def _multi_threshold(given: _Parameters) -> Quantizer:
    thresholds = given.array(1, "thresholds")
    if thresholds.ndim != 2 or not thresholds.size:
        raise Obstacle("thresholds", f"thresholds must be (channels, steps), not {list(thresholds.shape)}")
    unsorted = np.flatnonzero((thresholds[:, 1:] < thresholds[:, :-1]).any(axis=1))
    if unsorted.size:
        raise Obstacle(
            "thresholds-not-sorted",
            f"the thresholds of every channel must ascend, not fall as those of channel {unsorted[0]} do",
            "sort them: as many are reached in any order",
        )
    scale, bias = (
        Fraction(float(np.float32(given.node.attributes.get(name, default))))
        for name, default in (("out_scale", 1.0), ("out_bias", 0.0))
    )
    if not scale:
        raise Obstacle("scale", "the out_scale of a MultiThreshold must not be 0")
    layout = given.node.attributes.get("data_layout", "NCHW")
    layout = layout.decode() if isinstance(layout, bytes) else layout
    last = layout == "NHWC" or given.rank not in (2, 4)
    least = bias + (scale * thresholds.shape[1] if scale < 0 else 0)
    return Counted(
        step=_array(abs(scale)),
        zero_point=_array(-least / abs(scale)),
        low=0,
        high=thresholds.shape[1],
        thresholds=thresholds,
        axis=given.rank - 1 if last else 1,
        falls=scale < 0,
    )


def _array(number: Fraction) -> np.ndarray:
    array = np.empty((), dtype=object)
    array[()] = number
    return array


_KINDS: Mapping[str, Callable[[_Parameters], Quantizer]] = {
    "Quant": _quant,
    "IntQuant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": _trunc,
    "MultiThreshold": _multi_threshold,
}
