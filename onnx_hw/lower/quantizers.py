"""Quantizers of QONNX: Quant, BipolarQuant, Trunc and MultiThreshold as monotone functions to the numbers of a grid.

The same functions are used wherever integers are computed: on the host before the hardware, in hardware and in
constants. All numbers are exact; arrays of them are broadcast to the data, as ONNX does.
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

MAX_DATA_BITS = 16
"""Greatest width of the integers of a quantizer of data, in bits."""

ROUNDINGS = {**Rounding.__members__, "HALF_EVEN": Rounding.ROUND}
"""Rounding modes by their QONNX names. QONNX rounds a half to the even integer, not to an even number of steps."""

MIRRORED_ROUNDINGS = {Rounding.FLOOR: Rounding.CEIL, Rounding.CEIL: Rounding.FLOOR}
"""Rounding modes that become another mode when numbers change their sign, with that other mode."""

Edge = tuple[Fraction, bool]
"""Number at which the next level begins, and whether the number itself belongs to that level."""

Constants = Callable[[str], np.ndarray | None]
"""Function from a name to the constant, an object array of exact numbers; None where the value is not constant."""


@dataclass(frozen=True, kw_only=True)
class Quantizer:
    """Function to the numbers ``step · (integer − zero_point)``, the integers being ``low..high``.

    Attributes:
        step, zero_point: object arrays of ``Fraction``; steps are positive.
        low, high: least and greatest integer; None where they follow from the data.
        falls: True for a falling function: a greater number never becomes a greater integer; else never a smaller one.
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
        """Real numbers for which the integer 0 stands, an object array of ``Fraction``."""
        return np.asarray(-self.step * self.zero_point, dtype=object)

    @property
    def has_one_grid(self) -> bool:
        """Whether numbers are rounded to one grid for all channels."""
        return False

    def grid(self, step: tuple[Fraction, ...], zero_point: tuple[Fraction, ...]) -> Grid:
        """Return the grids of channels with these steps and zero points."""
        raise NotImplementedError

    def one_grid(self) -> Grid:
        """Return the grid of a quantizer that has the same one for all channels."""
        (step,), (zero,) = self.step.reshape(-1), self.zero_point.reshape(-1)
        return self.grid((step,), (zero,))

    def edges(self) -> Sequence[Sequence[Edge]] | None:
        """Return the edges at which the levels above the least begin: one row, or one row per index of ``axis``.

        None for a quantizer with grids.
        """
        return None

    def bounded(self, ends: Sequence[Fraction] | None) -> Quantizer:
        """Return the quantizer with its range of integers known, where that follows from the data.

        Args:
            ends: least and greatest number of every channel of the data; None where they are not known.

        Raises:
            Obstacle: the range is not known.
        """
        if self.low is None or self.high is None:
            raise Obstacle("range-unknown", "the data of a Trunc must be integers of a scale")
        return self

    def fill(self, number: Fraction | float) -> int | None:
        """Return the integer of a number, which may be infinite; None where it differs between channels."""
        assert self.low is not None and self.high is not None
        if isinstance(number, float):
            return self.high if (number > 0) != self.falls else self.low
        integers = self.integers(number)
        return integers.pop() if len(integers) == 1 else None

    def integers(self, number: Fraction) -> set[int]:
        """Return the set of integers that a number becomes in the channels."""
        raise NotImplementedError

    def for_negated_data(self) -> Quantizer:
        """Return the quantizer that makes the same integers of the negated data."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Rounded(Quantizer):
    """Quantizer that rounds ``real / step + zero_point`` in the mode ``rounding``."""

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
    """Quantizer that counts the thresholds that a number reaches (where it falls, those that it does not reach).

    The least integer is 0, and there is one step.

    Attributes:
        thresholds: (1 or channels, high) object array of ``Fraction``, ascending along a row; channels along ``axis``.
        includes_edge: whether a number that equals a threshold reaches it.
    """

    thresholds: np.ndarray
    includes_edge: bool = True

    def edges(self) -> Sequence[Sequence[Edge]]:
        assert not self.falls
        return [[(Fraction(number), self.includes_edge) for number in row] for row in self.thresholds]

    def integers(self, number: Fraction) -> set[int]:
        return {self.integer(row, number) for row in self.thresholds}

    def integer(self, row: np.ndarray, number: Fraction) -> int:
        """Return the integer that a number becomes by one row of the thresholds."""
        reached = sum(edge < number or (self.includes_edge and edge == number) for edge in row)
        return len(row) - reached if self.falls else reached

    def for_negated_data(self) -> Counted:
        return replace(
            self, thresholds=-self.thresholds[:, ::-1], includes_edge=not self.includes_edge, falls=not self.falls
        )


@dataclass(frozen=True, kw_only=True)
class Truncated(Quantizer):
    """Quantizer that divides integers with a scale by a power of two; its data are multiples of that scale.

    Attributes:
        input_step: step of the integers of the data.
        input_zero: zero point of the integers of the data.
        ratio: divisor.
        rounding: rounding mode of the quotient.
    """

    input_step: Fraction
    input_zero: Fraction
    ratio: Fraction
    rounding: Rounding

    def edges(self) -> Sequence[Sequence[Edge]]:
        assert self.low is not None and self.high is not None
        return [[self.edge(k) for k in range(self.low + 1, self.high + 1)]]

    def edge(self, k: int) -> Edge:
        """Return the real number at which quotients of ``k`` or more begin, and whether it is one of them."""
        edge = (k - Fraction(self.rounding.halves_below(k), 2)) * self.ratio
        includes_edge = bool(self.rounding.takes_edge(k, 0))
        integer = ceil(edge) if includes_edge else floor(edge) + 1
        return (integer - Fraction(1, 2) - self.input_zero) * self.input_step, integer % 2 == 0

    def bounded(self, ends: Sequence[Fraction] | None) -> Quantizer:
        if (self.low is not None and self.high is not None) or ends is None:
            return super().bounded(ends)
        integers = [self.integer(end) for end in ends]
        return replace(self, low=min(integers), high=max(integers))

    def integers(self, number: Fraction) -> set[int]:
        assert self.low is not None and self.high is not None
        return {min(max(self.integer(number), self.low), self.high)}

    def integer(self, number: Fraction) -> int:
        """Return the integer that a real number becomes, without bounds."""
        operand = Rounding.ROUND.integer(number / self.input_step + self.input_zero, 0)
        return self.rounding.integer(operand / self.ratio, 0)


def quantizer_of(node: Node, rank: int, constants: Constants) -> Quantizer:
    """Return the quantizer of a QONNX node.

    Args:
        rank: number of axes of its data.
        constants: constants of the graph.

    Raises:
        Obstacle: the parameters are not constant, or do not give a monotone function of real numbers.
    """
    return _QUANTIZERS[node.op_type](_Parameters(node, rank, constants))


@dataclass(frozen=True)
class _Parameters:
    """Parameters of a node: its attributes, and its inputs apart from the data, which has ``rank`` axes."""

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
            listed = ", ".join(str(float(number)) for number in sorted({*widths, width}))
            raise Obstacle("bit-width", f"the {what} of a {self.node.op_type} must be one whole number, not {listed}")
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


def _quant(parameters: _Parameters) -> Quantizer:
    zero, bits, rounding = parameters.array(2, "zero point"), parameters.bits(3), parameters.rounding("ROUND")
    if bits == 1 and parameters.flag("signed", 1):
        return _bipolar_of(parameters.step(1), zero)
    low, high = parameters.bounds(bits)
    if low >= high:
        raise Obstacle("bit-width", f"a narrow {parameters.node.op_type} must have 2 bits at least, not 1")
    scale = parameters.array(1, "scale")
    if (scale < 0).all():  # negated integers give the same numbers
        rounding = MIRRORED_ROUNDINGS.get(rounding, rounding)
        step, zero = np.asarray(-scale, dtype=object), np.asarray(-zero, dtype=object)
        return Rounded(step=step, zero_point=zero, low=-high, high=-low, rounding=rounding)
    return Rounded(step=parameters.step(1), zero_point=zero, low=low, high=high, rounding=rounding)


def _bipolar(parameters: _Parameters) -> Quantizer:
    return _bipolar_of(parameters.step(1), np.array(Fraction(0), dtype=object))


def _bipolar_of(step: np.ndarray, zero: np.ndarray) -> Quantizer:
    """Return the quantizer to the integers 0 and 1, which stand for −1 and 1 and are two steps apart.

    A quotient of ½ or more becomes 1.
    """
    middle = np.asarray((zero + 1) * Fraction(1, 2), dtype=object)
    doubled = np.asarray(step * Fraction(2), dtype=object)
    return Rounded(step=doubled, zero_point=middle, low=0, high=1, rounding=Rounding.HALF_UP)


def _trunc(parameters: _Parameters) -> Quantizer:
    (scale,), zero = parameters.step(1).reshape(-1)[:1], parameters.number(2, "zero point")
    parameters.number(1, "scale")
    low: int | None = None
    high: int | None = None
    if parameters.node.version < 2:
        ratio = Fraction(2) ** (parameters.bits(3, "input bit width") - parameters.bits(4, "output bit width"))
        out, out_zero = scale, zero
    else:
        parameters.number(4, "output scale")
        (out,) = parameters.step(4, "output scale").reshape(-1)
        with np.errstate(all="ignore"):  # as the operator computes it
            shift = np.rint(np.log2(np.float32(float(out)) / np.float32(float(scale))))
        ratio = Fraction(2) ** int(shift)
        out_zero = zero / ratio
        low, high = parameters.bounds(parameters.bits(5, "output bit width"))
    return Truncated(
        step=_array(out),
        zero_point=_array(out_zero),
        low=low,
        high=high,
        input_step=scale,
        input_zero=zero,
        ratio=ratio,
        rounding=parameters.rounding("FLOOR"),
    )


def _multi_threshold(parameters: _Parameters) -> Quantizer:
    thresholds = parameters.array(1, "thresholds")
    if thresholds.ndim != 2 or not thresholds.size:
        raise Obstacle("thresholds", f"thresholds must be (channels, steps), not {list(thresholds.shape)}")
    unsorted = np.flatnonzero((thresholds[:, 1:] < thresholds[:, :-1]).any(axis=1))
    if unsorted.size:
        raise Obstacle(
            "thresholds-not-sorted",
            f"the thresholds of every channel must ascend, not fall as those of channel {unsorted[0]} do",
            "sort them: the number of thresholds that are reached does not depend on their order",
        )
    scale, bias = (
        Fraction(float(np.float32(parameters.node.attributes.get(name, default))))
        for name, default in (("out_scale", 1.0), ("out_bias", 0.0))
    )
    if not scale:
        raise Obstacle("scale", "the out_scale of a MultiThreshold must not be 0")
    layout = parameters.node.attributes.get("data_layout", "NCHW")
    layout = layout.decode() if isinstance(layout, bytes) else layout
    last = layout == "NHWC" or parameters.rank not in (2, 4)
    least = bias + (scale * thresholds.shape[1] if scale < 0 else 0)
    return Counted(
        step=_array(abs(scale)),
        zero_point=_array(-least / abs(scale)),
        low=0,
        high=thresholds.shape[1],
        thresholds=thresholds,
        axis=parameters.rank - 1 if last else 1,
        falls=scale < 0,
    )


def _array(number: Fraction) -> np.ndarray:
    array = np.empty((), dtype=object)
    array[()] = number
    return array


_QUANTIZERS: Mapping[str, Callable[[_Parameters], Quantizer]] = {
    "Quant": _quant,
    "IntQuant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": _trunc,
    "MultiThreshold": _multi_threshold,
}
