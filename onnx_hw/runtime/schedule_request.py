"""Request to the scheduler: clock, lanes and rate, or the foldings and FIFO depths themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_hw.messages.errors import Problem, UserError

if TYPE_CHECKING:
    from onnx_hw.ops.folding import Folding
else:
    Folding = Any  # `onnx-hw --help` does without numpy


class RequestedNumber(NamedTuple):
    """Number that a user may ask of a schedule.

    Attributes:
        option: command line option that gives it.
        quantity: its name in a sentence.
        type: ``int`` or ``float``.
        low, high: limits, both included.
    """

    option: str
    quantity: str
    type: type[int] | type[float]
    low: float
    high: float


NUMBERS: Mapping[str, RequestedNumber] = {
    "multipliers": RequestedNumber("--multipliers", "number of multipliers", int, 1, math.inf),
    "fps": RequestedNumber("--fps", "frames per second", float, 1e-6, 1e10),
    "clock_mhz": RequestedNumber("--clock", "clock in MHz", float, 1e-3, 1e4),
}
"""Numbers of a ``ScheduleRequest``, by field. The rates go from a frame in eleven days to one in every cycle of the
fastest clock."""


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """Request to the scheduler. Without any field it means the fastest design that fits the board comfortably.

    Attributes:
        clock_mhz: clock to reach, MHz; None for the board's own.
        multipliers: largest number of MAC lanes; None for what the chip has.
        fps: frames per second at the clock, reached by the cheapest design; None for the fastest design that fits.
        foldings: folding of every node (copies of a tensor are nodes, too), by node; None for a search.
        depths: depths of some FIFOs, in tokens by tensor, allowed with ``foldings`` only; None to choose all of them.
    """

    clock_mhz: float | None = None
    multipliers: int | None = None
    fps: float | None = None
    foldings: Mapping[str, Folding] | None = None
    depths: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        """Check that the numbers have a meaning; whether they can be reached, the scheduler finds out.

        Raises:
            UserError: all numbers that have none.
        """
        problems = []
        for name, known in NUMBERS.items():
            number = getattr(self, name)
            if number is not None and not known.low <= number <= known.high:  # false for NaN
                positive = math.isfinite(number) and number > 0
                limits = f"within {known.low:g} .. {known.high:g}" if positive else "positive"
                message = f"the {known.quantity} must be {limits}, not {number:g}"
                problems.append(Problem("argument", message, known.option, stage="arguments"))
        if problems:
            raise UserError(*problems)

    def numbers(self) -> dict[str, float | None]:
        """Return the numbers by field, also those that are None."""
        return {name: getattr(self, name) for name in NUMBERS}

    def arguments(self) -> Iterator[str]:
        """Return the words of a command line that ask for the same numbers."""
        for name, number in self.numbers().items():
            if number is not None:
                yield from (NUMBERS[name].option, f"{number:.12g}")

    @property
    def wants_fastest(self) -> bool:
        """Whether the fastest design is searched for: neither a rate nor foldings are given."""
        return self.fps is None and not self.foldings

    def allows(self, fmax_mhz: float, interval_cycles: int) -> bool:
        """Return whether a circuit that misses the clock of its design still does what is asked for."""
        return self.clock_mhz is None and (self.fps is None or fmax_mhz * 1e6 >= self.fps * interval_cycles)
