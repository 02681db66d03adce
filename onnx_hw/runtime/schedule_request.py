"""Request to the scheduler: clock, lanes and rate, or the foldings and FIFO depths themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean

if TYPE_CHECKING:
    from onnx_hw.ops.folding import Folding
else:
    Folding = Any  # `onnx-hw --help` does without numpy


class SpeedGoal(StrEnum):
    """Quantity in which the fastest design is the fastest one."""

    RATE = "rate"
    LATENCY = "latency"


class WeightPlace(StrEnum):
    """Memory that holds the weights outside the chip, where there are any."""

    FLASH = "flash"
    SDRAM = "sdram"


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
    "latency_us": RequestedNumber("--latency", "latency in microseconds", float, 1e-4, 1e12),
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
        latency_us: microseconds at the clock from a frame's first beat in to its last beat out, reached by the cheapest
            design; None for no bound.
        fastest: what the fastest design has most or least of: frames per second, or latency.
        foldings: folding of every node (copies of a tensor are nodes, too), by node; None for a search.
        depths: depths of some FIFOs, in tokens by tensor, allowed with ``foldings`` only; None to choose all of them.
        memory: memory that holds the weights outside the chip, where there are any.
    """

    clock_mhz: float | None = None
    multipliers: int | None = None
    fps: float | None = None
    latency_us: float | None = None
    fastest: SpeedGoal = SpeedGoal.RATE
    foldings: Mapping[str, Folding] | None = None
    depths: Mapping[str, int] | None = None
    memory: WeightPlace = WeightPlace.FLASH

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
        problems += self._contradictions()
        if problems:
            raise UserError(*problems)

    def _contradictions(self) -> Iterator[Problem]:
        """Yield the problems of numbers that do not go together."""
        goals = {
            "--fps": self.fps is not None,
            "--latency": self.latency_us is not None,
            "--fastest latency": self.fastest == SpeedGoal.LATENCY,
        }
        asked = [option for option, given in goals.items() if given]
        if len(asked) > 1:
            message = f"one goal must be chosen for the search, not {' and '.join(asked)}"
            yield Problem("argument", message, asked[-1], f"leave {asked[0]} out", stage="arguments")
        elif self.foldings and asked and asked != ["--fps"]:
            message = f"{asked[0]} must come without foldings, which decide how fast a design is"
            yield Problem("argument", message, asked[0], "leave --folding out", stage="arguments")

    def numbers(self) -> dict[str, float | None]:
        """Return the numbers by field, also those that are None."""
        return {name: getattr(self, name) for name in NUMBERS}

    def arguments(self) -> Iterator[str]:
        """Return the words of a command line that ask for the same numbers."""
        for name, number in self.numbers().items():
            if number is not None:
                yield from (NUMBERS[name].option, f"{number:.12g}")
        if self.fastest != SpeedGoal.RATE:
            yield from ("--fastest", self.fastest.value)

    @property
    def wants_fastest(self) -> bool:
        """Whether the design of the highest rate is searched for: no other goal and no foldings are given."""
        return self.fps is None and not self.foldings and not self.wants_latency

    @property
    def wants_latency(self) -> bool:
        """Whether the search is for latency."""
        return self.latency_us is not None or self.fastest == SpeedGoal.LATENCY

    def allows(self, fmax_mhz: float, interval_cycles: int) -> bool:
        """Return whether a circuit that misses the clock of its design still does what is asked for."""
        if self.clock_mhz is not None or self.latency_us is not None:
            return False
        return self.fps is None or fmax_mhz * 1e6 >= self.fps * interval_cycles


def goal_of(given: SpeedGoal | str) -> SpeedGoal:
    """Return the goal that a caller may give as a text.

    Raises:
        UserError: there is no such goal.
    """
    if given in tuple(SpeedGoal):
        return SpeedGoal(given)
    message = f"`fastest` must be one of {', '.join(SpeedGoal)}, not {given!r}"
    raise UserError(Problem("argument", message, "fastest", did_you_mean(str(given), SpeedGoal), stage="arguments"))
