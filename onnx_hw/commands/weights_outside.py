"""Weights outside the chip in a build: which ones, and the file that a board's flash gets."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from onnx_hw.assemble.netlist import require_memory
from onnx_hw.assemble.tape_file import TAPE_FILE, write_tape
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.prove.circuit.tape_check import check_tape, tape_error
from onnx_hw.report.recorder import Recorder
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.options import MemoryChoice
from onnx_hw.runtime.schedule_request import ScheduleRequest, WeightPlace
from onnx_hw.schedule.choose_outside import all_outside, put_outside, put_outside_what_does_not_fit
from onnx_hw.schedule.link_bandwidth import most_frames_a_second
from onnx_hw.schedule.schedule_for_board import clock_of, most_frames_from_memory
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard

NOTHING_OUTSIDE = (
    "no weights come from outside the chip: each layer would need as much memory for its pixels",
    "a dense layer does not, nor a convolution of few pixels; leave out --memory",
)


def with_weights_outside(
    choice: MemoryChoice,
    board: Board,
    network: Network,
    request: ScheduleRequest,
    warn: Callable[[Iterable[tuple[str, str]]], None],
) -> tuple[Network, ScheduleRequest]:
    """Return the network with the weights outside the chip that a user asks for, and the request with their memory.

    Raises:
        UserError: the board has no memory for them.
    """
    if choice is MemoryChoice.NONE:
        return network, request
    require_memory(board, sdram=choice is MemoryChoice.SDRAM)
    if choice is MemoryChoice.SDRAM:
        request = replace(request, memory=WeightPlace.SDRAM)
    if choice is MemoryChoice.AUTO:
        outside = put_outside_what_does_not_fit(board, network, request)
        return outside, replace(request, memory=memory_quick_enough(board, outside, request))
    tiles = all_outside(network)
    if not tiles:
        warn([NOTHING_OUTSIDE])
    return put_outside(network, tiles), request


def memory_quick_enough(board: Board, network: Network, request: ScheduleRequest) -> WeightPlace:
    """Return the flash where weights from it come as fast as a design is asked for, or as its link; else the SDRAM.

    Without an SDRAM, or one that is too slow for the clock, it is the flash.
    """
    clock_mhz = clock_of(board, request.clock_mhz)
    if board.sdram is None or clock_mhz > board.sdram.clock_mhz[-1]:
        return WeightPlace.FLASH
    asked = request.fps or math.inf
    if isinstance(board, LinkedBoard):
        asked = min(asked, most_frames_a_second(network, board.link))
    quick = most_frames_from_memory(board, network, clock_mhz, WeightPlace.FLASH) >= asked
    return WeightPlace.FLASH if quick else WeightPlace.SDRAM


def write_checked_tape(folder: BuildFolder, recorder: Recorder, design: Design) -> None:
    """Write what the board's flash gets, where weights lie there, and note the file in the report.

    Raises:
        UserError: read back, the file holds other weights than the network.
    """
    if design.tape is None:
        return
    file = folder.path / TAPE_FILE
    write_tape(folder.path, design)
    check = check_tape(file, design)
    if check.wrong:
        raise tape_error(check, file)
    recorder.record_file("tape", TAPE_FILE)
    recorder.record(tape_sha256=hashlib.sha256(file.read_bytes()).hexdigest())
