"""Decoded signals in a waveform: the integers that were transferred, and firings, in scopes with names of our choice.

They are written into the same VCD file, from a ``Recording``: each lane of a stream keeps the integer of the last
transfer, next to the integer that was expected. A save file for GTKWave lists them as signed decimals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from onnx_hw_sim.circuit import Recording

MAX_LISTED_LANES = 8
"""Number of lanes of a stream that the save file lists; the VCD has all of them."""

SIGNED_DECIMAL, BINARY, COMMENT = "@420", "@28", "@200"  # GTKWave's flags of a row
_BITS = 64


@dataclass(frozen=True)
class WaveScope:
    """Signals that belong together.

    Attributes:
        name: any text; characters that would split it in a viewer are replaced.
        engines: (label, engine).
        streams: (label, stream).
    """

    name: str
    engines: Sequence[tuple[str, str]] = ()
    streams: Sequence[tuple[str, str]] = field(default=())


def decode(
    vcd: Path,
    recording: Recording,
    scopes: Sequence[WaveScope],
    expected: Mapping[str, np.ndarray],
    *,
    cycle_ns: int,
    first: int,
    last: int,
) -> None:
    """Add the recorded transfers and firings to a waveform of cycles ``first`` to ``last``.

    Args:
        expected: by stream, (tokens, lanes) integers; not every stream needs an entry.
    """
    header, changes = _variables(recording, scopes, expected, first, last)
    fresh = vcd.with_name(vcd.name + ".new")
    with vcd.open(encoding="utf-8") as signals, fresh.open("w", encoding="utf-8") as both:
        for line in signals:
            if line.startswith("$enddefinitions"):
                both.writelines(header)
            both.write(line)
            if line.startswith("#"):
                both.writelines(changes.get(int(line[1:]) / cycle_ns, ()))
    os.replace(fresh, vcd)


def write_save_file(
    file: Path, scopes: Sequence[WaveScope], lanes: Mapping[str, int], *, at_ns: int, from_ns: int
) -> None:
    """Write a list of the decoded signals, for ``gtkwave X.vcd X.gtkw``, with the marker at a time.

    Args:
        lanes: number of lanes by stream.
        at_ns: time of the marker.
        from_ns: time at which the view begins.
    """
    rows = [f"[timestart] {from_ns}", f"*-6.0 {at_ns}" + " -1" * 26]
    for scope in scopes:
        rows += [COMMENT, f"-{scope.name}"]
        for label, _ in scope.engines:
            rows += [BINARY, f"{plain(scope.name)}.{plain(label)}_fires"]
        for label, stream in scope.streams:
            for kind in ("token", *(f"lane{k}" for k in range(min(MAX_LISTED_LANES, lanes[stream])))):
                rows += [SIGNED_DECIMAL, f"{plain(scope.name)}.{plain(label)}_{kind}[{_BITS - 1}:0]"]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")


def plain(name: str) -> str:
    """Return a name that no viewer splits."""
    return re.sub(r"[^A-Za-z0-9_/:-]", "_", name) or "_"


def _variables(
    recording: Recording, scopes: Sequence[WaveScope], expected: Mapping[str, np.ndarray], first: int, last: int
) -> tuple[list[str], dict[float, list[str]]]:
    """Return the declarations, and the changes at the beginning of each cycle."""
    header: list[str] = []
    changes: dict[float, list[str]] = {}
    keys = (f"={number:x}" for number in count())  # the simulator's keys begin otherwise

    def variable(bits: int, name: str) -> str:
        key = next(keys)
        header.append(f"$var wire {bits} {key} {name}{f' [{bits - 1}:0]' if bits > 1 else ''} $end\n")
        return key

    def change(cycle: int, text: str) -> None:
        changes.setdefault(cycle, []).append(text + "\n")

    for scope in scopes:
        header.append(f"$scope module {plain(scope.name)} $end\n")
        for label, engine in scope.engines:
            key = variable(1, f"{plain(label)}_fires")
            for cycle, level in _levels(recording.fires[engine], first, last):
                change(cycle, f"{level}{key}")
        for label, stream in scope.streams:
            cycles, tokens = recording.cycles_of[stream], recording.tokens[stream]
            within = np.flatnonzero((cycles >= first) & (cycles <= last))
            columns = [("token", np.arange(len(tokens))), *_lanes("lane", tokens)]
            columns += _lanes("golden", expected[stream]) if stream in expected else []
            for name, column in columns:
                key = variable(_BITS, f"{plain(label)}_{name}")
                before = None
                for k in within:
                    value = int(column[k]) if k < len(column) else None
                    if value != before:
                        change(int(cycles[k]), f"b{_binary(value)} {key}")
                    before = value
        header.append("$upscope $end\n")
    return header, changes


def _levels(fires: np.ndarray, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield (cycle, level) at every change of a bit that is high in some cycles."""
    up = set(fires[(fires >= first) & (fires <= last)].tolist())
    level = -1
    for cycle in sorted({first, *up, *(cycle + 1 for cycle in up if cycle < last)}):
        if (cycle in up) != level:
            level = int(cycle in up)
            yield cycle, level


def _lanes(name: str, tokens: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(f"{name}{k}", tokens[:, k]) for k in range(tokens.shape[1])]


def _binary(value: int | None) -> str:
    return "x" if value is None else format(value % (1 << _BITS), "b").rjust(_BITS, "0")
