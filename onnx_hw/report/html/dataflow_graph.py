"""Dataflow graph as a list of rows next to a picture of tracks, as version control draws its history.

There is a row per input, core and output, in the order of the data. A track runs from the row that produces a tensor to
the row that consumes it. Texts can never overlap, whatever the graph is, and the page also fits a narrow screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROW = 44  # pixels, as in the style sheet
COLUMN = 16
MARGIN = 10


@dataclass(frozen=True)
class Station:
    """Row: the tensors that end in it, and those that begin in it."""

    takes: tuple[str, ...]
    gives: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True)
class Dot:
    """Mark of a station in the picture; coordinates in pixels."""

    x: float
    y: float
    kind: str


@dataclass(frozen=True)
class Picture:
    """Picture of all tracks; sizes in pixels, ``paths`` in the syntax of SVG."""

    width: int
    height: int
    paths: tuple[str, ...]
    dots: tuple[Dot, ...]


def draw(stations: Sequence[Station]) -> Picture:
    """Draw the tracks between stations; each tensor begins at one station and ends at a later one."""
    tracks: list[str | None] = []
    paths: list[str] = []
    dots: list[Dot] = []

    def free() -> int:
        if None not in tracks:
            tracks.append(None)
        return tracks.index(None)

    for number, station in enumerate(stations):
        top, middle, bottom = number * ROW, number * ROW + ROW // 2, (number + 1) * ROW
        arriving = [column for column, tensor in enumerate(tracks) if tensor in station.takes and tensor is not None]
        passing = [column for column, tensor in enumerate(tracks) if tensor is not None and column not in arriving]
        here = arriving[0] if arriving else free()
        paths += [f"M{_x(column)} {top}V{bottom}" for column in passing]
        paths += [_curve(column, top, here, middle) for column in arriving]
        for column in arriving:
            tracks[column] = None
        for tensor in station.gives:
            column = here if tracks[here] is None else free()
            tracks[column] = tensor
            paths.append(_curve(here, middle, column, bottom))
        dots.append(Dot(_x(here), middle, station.kind))
    return Picture(2 * MARGIN + COLUMN * max(0, len(tracks) - 1), ROW * len(stations), tuple(paths), tuple(dots))


def _x(column: int) -> int:
    return MARGIN + COLUMN * column


def _curve(column: int, top: int, to: int, bottom: int) -> str:
    if column == to:
        return f"M{_x(column)} {top}V{bottom}"
    half = (top + bottom) // 2
    return f"M{_x(column)} {top}C{_x(column)} {half} {_x(to)} {half} {_x(to)} {bottom}"
