"""Streams on pins: how many are needed, which bit gets which, and the constraints for nextpnr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx_hw_boards.bare_chip import BareChip

_HANDSHAKE = 2  # valid and ready


@dataclass(frozen=True)
class PadStream:
    """A stream that leaves the chip: ``{name}_payload`` (``lanes * bits`` wide), ``{name}_valid``, ``{name}_ready``."""

    name: str
    lanes: int
    bits: int

    @property
    def pins(self) -> int:
        return self.lanes * self.bits + _HANDSHAKE


class NotEnoughPins(Exception):
    """The streams need more pins than the board has.

    Attributes:
        needed, available: pins.
        lanes: the most lanes per stream with which all streams fit, or 0 if not even one lane each does.
    """

    def __init__(self, needed: int, available: int, lanes: int) -> None:
        super().__init__(f"the streams need {needed} pins, there are {available}")
        self.needed, self.available, self.lanes = needed, available, lanes


def place(board: BareChip, streams: Sequence[PadStream]) -> dict[str, str]:
    """Return the pin of every port bit, by its name in the netlist, clock and reset included.

    Raises:
        NotEnoughPins: the exception has the number of lanes that would fit.
    """
    needed = sum(stream.pins for stream in streams)
    if needed > len(board.pins):
        raise NotEnoughPins(needed, len(board.pins), _lanes_that_fit(streams, len(board.pins)))
    ports = ["clk", "rst"]
    for stream in streams:
        width = stream.lanes * stream.bits
        ports += [f"{stream.name}_payload[{k}]" for k in range(width)] if width > 1 else [f"{stream.name}_payload"]
        ports += [f"{stream.name}_valid", f"{stream.name}_ready"]
    return dict(zip(ports, (board.clock_pin, board.reset_pin, *board.pins), strict=False))


def _lanes_that_fit(streams: Sequence[PadStream], available: int) -> int:
    lanes = 0
    most = max(stream.lanes for stream in streams)
    while lanes < most:
        narrowed = (min(stream.lanes, lanes + 1) * stream.bits + _HANDSHAKE for stream in streams)
        if sum(narrowed) > available:
            break
        lanes += 1
    return lanes


def constraints(board: BareChip, pin_of: Mapping[str, str], clock_mhz: float) -> str:
    """Return the text of nextpnr's file of constraints, as the board's family writes it."""
    return board.family.placement.dialect(pin_of, clock_mhz, board.io_type)
