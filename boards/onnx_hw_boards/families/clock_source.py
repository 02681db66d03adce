"""Clocks: what a family's PLL makes of an oscillator, and how long a chip is held in reset after its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

__all__ = ["ClockSource", "Clocking", "Settings"]

TOLERANCE = Fraction(1, 100)


@dataclass(frozen=True)
class ClockSource:
    """Where the clock of a design comes from.

    Attributes:
        mhz: it, exactly.
        dividers: of the PLL, by its primitive's own names; None for the oscillator itself.
        at_pad: the oscillator is at the PLL's own pad, which then is no input for anything else.
        reset_cycles: for so many cycles of it the chip is in reset after its configuration.
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
        settings: of its PLL, for an input and a wanted clock in MHz; those that come near.
        reset_us: how long block RAMs must not be read after configuration.
        pll_pads: by package, the pin at which a PLL is.
    """

    settings: Callable[[Fraction, Fraction], Settings]
    reset_us: int
    pll_pads: Mapping[str, str] = field(default_factory=dict)

    def nearest(self, oscillator_mhz: Fraction, mhz: Fraction, *, at_pad: bool = False) -> ClockSource:
        """The clock nearest to ``mhz``; of several settings for it the first, which divides least.

        Raises:
            ValueError: none is within ``TOLERANCE``.
        """
        reset_cycles = ceil(self.reset_us * mhz) + 1
        if oscillator_mhz == mhz:
            return ClockSource(mhz, None, at_pad, reset_cycles)
        found = dict(reversed(list(self.settings(oscillator_mhz, mhz))))
        made = min(found, key=lambda made: (abs(made - mhz), made), default=None)
        if made is None or abs(made - mhz) > TOLERANCE * mhz:
            reached = "" if made is None else f"; {float(made):.6g} MHz is nearest"
            raise ValueError(
                f"the clock must be the oscillator's {float(oscillator_mhz):g} MHz, or one that the chip's PLL makes "
                f"of it, not {float(mhz):g} MHz{reached}"
            )
        return ClockSource(made, found[made], at_pad, reset_cycles)
