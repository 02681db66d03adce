"""Figures of a report, derived a second time: from what was simulated, sent and written by place and route.

No simulation lasts a second, and timing within a cycle is the analysis of the router. So a rate that is calculated
wrongly differs from nothing else in a build. Here each is calculated again, of other facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isclose

from onnx_hw.commands.wire_load import bytes_of_a_frame
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.report.model import Report
from onnx_hw_link.link import Link

BITS_PER_BYTE = {"uart": 10, "spi": 8}
"""Bits on the wire for a byte, by the kind of a link."""

CARRIED = 0.98, 1.02
"""Least and greatest ratio of the rate that the report states for a link to the one that the driver's packets give.

They differ where the last packets of neighbouring frames have an unequal number of bytes.
"""

EXACT = 1e-6
"""Relative difference of two ways to calculate the same figure."""

STEADY_FRAMES = 4
"""Number of simulated frames from which on one that comes late counts: of fewer, the first may have come early."""

ROUNDED_MHZ = 0.02
"""Difference in MHz of a clock that is written with two digits."""

_ACHIEVED = re.compile(r"Max frequency for clock\s+'?(.+?)'?: ([0-9.]+) MHz")


def clocks_of_log(log: str) -> dict[str, float]:
    """Return the frequency that each clock can have, MHz: what nextpnr said of it last, behind routing."""
    return {name: float(mhz) for name, mhz in _ACHIEVED.findall(log)}


def different_figures(
    report: Report, link: Link | None, kind: str, log: str, *, log_times_all: bool = True
) -> Iterator[str]:
    """Yield a sentence for each figure of a report that its second derivation does not confirm.

    Args:
        link: facts of the link of the board; None without one.
        kind: kind of the link, such as ``uart``.
        log: what nextpnr printed; empty before it ran.
        log_times_all: whether nextpnr times all cells of the chip; if not, the clock may be slower than in the log.
    """
    reached = clocks_of_log(log)
    slowest = min(reached, key=lambda clock: reached[clock]) if reached else ""
    section = report.synthesis
    if slowest and section is not None and section.fmax_mhz is not None:
        mhz = reached[slowest]
        logged = f"in nextpnr's log `{slowest}` reaches {mhz:g} MHz"
        if not log_times_all:
            mhz = min(mhz, section.fmax_mhz)
        if abs(section.fmax_mhz - mhz) > ROUNDED_MHZ:
            yield f"the highest clock is stated as {section.fmax_mhz:g} MHz; {logged}"
        target = section.target_mhz or 0.0
        if abs(mhz - target) > ROUNDED_MHZ and (mhz > target) != section.timing_met:
            said = "met" if section.timing_met else "missed"
            yield f"the clock of {target:g} MHz is stated to be {said}; {logged}"
    yield from _rates(report, None if section is None else section.fmax_mhz)
    if report.serial is not None and link is not None:
        yield from _link(report, link, kind)


def _rates(report: Report, reached_mhz: float | None) -> Iterator[str]:
    """Compare the rates of the circuit with the cycles between the ends of two frames that were simulated.

    The first frames may come faster than those behind them, while FIFOs fill. Of a few frames, the first may also come
    early: a part of it, such as a state that is kept, waits for less than the same part of later ones.
    """
    design, simulation = report.design, report.simulation
    if design is None or simulation is None or not simulation.interval_cycles:
        return
    if simulation.interval_cycles > design.interval_cycles and simulation.frames >= STEADY_FRAMES:
        yield (
            f"a frame is stated to take {design.interval_cycles:,} cycles, and {simulation.interval_cycles:,} were "
            "simulated from one to the next"
        )
    elif simulation.interval_cycles == design.interval_cycles:
        runs_at = design.clock_mhz if reached_mhz is None or report.serial is not None else reached_mhz
        for what, stated, mhz in (
            ("the circuit", design.frames_per_second, design.clock_mhz),
            ("the circuit at the clock it runs at", report.running_frames_per_second or 0.0, runs_at),
        ):
            microseconds = simulation.interval_cycles / mhz
            if not isclose(stated * microseconds, 1e6, rel_tol=EXACT):
                yield (
                    f"the rate of {what} is stated as {stated:,.6g} frames a second; {simulation.interval_cycles:,} "
                    f"simulated cycles at {mhz:g} MHz take {microseconds:,.6g} µs"
                )


def _link(report: Report, link: Link, kind: str) -> Iterator[str]:
    """Compare the rate of a link with the bytes of the driver's packets."""
    serial, design = report.serial, report.design
    assert serial is not None
    sizes = (serial.bytes_in, serial.bytes_out), (link.input_bytes, link.output_bytes)
    if sizes[0] != sizes[1]:
        yield f"the frames are stated to have {sizes[0]} bytes in and out, and those of the link have {sizes[1]}"
    slowest = max(bytes_of_a_frame(link.greeting))
    counted = serial.baud / BITS_PER_BYTE[kind] / slowest
    least, most = CARRIED
    if not least * counted <= serial.frames_per_second <= most * counted:
        yield (
            f"the link is stated to carry {serial.frames_per_second:,.6g} frames a second; with {slowest:.1f} bytes a "
            f"frame in the driver's packets, {serial.baud:,} bits a second carry {counted:,.6g}"
        )
    if design is not None:
        rates = {"link": serial.frames_per_second, "circuit": design.frames_per_second}
        if not isclose(serial.delivered_frames_per_second, min(rates.values()), rel_tol=EXACT):
            delivered = f"{serial.delivered_frames_per_second:,.6g} frames a second"
            yield f"{delivered} are stated to be delivered, which is not the slower one of {rates}"
        if rates[serial.limit] > min(rates.values()) * (1 + EXACT):
            yield f"the {serial.limit} is stated to be the limit, and the other one is slower: {rates}"


def figure_error(differences: list[str]) -> UserError:
    """Return the error of figures that differ."""
    return user_error(
        "figures-differ",
        "; ".join(differences),
        hint="please report this: a figure of the report is calculated wrongly; outputs and bitstream are as proven",
        exit_code=ExitCode.MISMATCH,
        stage="report",
    )
