"""Targets of designs that tests make."""

from __future__ import annotations

from dataclasses import replace

import onnx_hw_boards
from onnx_hw.ir.design import Design
from onnx_hw.ir.target import DesignTarget
from onnx_hw_boards.board import Board


def ecp5_at(clock_mhz: float) -> DesignTarget:
    """Return a large chip with a clock."""
    return DesignTarget(onnx_hw_boards.board("ecp5"), clock_mhz)


def on_board(design: Design, board: Board, clock_mhz: float | None = None) -> Design:
    """Return a design for another board, at its own clock unless another one is given."""
    return replace(design, target=DesignTarget(board, clock_mhz or design.clock_mhz))


def with_deepest(design: Design, tokens: int) -> Design:
    """Return a design for a chip on which FIFOs of more tokens lie in block RAM."""
    board = design.target.board
    family = replace(board.family, deepest_at_once=tokens)
    return replace(
        design, target=replace(design.target, board=replace(board, device=replace(board.device, family=family)))
    )
