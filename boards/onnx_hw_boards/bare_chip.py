"""A chip by itself: every stream on pins of its own, the clock and the reset from outside."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx_hw_boards.board import Board


@dataclass(frozen=True, kw_only=True)
class BareChip(Board):
    """A chip without a board.

    Attributes:
        clock_pin: pin at which the clock arrives.
        reset_pin: pin of the reset, active high; synchronised inside.
        pins: pins free for streams, in the order in which they are used.
        io_type: electrical standard of every pin, where the family has several.
        pull: pull of every pin where the constraints state none: up, down or none; empty for any.
    """

    clock_pin: str
    reset_pin: str
    pins: tuple[str, ...] = field(repr=False)
    io_type: str = "LVCMOS33"
    pull: str = ""
