"""Clocks: what a family's PLL makes of an oscillator, and how long a chip is held in reset after its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

__all__ = ["CLOCKING", "ClockSource", "Clocking"]

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


def _ecp5(oscillator: Fraction, mhz: Fraction) -> Settings:
    """EHXPLLL: CLKOP is only fed back, CLKOS is the clock. Lattice FPGA-DS-02012, table 3.22: PFD, VCO and outputs."""
    for i in range(1, 129):
        phase = oscillator / i
        if not 10 <= phase <= 400:
            continue
        for op in range(ceil(400 / phase), min(128, int(800 / phase)) + 1):
            vco = phase * op
            for os in {floor(vco / mhz), ceil(vco / mhz)} & set(range(1, 129)):
                if Fraction(3125, 1000) <= vco / os <= 400:
                    yield vco / os, {"CLKI_DIV": i, "CLKFB_DIV": 1, "CLKOP_DIV": op, "CLKOS_DIV": os}


def _ice40(oscillator: Fraction, mhz: Fraction) -> Settings:
    """SB_PLL40 with FEEDBACK_PATH SIMPLE. Lattice FPGA-TN-02052 and FPGA-DS-02029, table 4.13: PFD, VCO and outputs."""
    for r in range(16):
        phase = oscillator / (r + 1)
        if not 10 <= phase <= 133:
            continue
        filters = (17, 26, 44, 66, 101)
        filter_range = 1 + sum(phase >= bound for bound in filters)
        for q in range(1, 7):
            times = mhz * 2**q / phase
            for f in {floor(times) - 1, ceil(times) - 1} & set(range(128)):
                vco, made = phase * (f + 1), phase * (f + 1) / 2**q
                if 533 <= vco <= 1066 and 16 <= made <= 275:
                    yield made, {"DIVR": r, "DIVF": f, "DIVQ": q, "FILTER_RANGE": filter_range}


def _gowin(oscillator: Fraction, mhz: Fraction) -> Settings:
    """rPLL. Gowin UG286, chapter 6; DS117 and DS226: PFD, VCO and output, by the slowest grades of the chips."""
    for i in range(64):
        phase = oscillator / (i + 1)
        if not 3 <= phase <= 400:
            continue
        for fb in {floor(mhz / phase) - 1, ceil(mhz / phase) - 1} & set(range(64)):
            made = phase * (fb + 1)
            for o in (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128):
                if 500 <= made * o <= 1200 and 4 <= made <= 400:
                    yield made, {"IDIV_SEL": i, "FBDIV_SEL": fb, "ODIV_SEL": o}


CLOCKING = {
    "ecp5": Clocking(_ecp5, reset_us=1),
    # For some 3 µs after configuration block RAMs read as zeros, see project icestorm's issue 76; five times that.
    "ice40": Clocking(_ice40, reset_us=15, pll_pads={"sg48": "35"}),
    "gowin": Clocking(_gowin, reset_us=1),
}
"""By the family's module of primitives."""
