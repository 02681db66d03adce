"""Target of a design: the board that it is for, and the clock there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import onnx_hw_boards
from onnx_hw_boards.board import Board
from onnx_hw_boards.families.family import Price


@dataclass(frozen=True)
class DesignTarget:
    """The board, or bare chip, that a design is for, and the design's clock there, in MHz."""

    board: Board
    clock_mhz: float

    @property
    def price(self) -> Price:
        """Cells of the chip that a demand takes."""
        return self.board.family.cost

    @property
    def deepest_at_once(self) -> int:
        """Tokens of the deepest FIFO that is not in block RAM."""
        return self.board.family.deepest_at_once

    def frames_per_second(self, cycles: float) -> float:
        """Return the rate of frames that take ``cycles`` clock cycles each."""
        return self.clock_mhz * 1e6 / cycles

    def __repr__(self) -> str:
        return f"{self.board.name} at {self.clock_mhz:g} MHz"


@cache
def default_target() -> DesignTarget:
    """Return the target of a design that was built without one: the default chip."""
    return DesignTarget(onnx_hw_boards.board("ecp5"), 80.0)
