"""Clocks that a family's PLL makes of an oscillator, and the reset after the configuration of a chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

TOLERANCE = Fraction(1, 100)
"""Largest relative difference between a clock and the one that is asked for."""


@dataclass(frozen=True)
class ClockSource:
    """The source of a design's clock.

    Attributes:
        mhz: the exact clock.
        dividers: settings of the PLL, by its primitive's own names; None for the oscillator itself.
        at_pad: whether the oscillator is at the PLL's own pad, which then is no input for anything else.
        reset_cycles: cycles of this clock for which the chip is in reset after its configuration.
    """

    mhz: Fraction
    dividers: Mapping[str, int] | None
    at_pad: bool
    reset_cycles: int


Settings = Iterator[tuple[Fraction, dict[str, int]]]
"""A clock in MHz and the dividers that make it."""


@dataclass(frozen=True)
class Clocking:
    """The clocks of a family.

    Attributes:
        settings: settings of the PLL near a clock, for an input and a target clock in MHz.
        reset_us: microseconds after configuration in which block RAMs must not be read.
        pll_pads: the pin at which a PLL is, by package.
    """

    settings: Callable[[Fraction, Fraction], Settings]
    reset_us: int
    pll_pads: Mapping[str, str] = field(default_factory=dict)

    def nearest(self, oscillator_mhz: Fraction, mhz: Fraction, *, at_pad: bool = False) -> ClockSource:
        """Return the clock nearest to ``mhz``; of several settings for it the first, which divides least.

        Raises:
            ValueError: no clock is within ``TOLERANCE``.
        """
        reset_cycles = ceil(self.reset_us * mhz) + 1
        if oscillator_mhz == mhz:
            return ClockSource(mhz, None, at_pad, reset_cycles)
        dividers_of = dict(reversed(list(self.settings(oscillator_mhz, mhz))))
        nearest = min(dividers_of, key=lambda clock: (abs(clock - mhz), clock), default=None)
        if nearest is None or abs(nearest - mhz) > TOLERANCE * mhz:
            reached = "" if nearest is None else f"; {float(nearest):.6g} MHz is nearest"
            raise ValueError(
                f"the clock must be the oscillator's {float(oscillator_mhz):g} MHz, or one that the chip's PLL makes "
                f"of it, not {float(mhz):g} MHz{reached}"
            )
        return ClockSource(nearest, dividers_of[nearest], at_pad, reset_cycles)
