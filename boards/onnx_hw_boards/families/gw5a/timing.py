"""Timing of a routed Arora V, from the delays that nextpnr writes (SDF), and of the cells that it leaves out.

nextpnr 0.11 has neither arcs nor checks for multipliers and for block RAM with an output register: paths that begin or
end there do not count in the clock that it states. This analysis counts them, too.

Delays of a multiplier are assumed, because no document at hand states them: they are those of a block three times as
slow as the flip-flops and block RAMs of the same chip. Those of block RAM are in Apycula's database, ``bram``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from onnx_hw_boards.families.family import SlowestPath


@dataclass(frozen=True)
class _Hidden:
    """Delays in ps of a kind of cell that nextpnr does not time.

    Attributes:
        clock_to_output, setup: as usual.
        inside: the longest time from a register to the next one inside the cell.
    """

    clock_to_output: int
    setup: int
    inside: int = 0


_HIDDEN = {
    "MULT12X12": _Hidden(1000, 500, 5000),
    "MULTALU27X18": _Hidden(3000, 500, 5000),  # the output comes from the register of the product, through an adder
    "ROM": _Hidden(307, 438),
}

_TABLE = {"I0": 549, "I1": 570, "I2": 462, "I3": 371}
"""Delays in ps of a look-up table that nextpnr made on the way to a flip-flop, which has none in its file."""

_INTERCONNECT = re.compile(r"\(INTERCONNECT (\S+)/(\S+) (\S+)/(\S+) \(([\d:]*)\) \(([\d:]*)\)\)")
_ARC = re.compile(r"\(IOPATH (\S+) (\S+) \(([\d:]*)\) \(([\d:]*)\)\)")
_CHECK = re.compile(r"\(SETUPHOLD \(\w+ (\S+)\) \(\w+ (\S+)\) \(([\d:]*)\)")

_Pin = tuple[str, str]


@dataclass
class _Delays:
    """Delays of a chip in ps.

    Attributes:
        kinds: kind of cell, by cell.
        wires: the pins that a pin drives, with the delays.
        arcs: the same, within cells.
        launches, checks: the time from the clock to a pin, and the time before the clock that a pin must be stable.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    wires: dict[_Pin, list[tuple[_Pin, int]]] = field(default_factory=lambda: defaultdict(list))
    arcs: dict[_Pin, list[tuple[_Pin, int]]] = field(default_factory=lambda: defaultdict(list))
    launches: dict[_Pin, int] = field(default_factory=dict)
    checks: dict[_Pin, int] = field(default_factory=dict)


def _latest(*texts: str) -> int:
    """Return the greatest of several triples ``early:typical:late``."""
    return max(int(part) for text in texts for part in text.split(":") if part)


def _read(lines: Iterable[str]) -> _Delays:
    delays, kind, cell = _Delays(), "", ""
    for line in lines:
        text = line.strip().replace("\\", "")
        if text.startswith("(INTERCONNECT"):
            match = _INTERCONNECT.match(text)
            assert match is not None, text
            driver, out, load, pin, rise, fall = match.groups()
            delays.wires[driver, out].append(((load, pin), _latest(rise, fall)))
        elif text.startswith("(CELLTYPE"):
            kind = text.split('"')[1]
        elif text.startswith("(INSTANCE"):
            cell = text.removeprefix("(INSTANCE").removesuffix(")").strip()
            delays.kinds[cell] = kind
        elif match := _ARC.match(text):
            pin, out, rise, fall = match.groups()
            if pin.startswith("CLK"):
                delays.launches[cell, out] = _latest(rise, fall)
            else:
                delays.arcs[cell, pin].append(((cell, out), _latest(rise, fall)))
        elif match := _CHECK.match(text):
            pin, _, setup = match.groups()
            delays.checks[cell, pin] = max(_latest(setup), delays.checks.get((cell, pin), 0))
    return delays


def _with_hidden(delays: _Delays) -> None:
    """Add what the file lacks: launches and checks of hidden cells, and arcs of tables that only pass a signal on."""
    loads = [pin for sinks in delays.wires.values() for pin, _ in sinks]
    for cell, out in list(delays.wires):
        if hidden := _HIDDEN.get(delays.kinds[cell]):
            delays.launches[cell, out] = hidden.clock_to_output
    outputs = defaultdict(list)
    for cell, out in delays.wires:
        outputs[cell].append(out)
    for cell, pin in loads:
        kind = delays.kinds[cell]
        if (hidden := _HIDDEN.get(kind)) and not pin.startswith("CLK"):
            delays.checks[cell, pin] = hidden.setup
        elif kind == "LUT4" and (cell, pin) not in delays.arcs:
            delays.arcs[cell, pin] = [((cell, out), _TABLE[pin]) for out in outputs[cell]]


def _arrivals(delays: _Delays) -> tuple[dict[_Pin, int], dict[_Pin, _Pin]]:
    """Return the latest time of each pin after the clock, and the pin before it on that path.

    Raises:
        ValueError: combinational logic has a loop.
    """
    successors: dict[_Pin, list[tuple[_Pin, int]]] = defaultdict(list)
    for edges in (delays.wires, delays.arcs):
        for pin, sinks in edges.items():
            successors[pin] += sinks
    waiting: dict[_Pin, int] = defaultdict(int)
    for sinks in successors.values():
        for pin, _ in sinks:
            waiting[pin] += 1
    times, before = dict(delays.launches), dict[_Pin, _Pin]()
    ready = [pin for pin in {*successors, *delays.launches} if not waiting[pin]]
    left = len(waiting.keys() | successors.keys() | delays.launches.keys())
    while ready:
        pin = ready.pop()
        left -= 1
        for sink, delay in successors.get(pin, ()):
            if pin in times and times[pin] + delay > times.get(sink, -1):
                times[sink], before[sink] = times[pin] + delay, pin
            waiting[sink] -= 1
            if not waiting[sink]:
                ready.append(sink)
    if left:
        raise ValueError(f"{left} pins of combinational logic wait for each other")
    return times, before


def _path(pin: _Pin, before: dict[_Pin, _Pin]) -> Iterator[_Pin]:
    while True:
        yield pin
        if pin not in before:
            return
        pin = before[pin]


def slowest_path(lines: Iterable[str]) -> SlowestPath:
    """Return the slowest path from register to register.

    Args:
        lines: the file that nextpnr writes with ``--sdf``.

    Raises:
        ValueError: combinational logic has a loop, or there is no path.
    """
    delays = _read(lines)
    _with_hidden(delays)
    times, before = _arrivals(delays)
    ends = [pin for pin in delays.checks if pin in times]
    inside = max((_HIDDEN[kind].inside for kind in delays.kinds.values() if kind in _HIDDEN), default=0)
    if not ends:
        raise ValueError("no register drives another one")
    last = max(ends, key=lambda pin: times[pin] + delays.checks[pin])
    period = times[last] + delays.checks[last]
    if inside >= period:
        cell = next(cell for cell, kind in delays.kinds.items() if kind in _HIDDEN and _HIDDEN[kind].inside == inside)
        return SlowestPath(1e6 / inside, cell, cell, inside / 1e3, 0.0)
    path = list(_path(last, before))
    wire = {(driver, load): delay for driver, loads in delays.wires.items() for load, delay in loads}
    routing = sum(wire.get((driver, load), 0) for load, driver in pairwise(path))
    return SlowestPath(1e6 / period, path[-1][0], last[0], (period - routing) / 1e3, routing / 1e3)
