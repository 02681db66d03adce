"""Row of an exploration: what is known of one choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from onnx_hw.commands.explore.grid import Choice
from onnx_hw.commands.explore.pareto import front, knee
from onnx_hw_boards.cells import Cells


class State(StrEnum):
    """How far a choice has come, or where it ended."""

    WAITING = "waiting"
    PLANNED = "planned"
    SYNTHESIZED = "synthesized"
    ROUTED = "routed"
    PACKED = "packed"
    REFUSED = "refused"  # there is no such design
    SAME = "same"  # as another row
    DOMINATED = "dominated"  # another design is better in every respect, by estimate
    TOO_BIG = "too big"
    FAILED = "failed"
    LEFT_OUT = "left out"  # nobody waits for it any more


ENDED = frozenset({State.REFUSED, State.SAME, State.DOMINATED, State.TOO_BIG, State.FAILED, State.LEFT_OUT})


@dataclass(frozen=True)
class ExploreRow:
    """Choice, and what is known of it.

    Attributes:
        number: of the row, from 1.
        command: that builds it, bit for bit.
        why: it is not further, in words.
        lanes: products a cycle.
        interval: cycles from one frame to the next.
        latency: cycles of a frame alone, from its first beat in to its last beat out.
        estimate: cells, before synthesis.
        used: cells, as yosys counts them.
        target_mhz: the clock it was routed for; ``fmax_mhz`` the one it reaches.
        frames_per_second: at the clock it can run at; None where it misses one that it needs.
        sqnr_db: signal-to-noise ratio of the worst output against the float model, dB; None where it is not known.
        accuracy: share of labelled samples that the integers get right, 0..1; None without labels.
        bitstream: SHA-256.
        best: nothing else has fewer cells of each kind, more frames a second and more accuracy, or less noise where
            there are no labels; and less latency, where a choice asks for that.
        knee: of those the one nearest to the best of everything.
    """

    number: int
    choice: Choice
    command: str
    state: State = State.WAITING
    why: str = ""
    lanes: int | None = None
    interval: int | None = None
    latency: int | None = None
    estimate: Cells | None = None
    used: Cells | None = None
    target_mhz: float | None = None
    fmax_mhz: float | None = None
    frames_per_second: float | None = None
    sqnr_db: float | None = None
    accuracy: float | None = None
    bitstream: str = ""
    best: bool = False
    knee: bool = False

    @property
    def cells(self) -> Cells | None:
        """Cells that synthesis counts, or else the estimate."""
        return self.used or self.estimate

    @property
    def latency_us(self) -> float | None:
        """Microseconds of a frame alone, at the clock that it was planned for."""
        return None if self.latency is None or self.target_mhz is None else self.latency / self.target_mhz


def with_front(rows: Iterable[ExploreRow]) -> tuple[ExploreRow, ...]:
    """Return the rows with the front marked: of the routed rows, or of the planned ones where no row is routed."""
    rows = tuple(rows)
    done = [row for row in rows if row.frames_per_second is not None and row.state not in ENDED and row.cells]
    routed = [row for row in done if row.fmax_mhz is not None]
    done = routed or done
    losses, counts = _losses(done), any(row.choice.scheduling.wants_latency for row in rows)
    costs = [
        (*costs_of(row.cells, 1 / row.frames_per_second, (row.latency_us or 0.0) if counts else 0.0), loss)
        for row, loss in zip(done, losses, strict=True)
        if row.cells and row.frames_per_second
    ]
    best = [row.number for row, first in zip(done, front(costs), strict=True) if first]
    of_best = [cost for row, cost in zip(done, costs, strict=True) if row.number in best]
    middle = knee(of_best)
    chosen = None if middle is None else best[middle]
    return tuple(replace(row, best=row.number in best, knee=row.number == chosen) for row in rows)


def costs_of(cells: Cells, seconds: float, latency: float) -> tuple[float, ...]:
    """Return the quantities that should be small; a latency of 0 where it does not count."""
    return seconds, latency, cells.lut, cells.dsp, cells.bram


def _losses(rows: Sequence[ExploreRow]) -> list[float]:
    """Return what should be small of the networks' quality: wrong answers or, without labels, noise in dB."""
    if any(row.accuracy is not None for row in rows):
        return [1.0 - (row.accuracy or 0.0) for row in rows]
    if any(row.sqnr_db is not None for row in rows):
        return [0.0 if row.sqnr_db is None else -row.sqnr_db for row in rows]
    return [0.0] * len(rows)
