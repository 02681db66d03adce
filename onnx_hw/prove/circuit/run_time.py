"""Estimated time of a simulation of gates (links 4 and 5), stated before a long one begins."""

from __future__ import annotations

LONG_MINUTES = 3
"""Minutes from which on a simulation is announced: a frame of 200 million cycles takes more than an hour."""

OPTION_WITHOUT = {"netlist": "--no-gate-level", "bitstream": "--no-bitstream-check"}
"""Option of a build that leaves a simulation out, by what is simulated."""


def announce_long_run(cycles: float, nanoseconds: float, whose: str) -> str:
    """Return the end of a progress message: how long a simulation takes, where that is long; else nothing.

    Args:
        cycles: clock cycles of all runs, which go side by side.
        nanoseconds: estimated time of a cycle.
        whose: what is simulated: "netlist" or "bitstream".
    """
    minutes = round(cycles * nanoseconds / 60e9)
    if minutes < LONG_MINUTES:
        return ""
    return f"; about {minutes:,} minutes, {OPTION_WITHOUT[whose]} leaves it out"
