"""Result of an exploration."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from onnx_hw.commands.explore.row import ExploreRow


@dataclass
class Tally:
    """Counts of tasks that were run and that were in the store, by stage; bytes of parcels to and from workers."""

    run: dict[str, int] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    received: int = 0


@dataclass(frozen=True)
class Explored:
    """Result of an exploration.

    Attributes:
        folder: folder with ``explore.json`` and ``explore.html``.
        rows: row of every choice.
        tally: work that it took.
        seconds: time that it took.
    """

    folder: Path
    rows: tuple[ExploreRow, ...]
    tally: Tally
    seconds: float

    def __repr__(self) -> str:
        return f"Explored {len(self.rows)} choices, {sum(row.best for row in self.rows)} in front"
