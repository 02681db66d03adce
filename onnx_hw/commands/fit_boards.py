"""Boards on which a model fits, and its speed there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_hw_boards
from onnx_hw import flow
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import UserError
from onnx_hw.messages.html import duration, frame_rate
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.quantization.scheme_from_options import scheme_from_options
from onnx_hw.report.collect.sections import describe_serial
from onnx_hw.runtime.options import QuantizeOptions, ReadOptions
from onnx_hw.schedule.schedule_for_board import clock_of, schedule_for_board
from onnx_hw.schedule.search_latency import cycles_of_frame_alone
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard


@dataclass(frozen=True)
class BoardFit:
    """Result for a model on a board.

    Attributes:
        lanes: products per cycle.
        frames_per_second: rate, through the board's link where it has one.
        limit: what bounds the rate, ``link`` or ``circuit``.
        latency_us: microseconds from a frame's first beat in to its last beat out, in the idle circuit; the time on the
            link is not in it.
    """

    lanes: int
    frames_per_second: float
    limit: str
    latency_us: float

    def __repr__(self) -> str:
        rate = f"{frame_rate(self.frames_per_second)}, bounded by the {self.limit}"
        return f"{self.lanes:,} lanes, {rate}; a frame alone takes {duration(self.latency_us * 1e-6)}"


def fit_boards(
    model: Path,
    names: Sequence[str] | None = None,
    reading: ReadOptions | None = None,
    quantizing: QuantizeOptions | None = None,
) -> Iterator[tuple[Board, BoardFit | UserError]]:
    """Yield boards with the result of a build with these options there, or the reason why it is not possible.

    A float model is tried with assumed scales, as ``commands.check.check_hardware`` does.

    Args:
        names: names of the boards; None for all of them.

    Raises:
        UserError: the model cannot become a circuit at all.
    """
    scheme = scheme_from_options(quantizing or QuantizeOptions())
    network = verify_network(flow.quantized(flow.read(model, reading), assume_ranges, scheme).network)
    known: dict[object, BoardFit | UserError] = {}
    for name in onnx_hw_boards.names() if names is None else names:
        board = onnx_hw_boards.board(name)
        link = board.link.bits_per_second if isinstance(board, LinkedBoard) else name
        alike = board.device.name, board.cells, clock_of(board, None), link
        if alike not in known:
            try:
                design, _ = schedule_for_board(board, network)
            except UserError as error:
                known[alike] = error
            else:
                serial = describe_serial(design)
                speed, limit = design.frames_per_second, "circuit"
                if serial is not None:
                    speed, limit = serial.delivered_frames_per_second, serial.limit
                latency = cycles_of_frame_alone(design) / design.clock_mhz
                known[alike] = BoardFit(design.resources().mac_lanes, speed, limit, latency)
        yield board, known[alike]
